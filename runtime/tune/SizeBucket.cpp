//===- SizeBucket.cpp - Launches that share a schedule ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/SizeBucket.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstdlib>

namespace tesela {

static int8_t exponent(uint64_t value) { return int8_t(std::bit_width(value)) - 1; }

SizeBucket SizeBucket::of(const Extents &extents) {
  uint64_t sharing = extents.Hkv > 0 ? uint64_t(extents.H / extents.Hkv) : 0;
  return {exponent(uint64_t(extents.B) * uint64_t(extents.H)), exponent(sharing),
          exponent(uint64_t(extents.Sq)), exponent(uint64_t(extents.Sk))};
}

std::string SizeBucket::name() const {
  auto power = [](int8_t exponent) { return exponent < 0 ? 0 : int64_t(1) << exponent; };
  return fmt::format("h{}.g{}.q{}.k{}", power(batchHeads), power(sharing), power(queries),
                     power(keys));
}

std::optional<SizeBucket> SizeBucket::parse(std::string_view name) {
  SizeBucket bucket;
  std::pair<char, int8_t *> parts[] = {{'h', &bucket.batchHeads},
                                       {'g', &bucket.sharing},
                                       {'q', &bucket.queries},
                                       {'k', &bucket.keys}};
  for (auto [letter, field] : parts) {
    if (letter != 'h') {
      if (!name.starts_with('.'))
        return std::nullopt;
      name.remove_prefix(1);
    }
    uint64_t value = 0;
    if (!name.starts_with(letter))
      return std::nullopt;
    auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), value);
    if (error != std::errc() || (value != 0 && !std::has_single_bit(value)) ||
        value > uint64_t(1) << 62)
      return std::nullopt;
    *field = exponent(value);
    name.remove_prefix(size_t(end - name.data()));
  }
  if (!name.empty())
    return std::nullopt;
  return bucket;
}

bool SizeBucket::isNear(const SizeBucket &other) const {
  return sharing == other.sharing && queries == other.queries && keys == other.keys &&
         std::abs(batchHeads - other.batchHeads) <= 2;
}

} // namespace tesela
