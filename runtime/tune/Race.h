//===- Race.h - Finds the fastest of many kernels quickly -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Three stages; each gets the kernels that the previous one left (docs/decisions/tuning.md):
//   heats    a few launches of each kernel and of the reference; drops kernels that cannot win
//   halving  rounds with one launch of each kernel in changing order; drops the slower half
//   final    rounds of the last few kernels, until the best is known or the time is over
// Speeds are ratios to the reference's launches in the same round, so other work on the machine
// affects both alike.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_RACE_H
#define TESELA_TUNE_RACE_H

#include "tesela/Status.h"

#include <optional>
#include <string>
#include <vector>

namespace tesela {

/// The race's access to the kernels and the clock.
class RaceTrack {
public:
  virtual ~RaceTrack() = default;
  /// The number of the next kernel that is ready to run, below count(); nullopt: there are no more.
  /// Waits for compilations.
  virtual std::optional<size_t> next() = 0;
  virtual size_t count() const = 0;
  /// Milliseconds of one launch of a kernel that next() returned. An Error drops the kernel.
  virtual Result<double> sample(size_t kernel) = 0;
  virtual double secondsLeft() const = 0;
  /// Whether the race should end now.
  virtual bool isCancelled() const = 0;
  /// Called when a kernel has been timed or dropped for the first time, and after each round.
  virtual void progressed() {}
};

/// The race's findings about a kernel.
struct Runner {
  bool ran = false;
  double ratio = 0;           ///< its time divided by the reference's; 0: never timed
  double milliseconds = 0;    ///< median of all its launches
  std::vector<double> rounds; ///< milliseconds of each round, until it was dropped
  std::vector<double> heat;   ///< milliseconds in its heat
  std::string dropped;        ///< why it was dropped; "" for finalists
};

struct RaceOptions {
  /// Every kernel runs all rounds, without a time limit.
  bool exhaustive = false;
};

struct RaceResult {
  std::vector<Runner> runners; ///< by the kernel's number
  size_t winner = 0;           ///< the reference unless another is surely faster
  std::optional<size_t> runnerUp;
  double overReference = 0.5; ///< probability that the winner is faster than the reference
  double overRunnerUp = 0.5;
  bool timeUp = false;
};

/// Races all kernels of `track` against `reference`, which must be the first that next() returns.
/// Code::cancelled if the race was cancelled. Fails if the reference fails.
Result<RaceResult> race(RaceTrack &track, size_t reference, const RaceOptions &options = {});

} // namespace tesela

#endif // TESELA_TUNE_RACE_H
