//===- RandomSource.h - The same random numbers everywhere ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RANDOM_RANDOMSOURCE_H
#define TESELA_TESTS_RANDOM_RANDOMSOURCE_H

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

namespace tesela {

/// splitmix64 (Steele et al. 2014). It gives the same numbers with every compiler, unlike the
/// standard library's distributions.
class RandomSource {
public:
  /// Numbers of one `stream` of a seed do not depend on how many numbers other streams have drawn.
  RandomSource(uint64_t seed, uint64_t stream)
      : state(seed * 0xd1b54a32d192ed03u + stream * 0x8cb92ba72f3d8dd7u) {
    next();
  }

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, count).
  int below(int count) { return int(next() % uint64_t(count)); }
  /// In [low, high].
  int between(int low, int high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <typename List> const auto &pick(const List &list) {
    return list[size_t(below(int(std::size(list))))];
  }

private:
  uint64_t state;
};

} // namespace tesela

#endif // TESELA_TESTS_RANDOM_RANDOMSOURCE_H
