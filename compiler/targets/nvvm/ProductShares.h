//===- ProductShares.h - How warps share tiles ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_PRODUCTSHARES_H
#define TESELA_COMPILER_TARGETS_NVVM_PRODUCTSHARES_H

#include "targets/nvvm/FragmentOrder.h"

#include "pipe/Pipe.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tesela::nvvm {

/// How many warps share the `rows` rows of a tile. Usually all do, and each has 16 rows or a
/// multiple of 16. A tile with fewer rows is *cut*: some warps have 16 rows each, and further sets
/// of warps have the same rows of other columns, one part of the columns after the other
/// (pipe::columnsOfPart). A tile is also cut if `product_rows` of the schedule gives a warp more
/// rows than an even split would. Each part holds a copy of a row slice. The encodings
/// #pipe.accumulator and #pipe.rows give the number of warps that share the rows.
inline int64_t rowWarps(int64_t rows, const Schedule &schedule) {
  int64_t warps = schedule.warps, wanted = schedule.productRows;
  if (wanted > 0 && rows % wanted == 0 && rows / wanted < warps && warps % (rows / wanted) == 0)
    return rows / wanted;
  int64_t strips = rows / 16;
  bool hasRowsForAll = strips == 0 || strips % warps == 0;
  return hasRowsForAll || warps % strips != 0 ? warps : strips;
}
inline int64_t rowWarps(tile::TileType type, const Schedule &schedule) {
  return type.isSingleRow() ? schedule.warps : rowWarps(type.getExtent(0), schedule);
}

/// The number of parts into which the columns of `tile` are cut.
inline int64_t columnParts(tile::TileType tile, const Schedule &schedule) {
  return schedule.warps / rowWarps(tile, schedule);
}

inline bool isCut(tile::TileType tile, const Schedule &schedule) {
  return columnParts(tile, schedule) > 1;
}

/// Whether all warps meet at `op` in each run of its block: they vote about rows that several of
/// them share.
inline bool isVoteOfAll(mlir::Operation *op) {
  auto vote = llvm::dyn_cast<tile::AnyPositiveOp>(op);
  auto type = vote ? llvm::cast<tile::TileType>(vote.getSource().getType()) : tile::TileType();
  auto rows = type ? llvm::dyn_cast_or_null<pipe::RowsAttr>(type.getEncoding()) : pipe::RowsAttr();
  auto kernel = op->getParentOfType<tile::KernelOp>();
  return rows && kernel.getScheduleAttr() && rows.getWarps() < kernel.getScheduleAttr()->warps &&
         !llvm::isa<mlir::scf::IfOp>(op->getParentOp());
}

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_PRODUCTSHARES_H
