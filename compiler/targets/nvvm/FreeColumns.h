//===- FreeColumns.h - Tiles whose columns may be permuted ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A fragment gives a thread two neighbouring columns of each group of 8. Loaded in this order, a
// thread loads 4 bytes of a row, and an instruction 16 bytes of a row: half of a memory sector. If
// a tile goes element by element into a sum over its columns, the order of the columns does not
// matter. Then a thread loads 8 neighbouring columns (16 bytes) and uses them as its columns of
// four groups.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_FREECOLUMNS_H
#define TESELA_COMPILER_TARGETS_NVVM_FREECOLUMNS_H

#include "tile/Tile.h"

namespace tesela::nvvm {

/// How many columns a thread loads together, and how many the four threads of a row load.
inline constexpr int64_t freeColumns = 8, freeColumnsOfRow = 32;
/// Whether the columns of the tile that `load` gives may be permuted, along with those of all tiles
/// that it is combined with: elements of 16 bits, read by maps that do not use the column's number,
/// and in the end by reductions of rows.
/// in reductions of rows.
bool hasFreeColumns(tile::LoadOp load);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_FREECOLUMNS_H
