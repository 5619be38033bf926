//===- LowerBlocks.cpp - tile-lower-blocks ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILELOWERBLOCKS
#include "transforms/Passes.h.inc"

namespace {

struct TileLowerBlocks : impl::TileLowerBlocksBase<TileLowerBlocks> {
  void runOnOperation() override {
    SmallVector<tile::BlocksOp> loops;
    getOperation().walk([&](tile::BlocksOp loop) { loops.push_back(loop); });
    for (tile::BlocksOp loop : loops)
      lower(loop);
  }

  static void lower(tile::BlocksOp loop) {
    OpBuilder builder(loop);
    Location loc = loop.getLoc();
    auto constant = [&](OpBuilder &b, int64_t value) -> Value {
      return arith::ConstantIntOp::create(b, loc, value, 32);
    };
    auto keysType = cast<tile::BlockType>(loop.getKeys().getType());
    Value rows = constant(builder, keysType.getRows());
    Value zero = constant(builder, 0), one = constant(builder, 1);

    Value low = zero, high;
    if (loop.getRange().empty()) {
      high = tile::ExtentOp::create(builder, loc, builder.getI32Type(), "Sk");
    } else {
      low = loop.getRange()[0];
      high = loop.getRange()[1];
    }
    // ceildiv(high, rows) without leaving i32; no block where the interval is empty.
    Value firstBlock = arith::DivUIOp::create(builder, loc, low, rows);
    Value whole = arith::DivUIOp::create(builder, loc, high, rows);
    Value remainder = arith::RemUIOp::create(builder, loc, high, rows);
    Value hasRemainder =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, remainder, zero);
    Value endBlock = arith::AddIOp::create(
        builder, loc, whole,
        arith::ExtUIOp::create(builder, loc, builder.getI32Type(), hasRemainder));
    Value isEmpty = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, low, high);
    endBlock = arith::SelectOp::create(builder, loc, isEmpty, firstBlock, endBlock);

    auto newLoop = scf::ForOp::create(builder, loc, firstBlock, endBlock, one, loop.getInit());
    Block *body = newLoop.getBody();
    if (!body->empty() && body->back().hasTrait<OpTrait::IsTerminator>())
      body->back().erase(); // without carried values the builder has made one
    OpBuilder inner = OpBuilder::atBlockEnd(body);
    Value index = newLoop.getInductionVar();
    Value keys = tile::BlockAtOp::create(inner, loc, keysType, loop.getRows(), index);
    Value partial = arith::ConstantIntOp::create(inner, loc, 1, 1);
    if (!loop.getFull().empty()) {
      // Inside [fullLow, fullHigh): first >= fullLow and first <= fullHigh - rows.
      Value first = arith::MulIOp::create(inner, loc, index, rows);
      Value lastStart = arith::SubIOp::create(inner, loc, loop.getFull()[1], rows);
      Value before =
          arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::slt, first, loop.getFull()[0]);
      Value after = arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::sgt, first, lastStart);
      partial = arith::OrIOp::create(inner, loc, before, after);
    }
    IRMapping mapping;
    mapping.map(loop.getKeys(), keys);
    mapping.map(loop.getPartial(), partial);
    for (auto [argument, carried] :
         llvm::zip(loop.getBody().getArguments().drop_front(2), newLoop.getRegionIterArgs()))
      mapping.map(argument, carried);
    for (Operation &op : loop.getBody().front()) {
      if (auto yield = dyn_cast<tile::YieldOp>(op)) {
        SmallVector<Value> values;
        for (Value value : yield.getValues())
          values.push_back(mapping.lookup(value));
        scf::YieldOp::create(inner, loc, values);
      } else {
        inner.clone(op, mapping);
      }
    }
    loop.replaceAllUsesWith(newLoop.getResults());
    loop.erase();
  }
};

} // namespace
} // namespace tesela
