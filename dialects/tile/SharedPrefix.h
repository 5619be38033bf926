//===- SharedPrefix.h - Kernels of a plan with a shared prefix --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Where all sequences of a batch begin with the same keys, a plan has three kinds of kernels
// (tile-share-prefix): those of the prefix, for which the tokens of all sequences are rows of one;
// those of the suffixes; and one that joins both. A kernel's attribute says which it is, to the
// passes that place its views and fill its hooks, and to the launch plan.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_SHAREDPREFIX_H
#define TESELA_TILE_SHAREDPREFIX_H

#include "tile/Tile.h"

#include <optional>

namespace tesela::tile {

/// Of a kernel: "prefix", "suffix" or "join".
inline constexpr llvm::StringLiteral prefixPartAttr = "tile.prefix_part";

enum class PrefixPart { Prefix, Suffix, Join };

/// Nothing where no prefix is shared.
inline std::optional<PrefixPart> prefixPartOf(KernelOp kernel) {
  auto name = kernel->getAttrOfType<mlir::StringAttr>(prefixPartAttr);
  if (!name)
    return std::nullopt;
  return name == "prefix"   ? PrefixPart::Prefix
         : name == "suffix" ? PrefixPart::Suffix
                            : PrefixPart::Join;
}

/// Whether its launch has one batch, whose queries are the tokens of all sequences.
inline bool isOfTokens(KernelOp kernel) {
  std::optional<PrefixPart> part = prefixPartOf(kernel);
  return part && *part != PrefixPart::Suffix;
}

/// What such a plan takes besides, as captured tensors: the pages of the prefix, i32[1, pages], and
/// its number of keys, i32[1]; of each token its position, the number of its sequence, and the
/// number of that one's keys, i32[tokens]. A kernel's arguments have `$` before the name.
namespace shared_prefix {
inline constexpr llvm::StringLiteral table = "prefix_table", length = "prefix_length",
                                     positions = "query_positions", sequences = "query_sequences",
                                     keys = "query_keys";
} // namespace shared_prefix

} // namespace tesela::tile

#endif // TESELA_TILE_SHAREDPREFIX_H
