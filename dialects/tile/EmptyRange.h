//===- EmptyRange.h - What a loop does with a range of no blocks -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A contract between the passes that lower tile.blocks and those that run a loop's first iteration
// whether or not there is one.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_EMPTYRANGE_H
#define TESELA_TILE_EMPTYRANGE_H

#include "llvm/ADT/StringRef.h"

namespace tesela::tile {

/// Of a loop over blocks: where its range is empty, an iteration for the first block changes
/// nothing that the loop carries. `tile-lower-masks` sets it where the loop has a mask, which then
/// drops all elements of that block. A loop over an empty share of closed ranges has a block behind
/// their end for it; one over a share of blocks that are found loses the attribute.
inline constexpr llvm::StringLiteral dropsEmptyAttr = "tile.drops_empty";

} // namespace tesela::tile

#endif // TESELA_TILE_EMPTYRANGE_H
