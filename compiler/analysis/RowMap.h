//===- RowMap.h - Where a row of a block stands -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Row i of a block of `heads` query heads is that of head i mod heads at position i / heads, both
// relative to the block's first: the heads of a position are neighbours, so that a block of any
// extent has whole positions, and what is linear in the position stays so in the rows that one lane
// of a GPU holds. `heads` is a power of two.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_ROWMAP_H
#define TESELA_COMPILER_ANALYSIS_ROWMAP_H

#include "tile/Tile.h"

namespace tesela {

/// Relative to the block's first ones.
struct RowPlace {
  mlir::Value head; ///< null where the block has one
  mlir::Value position;
};

/// The place of row `row` (an integer >= 0) of a block of `heads` heads.
RowPlace emitRowPlace(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value row, int64_t heads);

/// The heads of a block of which the body of `map` asks the rows' places; 1 where it asks none.
int64_t headsOfRows(tile::MapOp map);

/// Whether `value`, of the body of `map`, is the position of the element's row.
bool isRowPosition(mlir::Value value, tile::MapOp map);

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_ROWMAP_H
