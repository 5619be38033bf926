//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "check/RowSample.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace tesela {

namespace {

/// splitmix64 (Steele et al. 2014): gives the same with every compiler.
class Numbers {
public:
  /// In [0, end).
  int64_t below(int64_t end) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return int64_t((z ^ (z >> 31)) % uint64_t(end));
  }

private:
  uint64_t state = 0;
};

constexpr int64_t pairs = int64_t(1) << 20, leastRows = 64, mostRows = 1024;
/// Blocks of queries are multiples of this on all targets, except for small ones of the host.
constexpr int64_t blockEdge = 64;

} // namespace

std::vector<int64_t> sampleRows(const Extents &extents) {
  int64_t queries = extents.Sq, heads = int64_t(extents.B) * extents.H, all = heads * queries;
  if (all <= 0 || extents.Sk <= 0)
    return {};
  int64_t count = std::clamp(pairs / extents.Sk, leastRows, mostRows);
  if (all <= count) {
    std::vector<int64_t> rows(all);
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }
  Numbers numbers;
  std::set<int64_t> chosen = {0, all - 1};
  for (int64_t i = 0; i < count / 2; ++i) { // the first row of a block, or the last of the one
                                            // before
    int64_t query = numbers.below(queries) / blockEdge * blockEdge - numbers.below(2);
    chosen.insert(numbers.below(heads) * queries + std::max<int64_t>(query, 0));
  }
  while (int64_t(chosen.size()) < count)
    chosen.insert(numbers.below(all));
  return {chosen.begin(), chosen.end()};
}

std::string rowText(int64_t row, int64_t heads, int64_t queries) {
  return fmt::format("b {}, h {}, q {}", row / queries / heads, row / queries % heads,
                     row % queries);
}

} // namespace tesela
