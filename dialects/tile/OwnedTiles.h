//===- OwnedTiles.h - Gradients that a kernel stores once -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_OWNEDTILES_H
#define TESELA_TILE_OWNEDTILES_H

#include "llvm/ADT/StringRef.h"

namespace tesela::tile {

/// An attribute of a kernel that sums the gradient of one tensor with an element for each query and
/// key. It stores each element exactly once, so no launch sets it to 0. `tile-own-tiles` sets it.
inline constexpr llvm::StringLiteral ownsTilesAttr = "tile.owns_tiles";

} // namespace tesela::tile

#endif // TESELA_TILE_OWNEDTILES_H
