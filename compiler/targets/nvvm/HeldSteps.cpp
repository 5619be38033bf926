//===- HeldSteps.cpp - Which steps of a product have registers --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/HeldSteps.h"

#include "targets/nvvm/ProductShares.h"
#include "targets/nvvm/TileRegisters.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace tesela::nvvm {

namespace {

/// A warpgroup's products with so many columns or more read the right operand as long.
constexpr int64_t manyColumns = 64;

/// What tiles leave for addresses, counts and elements that are being computed. Heads of 576 and
/// 512 columns: ptxas 13 spills nothing with 48, nor with 32.
constexpr int64_t otherRegisters = 48;

/// The stage that the left operand of `op` is, if it is no loop's own and its product has few
/// columns; else null.
pipe::SlotOp heldBy(Operation *op) {
  auto start = dyn_cast<pipe::DotStartOp>(op);
  auto dot = dyn_cast<tile::DotOp>(op);
  if ((!start && !dot) || (start ? start.getLeftTransposed() : dot.getLeftTransposed()))
    return {};
  auto slot = op->getOperand(0).getDefiningOp<pipe::SlotOp>();
  auto result = cast<tile::TileType>(op->getResult(0).getType());
  int64_t warps = op->getParentOfType<tile::KernelOp>().getScheduleAttr()->warps;
  int64_t parts = columnParts(result, warps);
  bool isReadAgain = slot && !slot->getParentOfType<LoopLikeOpInterface>() &&
                     op->getParentOfType<LoopLikeOpInterface>();
  return isReadAgain && parts > 1 && result.getExtent(1) / parts < manyColumns ? slot
                                                                               : pipe::SlotOp();
}

} // namespace

void holdOperands(tile::KernelOp kernel) {
  for (auto roles : kernel.getBodyBlock().getOps<pipe::RolesOp>()) {
    pipe::SlotOp held;
    roles.getConsumers().walk([&](Operation *op) {
      if (pipe::SlotOp slot = heldBy(op))
        held = slot;
    });
    if (!held)
      continue;
    int64_t room = int64_t(roles.getConsumerRegisters()) - tileRegisters(kernel.getBodyBlock()) -
                   otherRegisters;
    int64_t steps = cast<tile::TileType>(held.getTile().getType()).getExtent(1) / 16;
    int64_t count = std::clamp<int64_t>(room / registersOfStep, 0, steps);
    if (const char *text = getenv("SV_HELD")) // temporary
      count = atoi(text);
    if (count > 0)
      held->setAttr(heldStepsAttr, Builder(kernel.getContext()).getI64IntegerAttr(count));
  }
}

} // namespace tesela::nvvm
