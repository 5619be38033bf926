//===- OrderItems.cpp - tile-order-items ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEORDERITEMS
#include "transforms/Passes.h.inc"

namespace {

/// Whether `value` is computed from the place of the work item's block.
bool dependsOnItem(Value value) {
  llvm::SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  (void)getBackwardSlice(value, &slice, options);
  return llvm::any_of(slice, [](Operation *op) { return isa<tile::WorkOp>(op); });
}

/// Whether a block of keys has the more queries, the earlier its keys are: its run ends where all
/// runs end.
bool isLongestFirst(tile::BlocksOp loop) {
  ValueRange runs = loop.getRuns();
  return runs.size() == 2 && dependsOnItem(runs[0]) && !dependsOnItem(runs[1]);
}

struct TileOrderItems : impl::TileOrderItemsBase<TileOrderItems> {
  void runOnOperation() override {
    tile::KernelOp kernel = getOperation();
    bool addsInTurn = false, isLong = false;
    kernel.walk([&](tile::OrderAdditionsOp) { addsInTurn = true; });
    if (!addsInTurn || kernel.getScheduleAttr()->lastKeysFirst)
      return;
    kernel.walk([&](tile::BlocksOp loop) { isLong |= isLongestFirst(loop); });
    kernel.walk([&](tile::WorkOp work) {
      work.setOrder(isLong ? tile::ItemOrder::LastKeysFirstButAtEnd
                           : tile::ItemOrder::LastKeysFirst);
    });
  }
};

} // namespace
} // namespace tesela
