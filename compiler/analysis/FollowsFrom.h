//===- FollowsFrom.h - The values that a value depends on -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_FOLLOWSFROM_H
#define TESELA_COMPILER_ANALYSIS_FOLLOWSFROM_H

#include "analysis/UsedValues.h"

namespace tesela {

/// Whether `value`, or a value on which it depends, satisfies `isSource`.
inline bool followsFrom(mlir::Value value, llvm::function_ref<bool(mlir::Value)> isSource) {
  llvm::SetVector<mlir::Value> seen;
  seen.insert(value);
  for (size_t next = 0; next < seen.size(); ++next) {
    mlir::Value each = seen[next];
    if (isSource(each))
      return true;
    if (mlir::Operation *op = each.getDefiningOp())
      for (mlir::Value used : valuesUsedBy(*op))
        seen.insert(used);
  }
  return false;
}

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_FOLLOWSFROM_H
