//===- DecomposeAttention.cpp - tile-decompose ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/RowMap.h"
#include "frontend/emit/ExpandArithmetic.h"
#include "transforms/DecomposePartials.h"
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
      if (isa<tile::SoftmaxStepOp, tile::RescaleOp, tile::ScorePartialsOp, tile::SinkPartialsOp,
              tile::SinkOp, tile::FinishOp>(op))
        ops.push_back(op);
      hasFoundBlocks |= isa<tile::FoundBlockOp>(op);
    });
    SoftmaxDecomposition softmax(hasFoundBlocks);
    for (Operation *op : ops) {
      if (auto sink = dyn_cast<tile::SinkOp>(op))
        decompose(sink);
      else if (auto partials = dyn_cast<tile::ScorePartialsOp>(op))
        tesela::decompose(partials);
      else if (auto partials = dyn_cast<tile::SinkPartialsOp>(op))
        tesela::decompose(partials);
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

  static void decompose(tile::SinkOp op) {
    TileEmitter emit(op);
    if (op.getBody().empty()) {
      auto none = tile::ConstantOp::create(
          emit.builder, emit.loc, op.getType(),
          emit.builder.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
      return op.replaceAllUsesWith(none.getResult());
    }
    auto place = tile::CoordinatesOp::create(emit.builder, emit.loc, op.getRows());
    Value sinks = emit.map(
        op.getType(), {}, [&](TileEmitter::Scalars s, ValueRange, Value row, Value) -> Value {
          return inlineHook(s, op.getBody(), place, row, op.getRows().getType().getHeadCount());
        });
    op.replaceAllUsesWith(sinks);
  }

  static Value copyHook(TileEmitter::Scalars scalars, Region &hook, IRMapping &mapping) {
    for (Operation &op : hook.front().without_terminator())
      scalars.builder.clone(op, mapping);
    // A hook may yield a parameter directly: an argument of the kernel, which is not copied.
    return mapping.lookupOrDefault(hook.front().getTerminator()->getOperand(0));
  }

  /// Copies the body of a filled sink hook for row `row` of the block at `place`. Rows of the block
  /// are shared by `heads` heads, beginning with the block's head.
  static Value inlineHook(TileEmitter::Scalars scalars, Region &hook, tile::CoordinatesOp place,
                          Value row, int64_t heads) {
    OpBuilder &builder = scalars.builder;
    RowPlace ofRow = emitRowPlace(builder, scalars.loc, row, heads);
    Value head = place.getHead();
    if (ofRow.head)
      head = arith::AddIOp::create(builder, scalars.loc, head, ofRow.head);
    Value query = arith::AddIOp::create(builder, scalars.loc, place.getFirst(), ofRow.position);
    IRMapping mapping;
    mapping.map(hook.getArguments(), ValueRange{place.getBatch(), head, place.getKvHead(), query});
    return copyHook(scalars, hook, mapping);
  }
};

} // namespace
} // namespace tesela
