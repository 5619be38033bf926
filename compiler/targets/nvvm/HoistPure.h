//===- HoistPure.h - Moving computations in front of loops ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_HOISTPURE_H
#define TESELA_COMPILER_TARGETS_NVVM_HOISTPURE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace tesela::nvvm {

/// Moves `builder` in front of the outermost loop around it in which `values` do not change. Copies
/// the ops of the loops that compute them. The result maps values to their copies.
mlir::IRMapping hoistPure(mlir::OpBuilder &builder, llvm::ArrayRef<mlir::Value> values);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_HOISTPURE_H
