//===- OrderItems.cpp - tile-order-items ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/Passes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEORDERITEMS
#include "transforms/Passes.h.inc"

namespace {

/// Whether `value` is computed from the first row of the work item's block.
bool dependsOnItem(Value value) {
  llvm::SetVector<Value> used;
  used.insert(value);
  for (size_t next = 0; next < used.size(); ++next) { // the loop appends to `used`
    Operation *op = used[next].getDefiningOp();
    if (!op)
      continue;
    auto coordinates = dyn_cast<tile::CoordinatesOp>(op);
    if (coordinates && used[next] != coordinates.getFirst())
      continue; // a batch or a head
    if (isa<tile::WorkOp>(op))
      return true;
    used.insert(op->operand_begin(), op->operand_end());
  }
  return false;
}

/// Whether early blocks of keys may have the most queries: all blocks have one run, which ends at
/// the same query, and its first query depends on the block.
bool isLongestFirst(tile::BlocksOp loop) {
  ValueRange runs = loop.getRuns();
  return runs.size() == 2 && dependsOnItem(runs[0]) && !dependsOnItem(runs[1]);
}

struct TileOrderItems : impl::TileOrderItemsBase<TileOrderItems> {
  void runOnOperation() override {
    tile::KernelOp kernel = getOperation();
    bool addsInTurn = false, isLong = false;
    kernel.walk([&](tile::OrderAdditionsOp) { addsInTurn = true; });
    tile::ScheduleAttr schedule = kernel.getScheduleAttr();
    if (!addsInTurn || (schedule && schedule->lastKeysFirst))
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
