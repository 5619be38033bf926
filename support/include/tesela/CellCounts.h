//===- CellCounts.h - The work of a mask's cells ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CELLCOUNTS_H
#define TESELA_CELLCOUNTS_H

#include <cstdint>
#include <vector>

namespace tesela {

/// The work in the square cells of a sequence's queries and keys, row by row. Used to split a
/// sequence over several devices: which queries need which keys, and how much work they are. The
/// work of each cell is in the memory of the caller (KeptCells::count).
struct CellCounts {
  int64_t rows = 0, columns = 0; ///< numbers of cells; the last row and column may be cut
  std::vector<uint64_t> sums;    ///< the work of each row
  /// The keys that a row's queries need. A row has `words` numbers. Bit j of number i is set if the
  /// cell in column 64 i + j has work.
  std::vector<uint64_t> needs;
  int64_t words = 0;
};

} // namespace tesela

#endif // TESELA_CELLCOUNTS_H
