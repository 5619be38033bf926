//===- LinesPlace.h - Shared memory for sums of lines -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H
#define TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H

#include "tile/GradientOps.h"

#include <optional>

namespace tesela::nvvm {

/// Attributes of a tile.add_lines: where its shared memory begins (ops of one kind share one
/// place), and where the sums that it keeps are, if it keeps any. Set by pipe-place-buffers.
inline constexpr llvm::StringLiteral linesOffsetAttr = "pipe.lines_offset",
                                     keptOffsetAttr = "pipe.kept_offset";

/// The layout of a tile.add_lines in shared memory: for each pair of rows one sum for each line;
/// for `elements` all elements. Warpgroups with roles sum the diagonals of their own rows, so that
/// none waits for another.
struct LinesPlace {
  explicit LinesPlace(tile::AddLinesOp op);

  int64_t bytes() const { return parts * bytesOfPart(); }
  int64_t bytesOfPart() const { return 4 * sets * stride; }

  int64_t parts = 1;     ///< parts of the tile's rows
  int64_t rows, columns; ///< of a part
  int64_t lines;         ///< lines of a part
  int64_t sets;          ///< sets of numbers: one for each pair of rows
  int64_t stride;        ///< distance, in numbers, from one set to the next
};

/// The layout of what threads keep of diagonals (Lines::keepLine). A slot holds the diagonal's
/// number k - q, the sum, and the address to which the sum will be added.
struct KeptLines {
  explicit KeptLines(const LinesPlace &place);

  /// Behind the slots: 1 if the part has summed a tile, and the last tile's changing values.
  int64_t bytes() const { return parts * bytesOfPart(); }
  int64_t bytesOfPart() const { return slots * bytesOfSlot + 4 * (1 + mostChanging); }
  int64_t lastOffset() const { return slots * bytesOfSlot; }

  static constexpr int64_t bytesOfSlot = 16, threads = 128, mostChanging = 3;
  int64_t parts, slots; ///< slots of a part: a power of two; diagonal d has slot d mod slots
};

/// An attribute of a tile.add_lines that keeps sums: the numbers, among the values that it uses, of
/// the first query and the first key of its tile and of the other values that change within a work
/// item. Numbers, because later passes replace the values by those that loops carry.
inline constexpr llvm::StringLiteral keptValuesAttr = "pipe.kept_values";

/// These numbers; nothing if `op` has another form or too many values change.
std::optional<llvm::SmallVector<int64_t>> keptValues(tile::AddLinesOp op);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H
