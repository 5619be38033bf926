//===- LoopLanes.h - A loop of numbers, an iteration a lane -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// All threads of a thread block run a kernel's loops of numbers, with the same numbers: over the
// sequences of a batch, for what a work item is to do. An iteration that reads memory takes some 50
// cycles, and of 64 sequences three such loops took 4 us of an item's 7. So each lane of a warp
// does an iteration, 32 at a time, where what goes from one to the next is a sum, a maximum, or the
// number of the last iteration that something was true of. A loop for four sequences and one for 64
// then take the same time.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_LOOPLANES_H
#define TESELA_COMPILER_TARGETS_NVVM_LOOPLANES_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tesela::nvvm {

/// Writes `loop`, a lowered one that all lanes of a warp run with the same numbers, anew behind
/// itself: `lane`, from 0 to 31, does iterations lane, lane + 32 and so on. Gives what the loop
/// gives, the same in all lanes; nothing, and the loop stays alone, where more goes from iteration
/// to iteration than
///
///     sum + f(i)          which others may use: the sum of the iterations before
///     max(most, f(i))     unsigned
///     c ? v : found       c and v may use the sums
llvm::SmallVector<mlir::Value> doIterationsInLanes(mlir::OpBuilder &builder, mlir::scf::ForOp loop,
                                                   mlir::Value lane);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_LOOPLANES_H
