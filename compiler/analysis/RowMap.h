//===- RowMap.h - The head and the position of a block's row ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Row i of a block of `heads` query heads belongs to head i mod heads at position i / heads, both
// relative to the block's first. So the heads of a position are neighbours, and a block of any
// extent has whole positions. A value that is linear in the position is linear in the rows that one
// lane of a GPU holds, too. `heads` is a power of two.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_ROWMAP_H
#define TESELA_COMPILER_ANALYSIS_ROWMAP_H

#include "tile/Tile.h"

namespace tesela {

/// The head and the position of a row, relative to the first of the block.
struct RowPlace {
  mlir::Value head; ///< null if the block has one head
  mlir::Value position;
};

/// The place of row `row` (an integer >= 0) of a block of `heads` heads.
RowPlace emitRowPlace(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value row, int64_t heads);

/// The number of heads of the block whose rows the body of `map` places; 1 if it places none.
int64_t headsOfRows(tile::MapOp map);

/// Whether `value`, in the body of `map`, is the position of the element's row.
bool isRowPosition(mlir::Value value, tile::MapOp map);

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_ROWMAP_H
