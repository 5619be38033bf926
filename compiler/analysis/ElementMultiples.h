//===- ElementMultiples.h - Integer multiples of row and column -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// In one tile, a value that is linear in a query and a key is a base that all elements share, plus
//
//   row · i + column · j
//
// for the element (i, j). The base differs between users: an interval in the analysis of masks, an
// i32 of the tile in the lowering of scores, an i32 or f32 of a lane of a GPU. The multiples are
// the same for all of them.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_ELEMENTMULTIPLES_H
#define TESELA_COMPILER_ANALYSIS_ELEMENTMULTIPLES_H

#include <algorithm>
#include <cstdint>

namespace tesela {

struct ElementMultiples {
  /// The largest multiple. A tile has at most 4096 rows and columns, so row · i + column · j stays
  /// inside 24 bits: it is exact in f32, too, and its sum with an i32 is far from the ends of i64.
  static constexpr int64_t largest = 1024;

  int64_t row = 0, column = 0;

  bool operator==(const ElementMultiples &) const = default;
  ElementMultiples operator+(const ElementMultiples &other) const {
    return {row + other.row, column + other.column};
  }
  ElementMultiples operator-(const ElementMultiples &other) const { return *this + other * -1; }
  ElementMultiples operator*(int64_t factor) const { return {row * factor, column * factor}; }

  /// Whether the value is the same for all elements.
  bool isUniform() const { return row == 0 && column == 0; }
  /// Whether both multiples are in [-largest, largest].
  bool isSmall() const { return std::max({row, -row, column, -column}) <= largest; }
  int64_t at(int64_t i, int64_t j) const { return row * i + column * j; }
  /// The least and the largest value over `rows` × `columns` elements; both are at least 1.
  int64_t lowest(int64_t rows, int64_t columns) const {
    return std::min<int64_t>(row * (rows - 1), 0) + std::min<int64_t>(column * (columns - 1), 0);
  }
  int64_t highest(int64_t rows, int64_t columns) const {
    return std::max<int64_t>(row * (rows - 1), 0) + std::max<int64_t>(column * (columns - 1), 0);
  }
};

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_ELEMENTMULTIPLES_H
