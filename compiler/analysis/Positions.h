//===- Positions.h - Integers linear in row and column ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// In a tile with the first query q0 and the first key k0, the index q - k + Sk of the element
// (row, column) is (q0 - k0 + Sk) + row - column: a base that is the same for the whole tile, plus
// integer multiples of row and column. i32 wraps, and this form wraps the same way, so it is exact.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_POSITIONS_H
#define TESELA_COMPILER_ANALYSIS_POSITIONS_H

#include "analysis/ElementMultiples.h"

#include "mlir/IR/Builders.h"

#include <optional>

namespace tesela {

/// base + row · i + column · j, in i32, for the element (i, j) of a tile.
struct Position : ElementMultiples {
  explicit Position(mlir::Value base = {}, ElementMultiples multiples = {})
      : ElementMultiples(multiples), base(base) {}

  mlir::Value base; ///< the same for the whole tile; null means 0
};

/// The result of an i32 op whose operands are positions. Its base is written at `uniforms`. Nullopt
/// if the result is not a position, or its multiples are not small.
std::optional<Position> combinePositions(mlir::Operation &op, llvm::ArrayRef<Position> operands,
                                         mlir::OpBuilder &uniforms);

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_POSITIONS_H
