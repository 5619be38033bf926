//===- TokenOrder.h - Work items of sequences in a row ----------*- C++ -*-===//
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

/// Of a `tile.sequence` whose rows are `tile.work`'s: the kernel's argument with the starts of the
/// sequences, and one whose axis 2 has their tokens (an array of two numbers). The work map may
/// then have a row of blocks of the tokens each, instead of as many for each sequence as the
/// longest may need, most of which are empty. A target that does not know it is right, too.
inline constexpr llvm::StringLiteral tokenOrderAttr = "tile.token_order";

} // namespace tesela::tile

#endif // TESELA_TILE_TOKENORDER_H
