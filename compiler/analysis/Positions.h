//===- Positions.h - Whole numbers linear in row and column -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// In a tile whose first query is q0 and whose first key is k0, the index q - k + Sk of the element
// (row, column) is (q0 - k0 + Sk) + row - column: a base that is the same for the whole tile and
// whole multiples of row and column. i32 wraps, and so does this form: it is exact.
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

  mlir::Value base; ///< the same for the whole tile; null is 0
};

/// What an i32 op gives for operands that are positions, its base written at `uniforms`; nothing
/// where that is no position, or where its multiples are not small.
std::optional<Position> combinePositions(mlir::Operation &op, llvm::ArrayRef<Position> operands,
                                         mlir::OpBuilder &uniforms);

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_POSITIONS_H
