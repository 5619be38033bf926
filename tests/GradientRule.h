//===- GradientRule.h - How near a gradient must be -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_GRADIENTRULE_H
#define TESELA_TESTS_GRADIENTRULE_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tesela::test {

/// What a result must be near. `base`: as an honest kernel gives it, which rounds what a product
/// reads; `sizes`: the sums of the magnitudes of what each element adds.
struct GradientReference {
  std::vector<double> exact, base, sizes;
};

/// Each row's error is no more than twice that of the honest kernel, twice what the result's
/// rounding leaves (`rounded`: to its type), and what sums in f32 leave: 4 units of what they add.
/// "" where that holds, else the first row that breaks it.
inline std::string gradientFault(const std::vector<float> &out, const GradientReference &reference,
                                 size_t rowElements, const std::function<double(double)> &rounded) {
  if (out.size() != reference.exact.size())
    return "expected " + std::to_string(reference.exact.size()) + " elements, got " +
           std::to_string(out.size());
  for (size_t first = 0; first < out.size(); first += rowElements) {
    double error = 0, honest = 0, rounding = 0, sums = 0;
    for (size_t i = first; i < std::min(first + rowElements, out.size()); ++i) {
      double exact = reference.exact[i];
      error += std::pow(out[i] - exact, 2);
      honest += std::pow(reference.base[i] - exact, 2);
      rounding += std::pow(rounded(exact + 0.3) - 0.3 - exact, 2);
      sums += std::pow(4 * 0x1p-24 * reference.sizes[i], 2);
    }
    double limit = 2 * std::sqrt(honest) + 2 * std::sqrt(rounding) + std::sqrt(sums);
    if (!(std::sqrt(error) <= limit)) // a NaN breaks it, too
      return "row " + std::to_string(first / rowElements) + ": an error of " +
             std::to_string(std::sqrt(error)) + ", at most " + std::to_string(limit);
  }
  return "";
}

} // namespace tesela::test

#endif // TESELA_TESTS_GRADIENTRULE_H
