//===- RowReduction.h - A row's sum, maximum or minimum ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_ROWREDUCTION_H
#define TESELA_COMPILER_TARGETS_HOST_ROWREDUCTION_H

#include "targets/host/CodeBuilder.h"
#include "tile/Tile.h"

namespace tesela {

/// What tile.reduce does with a row of f32 or i32, in vectors: each vector element has a value of
/// its own, which starts as `neutral`, and all are folded into one at the end of the row.
class RowReduction {
public:
  RowReduction(CodeBuilder &builder, tile::ReduceOp op);

  mlir::Value neutral(int64_t width);
  /// Combines two values or vectors. max: the larger one wins, and a number wins against NaN.
  mlir::Value combine(mlir::Value a, mlir::Value b);
  /// Folds a vector, whose width must be a power of two, into a scalar.
  mlir::Value fold(mlir::Value partials);

private:
  CodeBuilder *builder_;
  tile::Reduction kind_;
  mlir::Type element_;
};

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_ROWREDUCTION_H
