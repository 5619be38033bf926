//===- Statistics.h - Which of two kernels is faster ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_STATISTICS_H
#define TESELA_TUNE_STATISTICS_H

#include <span>
#include <vector>

namespace tesela {

/// The middle value, or the mean of the middle two; 0 of none.
double median(std::vector<double> values);

/// The median of times[i] / others[i]: both of the same round, so that what slowed the whole
/// machine down for a while slowed down both. Rounds that only one of them has are left out.
double pairedRatio(std::span<const double> times, std::span<const double> others);

/// How sure it is, from 0 to 1, that pairedRatio() of as many rounds again would be below `limit`:
/// the share of resampled rounds (bootstrap, 1000 of them, the same in every process) in which it
/// is. 0.5 where there are fewer than three rounds.
double confidenceBelow(double limit, std::span<const double> times, std::span<const double> others);

} // namespace tesela

#endif // TESELA_TUNE_STATISTICS_H
