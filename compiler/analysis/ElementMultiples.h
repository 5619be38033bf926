//===- ElementMultiples.h - Whole multiples of row and column ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What is linear in a query and a key is, in one tile, a base that all elements share and
//
//   row · i + column · j
//
// for the element (i, j). The masks' analysis, the lowering of scores and what a lane of a GPU
// computes have different bases (an interval, an i32 of the tile, an i32 or f32 of the lane). What
// the elements differ by is this, for all of them.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_ELEMENTMULTIPLES_H
#define TESELA_COMPILER_ANALYSIS_ELEMENTMULTIPLES_H

#include <algorithm>
#include <cstdint>

namespace tesela {

struct ElementMultiples {
  /// With a tile's extents, at most 4096, row · i + column · j of such multiples stays far inside
  /// 24 bits: exact in f32, too, and far from the ends of i64 beside an i32.
  static constexpr int64_t largest = 1024;

  int64_t row = 0, column = 0;

  bool operator==(const ElementMultiples &) const = default;
  ElementMultiples operator+(const ElementMultiples &other) const {
    return {row + other.row, column + other.column};
  }
  ElementMultiples operator-(const ElementMultiples &other) const { return *this + other * -1; }
  ElementMultiples operator*(int64_t factor) const { return {row * factor, column * factor}; }

  /// The same for all elements.
  bool isUniform() const { return row == 0 && column == 0; }
  /// Both are in [-largest, largest].
  bool isSmall() const { return std::max({row, -row, column, -column}) <= largest; }
  int64_t at(int64_t i, int64_t j) const { return row * i + column * j; }
  /// The least and the largest over `rows` × `columns` elements, at least one of each.
  int64_t lowest(int64_t rows, int64_t columns) const {
    return std::min<int64_t>(row * (rows - 1), 0) + std::min<int64_t>(column * (columns - 1), 0);
  }
  int64_t highest(int64_t rows, int64_t columns) const {
    return std::max<int64_t>(row * (rows - 1), 0) + std::max<int64_t>(column * (columns - 1), 0);
  }
};

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_ELEMENTMULTIPLES_H
