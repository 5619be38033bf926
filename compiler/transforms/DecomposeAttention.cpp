//===- DecomposeAttention.cpp - tile-decompose ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/emit/ExpandArithmetic.h"
#include "transforms/DecomposeSoftmax.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

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
      if (isa<tile::SoftmaxStepOp, tile::RescaleOp, tile::FinishOp>(op))
        ops.push_back(op);
      hasFoundBlocks |= isa<tile::FoundBlockOp>(op);
    });
    SoftmaxDecomposition softmax(hasFoundBlocks);
    for (Operation *op : ops) {
      if (auto step = dyn_cast<tile::SoftmaxStepOp>(op))
        softmax.decompose(step);
      else if (auto rescale = dyn_cast<tile::RescaleOp>(op))
        softmax.decompose(rescale);
      else
        softmax.decompose(cast<tile::FinishOp>(op));
      op->erase();
    }
    expandAttnArithmetic(getOperation().getBody());
  }
};

} // namespace
} // namespace tesela
