//===- DecomposeAttention.cpp - tile-decompose ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/RowMap.h"
#include "frontend/emit/ExpandArithmetic.h"
#include "transforms/DecomposeSoftmax.h"
#include "transforms/Passes.h"
#include "transforms/TileEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEDECOMPOSE
#include "transforms/Passes.h.inc"

namespace {

struct TileDecompose : impl::TileDecomposeBase<TileDecompose> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    bool hasFoundBlocks = false;
    getOperation().walk([&](Operation *op) {
      if (isa<tile::MaskOp, tile::SoftmaxStepOp, tile::RescaleOp, tile::FinishOp>(op))
        ops.push_back(op);
      hasFoundBlocks |= isa<tile::FoundBlockOp>(op);
    });
    SoftmaxDecomposition softmax(hasFoundBlocks);
    for (Operation *op : ops) {
      if (auto mask = dyn_cast<tile::MaskOp>(op))
        decompose(mask);
      else if (auto step = dyn_cast<tile::SoftmaxStepOp>(op))
        softmax.decompose(step);
      else if (auto rescale = dyn_cast<tile::RescaleOp>(op))
        softmax.decompose(rescale);
      else
        softmax.decompose(cast<tile::FinishOp>(op));
      op->erase();
    }
    expandAttnArithmetic(getOperation().getBody());
  }

  /// The values of b h hkv, and the first q and k, of a block of scores, whose rows may have
  /// `heads` heads from h on.
  struct Place {
    Value batch, head, kvHead, firstQuery, firstKey;
    int64_t heads;

    Place(OpBuilder &builder, Location loc, Value rows, Value keys)
        : heads(cast<tile::BlockType>(rows.getType()).getHeadCount()) {
      auto query = tile::CoordinatesOp::create(builder, loc, rows);
      auto key = tile::CoordinatesOp::create(builder, loc, keys);
      batch = query.getBatch();
      head = query.getHead();
      kvHead = query.getKvHead();
      firstQuery = query.getFirst();
      firstKey = key.getFirst();
    }
  };

  /// Copies a filled hook for the element at (row, column).
  static Value inlineHook(TileEmitter::Scalars scalars, Region &hook, const Place &place, Value row,
                          Value column) {
    OpBuilder &builder = scalars.builder;
    RowPlace ofRow = emitRowPlace(builder, scalars.loc, row, place.heads);
    Value head = place.head;
    if (ofRow.head)
      head = arith::AddIOp::create(builder, scalars.loc, head, ofRow.head);
    Value query = arith::AddIOp::create(builder, scalars.loc, place.firstQuery, ofRow.position);
    Value key = arith::AddIOp::create(builder, scalars.loc, place.firstKey, column);
    IRMapping mapping;
    mapping.map(hook.getArguments(), ValueRange{place.batch, head, place.kvHead, query, key});
    for (Operation &op : hook.front().without_terminator())
      builder.clone(op, mapping);
    return mapping.lookup(hook.front().getTerminator()->getOperand(0));
  }

  /// The masking stands in a branch that the whole block takes or leaves together.
  static void decompose(tile::MaskOp op) {
    TileEmitter emit(op);
    auto branch = scf::IfOp::create(emit.builder, emit.loc, op.getType(), op.getPartial(),
                                    /*withElseRegion=*/true);
    TileEmitter inner(op);
    inner.builder.setInsertionPointToStart(branch.thenBlock());
    Place place(inner.builder, inner.loc, op.getRows(), op.getKeys());
    Value limit =
        tile::ExtentOp::create(inner.builder, inner.loc, inner.builder.getI32Type(), "Sk");
    Value masked =
        inner.map(op.getType(), op.getSource(),
                  [&](TileEmitter::Scalars s, ValueRange x, Value row, Value column) -> Value {
                    Value key = arith::AddIOp::create(s.builder, s.loc, place.firstKey, column);
                    Value keep = arith::CmpIOp::create(s.builder, s.loc, arith::CmpIPredicate::slt,
                                                       key, limit);
                    if (!op.getBody().empty())
                      keep = arith::AndIOp::create(s.builder, s.loc, keep,
                                                   inlineHook(s, op.getBody(), place, row, column));
                    return s.select(keep, x[0], s.minusInfinity());
                  });
    scf::YieldOp::create(inner.builder, inner.loc, masked);
    inner.builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(inner.builder, inner.loc, op.getSource());
    op.replaceAllUsesWith(branch.getResult(0));
  }
};

} // namespace
} // namespace tesela
