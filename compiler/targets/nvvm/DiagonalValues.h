//===- DiagonalValues.h - What a map computes once a diagonal ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A score may read a bucket of the distance, whose logarithms are some hundred instructions. All
// elements of a tile's diagonal have the same one. So the consumers compute it once for each
// diagonal, into shared memory, and elements read it from there: 191 times for the 8192 elements
// that a warpgroup has of 128 columns.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_DIAGONALVALUES_H
#define TESELA_COMPILER_TARGETS_NVVM_DIAGONALVALUES_H

#include "tile/Schedule.h"
#include "tile/Tile.h"

namespace tesela::nvvm {

/// Of a tile.map with such a value: where its memory begins, and the number of the op in its body
/// that gives the value. Set by pipe-place-buffers.
inline constexpr llvm::StringLiteral diagonalsOffsetAttr = "pipe.diagonals_offset",
                                     diagonalsOpAttr = "pipe.diagonals_op";

/// The op in the body of `map`, of consumers, whose result is the same along diagonals and worth
/// it; null where there is none.
mlir::Operation *findDiagonalValue(tile::MapOp map);

/// The one that pipe-place-buffers chose, or null.
mlir::Operation *diagonalValueOf(tile::MapOp map);

/// Diagonals of a warpgroup's part of the map's tile.
int64_t diagonalsOfGroup(tile::MapOp map, tile::ScheduleAttr schedule);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_DIAGONALVALUES_H
