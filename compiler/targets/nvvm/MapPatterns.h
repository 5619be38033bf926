//===- MapPatterns.h - Conditions of a map that repeat ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_MAPPATTERNS_H
#define TESELA_COMPILER_TARGETS_NVVM_MAPPATTERNS_H

#include "targets/nvvm/ColumnWords.h"

#include "mlir/IR/IRMapping.h"

namespace tesela::nvvm {

/// The patterns (PeriodicWords.h) of the conditions in a map's body that depend on a tile.phase.
class MapPatterns {
public:
  /// Computes `value` of the body. `scalars` has the values on which it depends.
  using Evaluate = std::function<mlir::Value(mlir::Value value, mlir::IRMapping &scalars)>;

  /// `outer` gives the lowered values from outside of the body; `firstColumn` is the lane's.
  MapPatterns(const ColumnWords &columns, mlir::OpBuilder &builder, mlir::Location loc,
              mlir::Value lane, mlir::Value firstColumn, const mlir::IRMapping &outer,
              Evaluate evaluate)
      : columns(columns), builder(builder), loc(loc), lane(lane), firstColumn(firstColumn),
        outer(outer), evaluate(std::move(evaluate)) {}

  /// Word `index` of `condition` in a row whose phase starts at `start` (lowered).
  mlir::Value word(mlir::Value condition, int64_t index, mlir::Value start);

private:
  mlir::Value patternOf(mlir::Value condition);

  const ColumnWords &columns;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Value lane, firstColumn;
  const mlir::IRMapping &outer;
  Evaluate evaluate;
  llvm::DenseMap<mlir::Value, mlir::Value> patterns;
  /// The words so far. Rows with the same start share them.
  llvm::DenseMap<std::tuple<mlir::Value, int64_t, mlir::Value>, mlir::Value> words;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_MAPPATTERNS_H
