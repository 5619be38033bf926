//===- LinesPlace.h - Where lines are summed --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H
#define TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H

#include "tile/GradientOps.h"

namespace tesela::nvvm {

/// Of a tile.add_lines: where its shared memory begins, set by pipe-place-buffers. Those of one
/// kind have one place.
inline constexpr llvm::StringLiteral linesOffsetAttr = "pipe.lines_offset";

/// How a tile.add_lines lies in shared memory: of each pair of rows a sum for each line, or for
/// `elements` all that there is.
struct LinesPlace {
  explicit LinesPlace(tile::AddLinesOp op);

  int64_t bytes() const { return 4 * sets * stride; }

  int64_t rows, columns; ///< of the tile
  int64_t lines;         ///< of these
  int64_t sets;          ///< of numbers
  int64_t stride;        ///< numbers from one set to the next
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H
