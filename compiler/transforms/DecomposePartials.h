//===- DecomposePartials.h - Sums for parameters ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// tile.score_partials and tile.sink_partials as maps and sums. What a row adds to one element,
// whose index no key changes, is summed in registers over the loop of the keys, and collected once
// a row; what a column, or a diagonal of a tile adds to one element, once a tile (tile.add_lines);
// all else is added pair by pair.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_DECOMPOSEPARTIALS_H
#define TESELA_COMPILER_TRANSFORMS_DECOMPOSEPARTIALS_H

#include "tile/GradientOps.h"

namespace tesela {

/// Of a tile.score_partials: its score is exact, and so are the derivatives.
inline constexpr llvm::StringLiteral exactPartialsAttr = "exact";

/// Writes what `op` does before it, and, of what is summed over a loop, behind the loop. The op
/// itself stays.
void decompose(tile::ScorePartialsOp op);
void decompose(tile::SinkPartialsOp op);

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_DECOMPOSEPARTIALS_H
