//===- RowReduction.h - A row's sum, maximum or minimum ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_ROWREDUCTION_H
#define TESELA_COMPILER_TARGETS_HOST_ROWREDUCTION_H

#include "targets/host/CodeBuilder.h"
#include "tile/Tile.h"

namespace tesela {

/// What tile.reduce does with a row of f32 or i32, in vectors: each lane has a value of its own,
/// which begins as `neutral`, and the lanes are folded into one at the row's end.
class RowReduction {
public:
  RowReduction(CodeBuilder &builder, tile::ReduceOp op);

  mlir::Value neutral(int64_t width);
  /// Of two values or vectors. max: what compares greater wins, so NaN, which does not, loses.
  mlir::Value combine(mlir::Value a, mlir::Value b);
  /// The scalar of a vector, whose width is a power of two.
  mlir::Value fold(mlir::Value lanes);

private:
  CodeBuilder *builder_;
  tile::Reduction kind_;
  mlir::Type element_;
};

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_ROWREDUCTION_H
