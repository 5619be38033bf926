//===- KeyRanges.cpp - tile-key-ranges --------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/KeyRange.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEKEYRANGES
#include "transforms/Passes.h.inc"

namespace {

struct TileKeyRanges : impl::TileKeyRangesBase<TileKeyRanges> {
  void runOnOperation() override {
    getOperation().walk([](tile::BlocksOp loop) {
      auto masks = llvm::to_vector(loop.getBody().getOps<tile::MaskOp>());
      if (masks.size() != 1 || masks.front().getBody().empty())
        return;
      OpBuilder builder(loop);
      KeyRange range = emitKeyRange(builder, masks.front(), loop.getRows());
      auto narrow = [&](Value value) -> Value {
        return arith::TruncIOp::create(builder, loop.getLoc(), builder.getI32Type(), value);
      };
      loop.getRangeMutable().assign({narrow(range.may.low), narrow(range.may.high)});
      loop.getFullMutable().assign({narrow(range.must.low), narrow(range.must.high)});
    });
  }
};

} // namespace
} // namespace tesela
