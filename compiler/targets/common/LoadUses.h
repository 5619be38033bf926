//===- LoadUses.h - How products read what is loaded ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Where a loaded tile goes follows from the products that read it.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_LOADUSES_H
#define TESELA_COMPILER_TARGETS_COMMON_LOADUSES_H

#include "tile/Tile.h"

namespace tesela {

/// Whether it has elements of 8 bits that are converted for products, and nothing else: then it is
/// widened from shared memory to shared memory.
bool isWidened(tile::LoadOp load);

/// Whether it is an operand of a product, as it is or widened: then it goes through shared memory,
/// else straight into registers.
bool isReadByProduct(tile::LoadOp load);

/// Whether it is a left operand and nothing else: a warpgroup reads its own rows alone, and need
/// not wait for the others'.
bool isReadByRows(tile::LoadOp load);

/// Where a load behind another one of its block of operations takes the first columns of what that
/// one brings, of the same block of rows: the other one. Else null.
tile::LoadOp broughtBy(tile::LoadOp load);

/// Into how many parts a load is cut that `consumers` warpgroups read: one for each where it is
/// read by rows and each has rows of its own, else 1.
int64_t partsOf(tile::LoadOp load, int64_t consumers);

/// Whether `view` is a workspace of a number for each position that has memory for all `rows` of
/// each block.
bool hasWholeBlocks(mlir::TypedValue<tile::ViewType> view, int64_t rows);

/// Whether it brings a value for each column from a workspace whose rows begin at multiples of
/// `workspacePositions`: then the copy engine can bring all of them in one piece.
bool isColumnsOfWorkspace(tile::LoadOp load);

/// A workspace [B, H, Sq] or [B, H, Sq, D] that is not `contiguous` has memory for a multiple of
/// these positions of each head. No kernel reads those behind the last query. One whose first axis
/// is computed, as that of parts is, has no more than it says, and its rows in order.
inline constexpr int64_t workspacePositions = 128;

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_LOADUSES_H
