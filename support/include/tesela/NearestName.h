//===- NearestName.h - Guesses a misspelt name ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_NEARESTNAME_H
#define TESELA_NEARESTNAME_H

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <vector>

namespace tesela {

namespace detail {

/// The least number of letters to insert, remove, replace or swap with a neighbour that turns `a`
/// into `b`.
inline size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> beforeLast(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    beforeLast.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], beforeLast[j - 2] + 1);
    }
  }
  return row[b.size()];
}

inline bool equalIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

} // namespace detail

/// The candidate nearest to `name` by edit distance. Empty if no candidate is near enough to be a
/// likely misspelling.
inline std::string_view nearestName(std::string_view name,
                                    const std::vector<std::string_view> &candidates) {
  // A third of the letters may differ; a name of one letter may only differ in case.
  if (name.size() > 64)
    return {};
  std::string_view best;
  size_t limit = (name.size() + 1) / 3;
  for (std::string_view candidate : candidates) {
    if (detail::equalIgnoringCase(name, candidate))
      return candidate;
    size_t distance = detail::editDistance(name, candidate);
    if (name.size() > 1 && distance <= limit) {
      best = candidate;
      limit = distance - 1;
    }
  }
  return best;
}

} // namespace tesela

#endif // TESELA_NEARESTNAME_H
