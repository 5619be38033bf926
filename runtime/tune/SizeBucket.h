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

/// Launches whose sizes, rounded down to powers of two, are equal: batch times query heads (the
/// number of work items), query heads per key/value head (packed heads), queries (row blocks per
/// head) and keys (tiles per row block). Batch and heads are multiplied, because only their product
/// matters to a kernel.
struct SizeBucket {
  /// Exponents; -1 for an extent of 0.
  int8_t batchHeads = -1, sharing = -1, queries = -1, keys = -1;

  static SizeBucket of(const Extents &extents);
  /// "h32.g4.q4096.k4096".
  std::string name() const;
  static std::optional<SizeBucket> parse(std::string_view name);

  /// Whether only batch times heads differs, by a factor of at most four. The same schedule is then
  /// about as good, because only the number of waves changes.
  bool isNear(const SizeBucket &other) const;
  bool operator==(const SizeBucket &) const = default;
};

} // namespace tesela

#endif // TESELA_TUNE_SIZEBUCKET_H
