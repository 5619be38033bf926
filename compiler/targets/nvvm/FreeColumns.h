//===- FreeColumns.h - Tiles whose columns lie in any order -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A fragment gives a thread two neighbouring columns of each group of 8. Loaded as they lie, that
// is 4 bytes of a row a thread and 16 bytes a row for an instruction, half of what memory gives at
// a time. Where a tile goes element by element into a sum over its columns, it does not matter
// which column is which: a thread takes 8 neighbouring columns, 16 bytes, as those that it has of
// four groups.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_FREECOLUMNS_H
#define TESELA_COMPILER_TARGETS_NVVM_FREECOLUMNS_H

#include "tile/Tile.h"

namespace tesela::nvvm {

/// Columns that a thread takes together, and those of four threads.
inline constexpr int64_t freeColumns = 8, freeColumnsOfRow = 32;

/// Whether the columns of what `load` gives may be exchanged with each other, as those of all tiles
/// that it meets are: 16-bit elements that maps take without asking for the column, and that end
/// in reductions of rows.
bool hasFreeColumns(tile::LoadOp load);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_FREECOLUMNS_H
