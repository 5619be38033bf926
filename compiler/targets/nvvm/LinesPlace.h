//===- LinesPlace.h - Where lines are summed --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H
#define TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H

#include "tile/GradientOps.h"

namespace tesela::nvvm {

/// Of a tile.add_lines: where its shared memory begins, set by pipe-place-buffers.
inline constexpr llvm::StringLiteral linesOffsetAttr = "pipe.lines_offset";

/// The bytes of shared memory that it takes.
int64_t linesBytes(tile::AddLinesOp op);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_LINESPLACE_H
