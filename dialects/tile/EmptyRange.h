//===- EmptyRange.h - Loops over blocks that may be empty -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A contract between the passes that lower tile.blocks and the passes that always run the first
// iteration of a loop, even if its range is empty.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_EMPTYRANGE_H
#define TESELA_TILE_EMPTYRANGE_H

#include "llvm/ADT/StringRef.h"

namespace tesela::tile {

/// An attribute of a loop over blocks. It says: if the range is empty, an iteration for the first
/// block does not change the carried values. `tile-lower-masks` sets it if the loop has a mask,
/// which then drops all elements of that block. If a part of closed ranges is empty, the first
/// block is one behind their end. A loop over a part of found blocks loses the attribute.
inline constexpr llvm::StringLiteral dropsEmptyAttr = "tile.drops_empty";

} // namespace tesela::tile

#endif // TESELA_TILE_EMPTYRANGE_H
