//===- IterationSlice.h - A loop's scalars for another iteration -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Which block an iteration loads follows from its number alone; so passes that start loads ahead,
// or put products off, compute it anew for another number.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_ITERATIONSLICE_H
#define TESELA_COMPILER_TARGETS_NVVM_ITERATIONSLICE_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace tesela::nvvm {

/// Whether `value` is from outside of `loop`, or computed in its body without effects from the
/// induction variable and such values.
bool followsIteration(mlir::scf::ForOp loop, mlir::Value value);

/// `value`, which follows the iteration, for the number that `mapping` has for the induction
/// variable; `mapping` gets what is copied.
mlir::Value copyForIteration(mlir::OpBuilder &builder, mlir::scf::ForOp loop, mlir::Value value,
                             mlir::IRMapping &mapping);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_ITERATIONSLICE_H
