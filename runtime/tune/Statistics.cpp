//===- Statistics.cpp - Which of two kernels is faster ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/Statistics.h"

#include <algorithm>
#include <cstddef>
#include <random>

namespace tesela {

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + half, values.end());
  double upper = values[half];
  if (values.size() % 2)
    return upper;
  return (*std::max_element(values.begin(), values.begin() + half) + upper) / 2;
}

static std::vector<double> ratios(std::span<const double> times, std::span<const double> others) {
  std::vector<double> result(std::min(times.size(), others.size()));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = times[i] / others[i];
  return result;
}

double pairedRatio(std::span<const double> times, std::span<const double> others) {
  return median(ratios(times, others));
}

double confidenceBelow(double limit, std::span<const double> times,
                       std::span<const double> others) {
  std::vector<double> measured = ratios(times, others);
  if (measured.size() < 3)
    return 0.5;
  constexpr int resamples = 1000;
  std::mt19937 random(1); // NOLINT: equal rounds give equal answers
  double below = 0;
  std::vector<double> drawn(measured.size());
  for (int i = 0; i < resamples; ++i) {
    for (double &each : drawn)
      each = measured[random() % measured.size()];
    double middle = median(drawn);
    below += middle < limit ? 1 : middle == limit ? 0.5 : 0;
  }
  return below / resamples;
}

} // namespace tesela
