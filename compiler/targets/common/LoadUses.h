//===- LoadUses.h - How products read loaded tiles --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The products that read a loaded tile decide where the tile goes.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_LOADUSES_H
#define TESELA_COMPILER_TARGETS_COMMON_LOADUSES_H

#include "tile/Tile.h"

namespace tesela {

/// Whether `load` has elements of 8 bits that are converted for products and used for nothing else.
/// Then they are widened from shared memory to shared memory.
bool isWidened(tile::LoadOp load);

/// Whether the tile is an operand of a product, as it is or widened. Then it goes through shared
/// memory; otherwise it goes straight into registers.
bool isReadByProduct(tile::LoadOp load);

/// Whether the tile is only used as a left operand. Then a warpgroup reads only its own rows and
/// need not wait for the others' rows.
bool isReadByRows(tile::LoadOp load);

/// If an earlier load in the same block of operations brings the same rows with more columns, and
/// `load` takes only the first of them: that earlier load. Otherwise null.
tile::LoadOp broughtBy(tile::LoadOp load);

/// The number of parts in which a load for `consumers` warpgroups is copied: one for each warpgroup
/// if the load is read by rows and each warpgroup has rows of its own; otherwise 1.
int64_t partsOf(tile::LoadOp load, int64_t consumers);

/// Whether `view` is a workspace with one number for each position that has memory for all `rows`
/// rows of each block.
bool hasWholeBlocks(mlir::TypedValue<tile::ViewType> view, int64_t rows);

/// Whether `load` brings a value for each column from a workspace whose rows begin at multiples of
/// `workspacePositions`. Then the copy engine can copy all of them in one piece.
bool isColumnsOfWorkspace(tile::LoadOp load);

/// A workspace [B, H, Sq] or [B, H, Sq, D] that is not `contiguous` has memory for a multiple of so
/// many positions per head. No kernel reads the positions behind the last query. A workspace whose
/// first axis is computed, such as one of parts, has just its positions, with rows in order.
inline constexpr int64_t workspacePositions = 128;

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_LOADUSES_H
