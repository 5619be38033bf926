//===- LinesPlace.h - Where lines are summed --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H
#define TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H

#include "tile/GradientOps.h"

#include <optional>

namespace tesela::nvvm {

/// Of a tile.add_lines: where its shared memory begins, set by pipe-place-buffers. Those of one
/// kind have one place. And where what it keeps lies, if it keeps something.
inline constexpr llvm::StringLiteral linesOffsetAttr = "pipe.lines_offset",
                                     keptOffsetAttr = "pipe.kept_offset";

/// How a tile.add_lines lies in shared memory: of each pair of rows a sum for each line, or for
/// `elements` all that there is. Warpgroups with roles sum diagonals of their own rows, so that
/// none waits for the other.
struct LinesPlace {
  explicit LinesPlace(tile::AddLinesOp op);

  int64_t bytes() const { return parts * bytesOfPart(); }
  int64_t bytesOfPart() const { return 4 * sets * stride; }

  int64_t parts = 1;     ///< of the tile's rows
  int64_t rows, columns; ///< of a part
  int64_t lines;         ///< of these
  int64_t sets;          ///< of numbers
  int64_t stride;        ///< numbers from one set to the next
};

/// What a thread keeps of a diagonal (Lines::keepLine): the diagonal's number, k - q; the sum; the
/// address of what it will be added to.
struct KeptLines {
  explicit KeptLines(const LinesPlace &place);

  /// Behind the slots: 1 where the part has summed a tile, and the values that changed up to it.
  int64_t bytes() const { return parts * bytesOfPart(); }
  int64_t bytesOfPart() const { return slots * bytesOfSlot + 4 * (1 + mostChanging); }
  int64_t lastOffset() const { return slots * bytesOfSlot; }

  static constexpr int64_t bytesOfSlot = 16, threads = 128, mostChanging = 3;
  int64_t parts, slots; ///< of a part, a power of two: diagonal d has slot d mod slots
};

/// Of a tile.add_lines that keeps something: which of the values that it uses are the first query
/// and the first key of its tile, and the others that change within a work item. By their number,
/// for later passes carry the values through loops.
inline constexpr llvm::StringLiteral keptValuesAttr = "pipe.kept_values";

/// These numbers, or nothing where `op` has another form or too many of them change.
std::optional<llvm::SmallVector<int64_t>> keptValues(tile::AddLinesOp op);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H
