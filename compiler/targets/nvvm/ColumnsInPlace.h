//===- ColumnsInPlace.h - Columns that maps read from shared memory -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A value for each column (the log-sum of a query, say) that the producer has brought to shared
// memory takes a quarter of the columns in registers of each lane. Maps read it where they need it
// instead: two values for four elements, and none of them is held. So the stage is read until the
// last map has run.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_COLUMNSINPLACE_H
#define TESELA_COMPILER_TARGETS_NVVM_COLUMNSINPLACE_H

#include "pipe/Pipe.h"
#include "tile/Tile.h"

namespace tesela::nvvm {

/// The tile in shared memory that maps read in the place of `columns`; null where there is none.
inline mlir::Value readInPlace(mlir::Value columns) {
  auto convert = columns.getDefiningOp<pipe::ConvertOp>();
  auto type = llvm::dyn_cast<tile::TileType>(columns.getType());
  if (!convert || !llvm::isa_and_nonnull<pipe::ColumnsAttr>(type.getEncoding()) ||
      !llvm::all_of(columns.getUsers(), llvm::IsaPred<tile::MapOp>))
    return {};
  return convert.getSource();
}

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_COLUMNSINPLACE_H
