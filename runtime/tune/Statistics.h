//===- Statistics.h - Which of two kernels is faster ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_STATISTICS_H
#define TESELA_TUNE_STATISTICS_H

#include <span>
#include <vector>

namespace tesela {

/// The middle value, or the mean of the middle two; 0 if there is none.
double median(std::vector<double> values);

/// The median of times[i] / others[i]. Both are from the same round, so that a slowdown of the
/// whole machine affects both. Rounds that only one of them has are ignored.
double pairedRatio(std::span<const double> times, std::span<const double> others);

/// The probability that pairedRatio() of another such series of rounds would be below `limit`: its
/// share among 1000 resampled series (bootstrap, the same in every process). 0.5 if there are fewer
/// than three rounds.
double confidenceBelow(double limit, std::span<const double> times, std::span<const double> others);

} // namespace tesela

#endif // TESELA_TUNE_STATISTICS_H
