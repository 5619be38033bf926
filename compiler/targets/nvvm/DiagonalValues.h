//===- DiagonalValues.h - Values that a diagonal shares ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A score may read a bucket of the distance, and the logarithms of the bucket's number take some
// hundred instructions. All elements on a diagonal of a tile have the same distance. So the
// consumers compute the value once per diagonal, into shared memory, where elements read it: 191
// values for the 8192 elements that a warpgroup has in 128 columns.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_DIAGONALVALUES_H
#define TESELA_COMPILER_TARGETS_NVVM_DIAGONALVALUES_H

#include "tile/Schedule.h"
#include "tile/Tile.h"

namespace tesela::nvvm {

/// Attributes of a tile.map with such a value: where its memory begins, and the number of the op in
/// its body that gives the value. Set by pipe-place-buffers.
inline constexpr llvm::StringLiteral diagonalsOffsetAttr = "pipe.diagonals_offset",
                                     diagonalsOpAttr = "pipe.diagonals_op";

/// The op in the body of `map`, a map of consumers, whose result is the same along diagonals and
/// costs enough to share; null if there is none.
mlir::Operation *findDiagonalValue(tile::MapOp map);

/// The op that pipe-place-buffers chose, or null.
mlir::Operation *diagonalValueOf(tile::MapOp map);

/// How many diagonals a warpgroup's part of the map's tile has.
int64_t diagonalsOfGroup(tile::MapOp map, tile::ScheduleAttr schedule);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_DIAGONALVALUES_H
