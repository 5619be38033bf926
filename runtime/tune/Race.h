//===- Race.h - The fastest of many kernels in little time ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Three stages, each for those whom the one before left (docs/decisions/tuning.md):
//   heats    each kernel beside the reference, a few launches; what cannot win is dropped
//   halving  rounds of one launch each, in an order that changes; the slower half goes
//   final    rounds of the last few, until the best is told apart or the time is over
// All speeds are ratios to the reference's launches in the same round: what other work does to the
// machine is then the same for both.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_RACE_H
#define TESELA_TUNE_RACE_H

#include "tesela/Status.h"

#include <optional>
#include <string>
#include <vector>

namespace tesela {

/// The kernels and the clock, as the race sees them.
class RaceTrack {
public:
  virtual ~RaceTrack() = default;
  /// The next kernel that is ready to run, a number below count(); nothing: there is no further
  /// one. Waits for compilations.
  virtual std::optional<size_t> next() = 0;
  virtual size_t count() const = 0;
  /// Milliseconds of a launch of a kernel that next() gave. An error drops the kernel.
  virtual Result<double> sample(size_t kernel) = 0;
  virtual double secondsLeft() const = 0;
  /// Whether somebody wants it to end now.
  virtual bool isCancelled() const = 0;
  /// Called when a kernel has been timed or dropped for the first time, and after each round.
  virtual void progressed() {}
};

/// What a race found out about a kernel.
struct Runner {
  bool ran = false;
  double ratio = 0;           ///< of its time to the reference's; 0: never timed
  double milliseconds = 0;    ///< the median of all its launches
  std::vector<double> rounds; ///< milliseconds in the rounds that it was part of, from the first on
  std::vector<double> heat;   ///< milliseconds in its heat
  std::string dropped;        ///< why it is out; "" for finalists
};

struct RaceOptions {
  /// Every kernel runs all rounds, whatever the time.
  bool exhaustive = false;
};

struct RaceResult {
  std::vector<Runner> runners; ///< by number
  size_t winner = 0;           ///< the reference where nothing is surely faster
  std::optional<size_t> runnerUp;
  double overReference = 0.5; ///< how sure the winner is faster than the reference
  double overRunnerUp = 0.5;
  bool timeUp = false;
};

/// The race of all kernels of `track` against `reference`, which is the first that next() gives.
/// Code::cancelled where it was cancelled; fails where the reference fails.
Result<RaceResult> race(RaceTrack &track, size_t reference, const RaceOptions &options = {});

} // namespace tesela

#endif // TESELA_TUNE_RACE_H
