//===- DiagonalSteps.h - What is the same along diagonals -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// By how much the i32 of a body change from a pair of positions (q, k) to (q + 1, k + 1). What
// follows from q - k alone does not change: a distance, its bucket, what a table holds at it.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_DIAGONALSTEPS_H
#define TESELA_COMPILER_ANALYSIS_DIAGONALSTEPS_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace tesela {

class DiagonalSteps {
public:
  /// Nothing is known of the arguments of `body` but what `set` says. What stands outside is the
  /// same everywhere.
  explicit DiagonalSteps(mlir::Block &body);

  void set(mlir::Value value, uint32_t step) { steps[value] = step; }
  /// `value` counts positions, up by one, and does not wrap.
  void setPosition(mlir::Value value) {
    set(value, 1);
    positions.insert(value);
  }

  /// 0 also of another type that does not change; nothing where it is not known.
  std::optional<uint32_t> of(mlir::Value value);

private:
  std::optional<uint32_t> find(mlir::Operation *op);

  mlir::Block &body;
  llvm::DenseMap<mlir::Value, std::optional<uint32_t>> steps;
  llvm::DenseSet<mlir::Value> positions;
};

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_DIAGONALSTEPS_H
