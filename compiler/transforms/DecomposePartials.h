//===- DecomposePartials.h - Sums for parameters ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Lowers tile.score_partials and tile.sink_partials to maps and sums. If no index depends on the
// key, a row adds to one element: its sum stays in registers during the loop over keys and is
// collected once for each row. If a column, or a diagonal of a tile, adds to one element, it is
// added once for each tile (tile.add_lines). All other additions are made pair by pair.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_DECOMPOSEPARTIALS_H
#define TESELA_COMPILER_TRANSFORMS_DECOMPOSEPARTIALS_H

#include "tile/GradientOps.h"

namespace tesela {

/// An attribute of a tile.score_partials: the score is exact, and so are its derivatives.
inline constexpr llvm::StringLiteral exactPartialsAttr = "exact";

/// Writes the additions of `op` before it, and sums over a loop after that loop. Does not erase
/// `op`.
void decompose(tile::ScorePartialsOp op);
void decompose(tile::SinkPartialsOp op);

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_DECOMPOSEPARTIALS_H
