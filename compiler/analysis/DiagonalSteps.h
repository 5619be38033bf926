//===- DiagonalSteps.h - Values that diagonals share ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// How the i32 values of a body change from a pair of positions (q, k) to (q + 1, k + 1). Values
// that depend only on q - k do not change: a distance, its bucket, the element of a table for it.
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
  /// Nothing is known about the arguments of `body` until `set` is called. Values from outside it
  /// are the same everywhere.
  explicit DiagonalSteps(mlir::Block &body);

  void set(mlir::Value value, uint32_t step) { steps[value] = step; }
  /// `value` is a position: it rises by one and does not wrap.
  void setPosition(mlir::Value value) {
    set(value, 1);
    positions.insert(value);
  }

  /// The change of `value`, 0 if it is of another type and does not change; nullopt if not known.
  std::optional<uint32_t> of(mlir::Value value);

private:
  std::optional<uint32_t> find(mlir::Operation *op);

  mlir::Block &body;
  llvm::DenseMap<mlir::Value, std::optional<uint32_t>> steps;
  llvm::DenseSet<mlir::Value> positions;
};

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_DIAGONALSTEPS_H
