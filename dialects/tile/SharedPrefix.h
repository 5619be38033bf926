//===- SharedPrefix.h - Kernels of a plan with a shared prefix --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// If all sequences of a batch begin with the same keys, a plan has three kinds of kernels
// (tile-share-prefix). Kernels of the prefix treat the tokens of all sequences as rows of one
// sequence. Kernels of the suffixes handle each sequence. One kernel joins both results. The
// attribute says which kind a kernel is. Passes and the launch plan read it.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_SHAREDPREFIX_H
#define TESELA_TILE_SHAREDPREFIX_H

#include "tile/Tile.h"

#include <optional>

namespace tesela::tile {

/// An attribute of a kernel: "prefix", "suffix" or "join".
inline constexpr llvm::StringLiteral prefixPartAttr = "tile.prefix_part";

enum class PrefixPart { Prefix, Suffix, Join };

/// Nullopt if no prefix is shared.
inline std::optional<PrefixPart> prefixPartOf(KernelOp kernel) {
  auto name = kernel->getAttrOfType<mlir::StringAttr>(prefixPartAttr);
  if (!name)
    return std::nullopt;
  return name == "prefix"   ? PrefixPart::Prefix
         : name == "suffix" ? PrefixPart::Suffix
                            : PrefixPart::Join;
}

/// Whether the kernel's launch has one batch, whose queries are the tokens of all sequences.
inline bool isOfTokens(KernelOp kernel) {
  std::optional<PrefixPart> part = prefixPartOf(kernel);
  return part && *part != PrefixPart::Suffix;
}

/// The additional captured tensors of such a plan. The prefix has its pages, i32[1, pages], and
/// its number of keys, i32[1]. Each token has its position, the number of its sequence, and the
/// number of keys of that sequence, i32[tokens] each. Kernel arguments have `$` before the name.
namespace shared_prefix {
inline constexpr llvm::StringLiteral table = "prefix_table", length = "prefix_length",
                                     positions = "query_positions", sequences = "query_sequences",
                                     keys = "query_keys";
} // namespace shared_prefix

} // namespace tesela::tile

#endif // TESELA_TILE_SHAREDPREFIX_H
