//===- TokenOrder.h - Work items over packed sequences ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A contract between tile-place-views, which knows that sequences lie one after the other, and the
// targets, which number work items.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_TOKENORDER_H
#define TESELA_TILE_TOKENORDER_H

#include "llvm/ADT/StringRef.h"

namespace tesela::tile {

/// An attribute of a `tile.sequence` of `tile.work`'s rows: an array of two argument numbers. The
/// first argument has the starts of the sequences; axis 2 of the second has their tokens. With it
/// the work map may have one block for each block of tokens, not as many blocks for each sequence
/// as the longest one may need, of which most are empty. A target may ignore the attribute.
inline constexpr llvm::StringLiteral tokenOrderAttr = "tile.token_order";

} // namespace tesela::tile

#endif // TESELA_TILE_TOKENORDER_H
