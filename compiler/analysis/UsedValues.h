//===- UsedValues.h - Values that an op and its regions use -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_USEDVALUES_H
#define TESELA_COMPILER_ANALYSIS_USEDVALUES_H

#include "mlir/IR/Operation.h"
#include "mlir/Transforms/RegionUtils.h"

namespace tesela {

/// The operands of `op`, and the values from outside it that its regions use.
inline llvm::SmallVector<mlir::Value> valuesUsedBy(mlir::Operation &op) {
  llvm::SetVector<mlir::Value> used(op.operand_begin(), op.operand_end());
  mlir::getUsedValuesDefinedAbove(op.getRegions(), used);
  return used.takeVector();
}

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_USEDVALUES_H
