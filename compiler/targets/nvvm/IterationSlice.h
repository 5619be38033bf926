//===- IterationSlice.h - A loop's scalars for another iteration -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The block that an iteration loads depends on the iteration's number alone. So passes that start
// loads ahead or delay products compute the block again for another number.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_ITERATIONSLICE_H
#define TESELA_COMPILER_TARGETS_NVVM_ITERATIONSLICE_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace tesela::nvvm {

/// Whether `value` comes from outside of `loop`, or is computed in its body, without side effects,
/// from the induction variable and such values.
bool followsIteration(mlir::scf::ForOp loop, mlir::Value value);

/// Computes `value`, which must follow the iteration, for the number to which `mapping` maps the
/// induction variable. Adds the copied values to `mapping`.
mlir::Value copyForIteration(mlir::OpBuilder &builder, mlir::scf::ForOp loop, mlir::Value value,
                             mlir::IRMapping &mapping);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_ITERATIONSLICE_H
