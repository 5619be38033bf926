//===- SizeBucket.h - Launches that share a schedule ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_SIZEBUCKET_H
#define TESELA_TUNE_SIZEBUCKET_H

#include "tesela/compiler/Artifact.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tesela {

/// Launches whose sizes have the same powers of two, each rounded down: batch times query heads
/// (how many work items, against the multiprocessors), query heads of a key/value head (packed
/// heads), queries (rows of blocks) and keys (tiles of a row). Batch and heads count together: a
/// kernel does not tell them apart but by their product.
struct SizeBucket {
  /// Exponents; -1 of nothing.
  int8_t batchHeads = -1, sharing = -1, queries = -1, keys = -1;

  static SizeBucket of(const Extents &extents);
  /// "h32.g4.q4096.k4096".
  std::string name() const;
  static std::optional<SizeBucket> parse(std::string_view name);

  /// The same with but another number of heads, no more than four times as many or as few: how
  /// good a schedule is then hardly differs, since it is the number of waves alone.
  bool isNear(const SizeBucket &other) const;
  bool operator==(const SizeBucket &) const = default;
};

} // namespace tesela

#endif // TESELA_TUNE_SIZEBUCKET_H
