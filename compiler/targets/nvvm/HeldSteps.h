//===- HeldSteps.h - Which steps of a product have registers ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A product reads 16 columns of its left operand a step. Beside few columns of the right one these
// take longer to read from shared memory than the tensor cores take to multiply: 64 rows of 16
// columns are 2 KB, 16 cycles, as many as a product with 32 columns takes, and the right operand
// comes on top. Of a stage that a loop reads again and again, some steps are held in registers: as
// many as there is room for, spread evenly.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_HELDSTEPS_H
#define TESELA_COMPILER_TARGETS_NVVM_HELDSTEPS_H

#include "pipe/Pipe.h"

namespace tesela::nvvm {

/// On a pipe.slot: how many steps are held.
inline constexpr llvm::StringLiteral heldStepsAttr = "pipe.held_steps";

/// 32-bit registers of a thread.
inline constexpr int64_t registersOfStep = 4;

inline int64_t heldStepsOf(pipe::SlotOp slot) {
  auto held = slot->getAttrOfType<mlir::IntegerAttr>(heldStepsAttr);
  return held ? held.getInt() : 0;
}

/// Whether `step` of `steps` is one of the `held` ones.
inline bool isHeld(int64_t step, int64_t held, int64_t steps) {
  return (step + 1) * held / steps > step * held / steps;
}

/// Has the consumers of `kernel` hold steps of such left operands, in registers that its tiles
/// leave.
void holdOperands(tile::KernelOp kernel);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_HELDSTEPS_H
