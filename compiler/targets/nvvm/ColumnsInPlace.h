//===- ColumnsInPlace.h - Columns that maps read from shared memory -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A tile with one value for each column (such as the log-sum of each query) takes as many registers
// of each lane as a quarter of its columns. If the producer has copied the tile to shared memory,
// maps read the values there when they need them: two values for four elements. So no lane holds
// them in registers, and the stage is read until the last map has run.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_COLUMNSINPLACE_H
#define TESELA_COMPILER_TARGETS_NVVM_COLUMNSINPLACE_H

#include "pipe/Pipe.h"
#include "tile/Tile.h"

namespace tesela::nvvm {

/// The tile in shared memory that maps read instead of `columns`; null if there is none.
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
