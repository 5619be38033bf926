//===- LoopLanes.h - Loops that run one iteration per lane ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// All threads of a thread block run a kernel's scalar loops with the same numbers: loops over the
// sequences of a batch, which find out what a work item is to do. An iteration that reads memory
// takes some 50 cycles. With 64 sequences, three such loops took 4 of an item's 7 microseconds. So
// each lane of a warp does its own iterations, 32 at a time, if the only values that go from one
// iteration to the next are a sum, a maximum, or the number of the last iteration for which a
// condition was true. A loop over four sequences and one over 64 then take the same time.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_LOOPLANES_H
#define TESELA_COMPILER_TARGETS_NVVM_LOOPLANES_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tesela::nvvm {

/// Writes a new loop behind `loop`, a lowered loop that all lanes of a warp run with the same
/// numbers. In the new one lane `lane` (0 to 31) does iterations lane, lane + 32 and so on. Returns
/// the loop's results, the same in all lanes. Returns nothing, and changes nothing, if values go
/// from iteration to iteration in other forms than
///
///     sum + f(i)          other values may use it: the sum of the iterations before
///     max(most, f(i))     unsigned
///     c ? v : found       c and v may use the sums
llvm::SmallVector<mlir::Value> doIterationsInLanes(mlir::OpBuilder &builder, mlir::scf::ForOp loop,
                                                   mlir::Value lane);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_LOOPLANES_H
