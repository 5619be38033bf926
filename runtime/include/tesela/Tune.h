//===- Tune.h - The fastest schedule by measurement -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Every schedule gives a correct kernel. Which one is fastest depends on device, variant and sizes.
// The heuristic guesses; the tuner measures once and stores its choice beside the compiled kernels,
// where compile() finds it (ContextOptions::tuning). See docs/tuning.md.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_H
#define TESELA_TUNE_H

#include "tesela/Context.h"
#include "tesela/RequestLimits.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tesela {

/// The launch that a kernel is tuned for.
struct TuneShape : ProblemSizes {
  std::vector<ScalarArgument> scalars; ///< those with a default may be left out
  /// In host memory. Missing ones are filled with random numbers, except those that a mask reads:
  /// these must be given, because they decide how many tiles are computed.
  std::vector<CaptureArgument> captures;
};

struct TuneProgress {
  int decided = 0; ///< schedules that were timed or dropped
  int total = 0;
  std::string best; ///< the fastest so far
  double bestMilliseconds = 0;
  double speedup = 1;     ///< of the best one over the heuristic's schedule
  double secondsLeft = 0; ///< an upper bound
};

struct TuneOptions {
  /// The time limit in seconds. The last launches and compilations may exceed it a little.
  double seconds = 60;
  /// Times every schedule fully, however long that takes, to judge the tuner's own choice.
  bool exhaustive = false;
  /// Threads that compile; 0: on a GPU all processors but one, at most 32; on the host up to eight,
  /// which compile only while nothing is timed, because they would disturb the launches.
  int compileThreads = 0;
  /// The most bytes of device memory for inputs and outputs. The tuner uses several copies of them
  /// within this limit, so that no launch finds its inputs in the L2 cache.
  int64_t memoryBytes = int64_t(2) << 30;
  /// False: the choice is reported but not stored.
  bool keep = true;
  /// Called from the calling thread, at most a few times a second.
  std::function<void(const TuneProgress &)> progress;
  RequestLimits limits;
};

/// A schedule and its measurement.
struct Trial {
  std::string schedule;             ///< every choice, in the syntax of KernelOptions::schedule
  double predictedMilliseconds = 0; ///< by the cost model, useful for ranking only
  double milliseconds = 0;          ///< median; 0: never timed
  double speedup = 0;               ///< over the heuristic's, from launches in the same rounds
  int launches = 0;                 ///< how many launches were measured
  bool isHeuristic = false;
  std::string dropped; ///< why it was not timed to the end; empty for finalists
};

struct TuneReport {
  std::string schedule;     ///< the choice; the heuristic's unless another is surely faster
  bool isHeuristic = false; ///< whether the choice is the heuristic's
  double milliseconds = 0;
  double speedup = 1;         ///< over the heuristic's schedule
  double overHeuristic = 0.5; ///< probability that the choice is faster than the heuristic's
  double overRunnerUp = 0.5;  ///< probability that it is faster than the next best
  std::vector<Trial> trials;  ///< the fastest first, then those that were never timed
  int timed = 0;              ///< how many of the trials were timed
  double seconds = 0;         ///< the time that tuning took
  bool timeUp = false;        ///< the time limit ended tuning before the choice was sure
  std::string record;         ///< the file that stores the choice; empty if it is not stored
};

/// Finds the fastest schedule for launches of `shape` on the context's device and stores it. What
/// `options.schedule` names stays as it is (then the result is not stored). Uses its own buffers
/// and kernels. Other launches at the same time make the choice less sure, but no result wrong.
TESELA_EXPORT Result<TuneReport> tune(const Context &context, const KernelOptions &options,
                                      const TuneShape &shape, const TuneOptions &tuning = {});

/// A choice that tune() stored or that was shipped with the library.
struct TunedChoice {
  ProblemSizes sizes;   ///< the sizes that were timed
  std::string bucket;   ///< the launches that it applies to: "h32.g4.q4096.k4096"
  std::string schedule; ///< every choice, in the syntax of KernelOptions::schedule
  double milliseconds = 0, heuristicMilliseconds = 0;
  double confidence = 0; ///< probability that it is faster than the heuristic's
  int timed = 0;         ///< how many schedules were timed
  std::string version;   ///< of Tesela
  std::string made;      ///< when, "2026-01-31T12:00:00Z"
  std::string path;      ///< the file
};

/// All choices for kernels of `options` on the context's device, for any sizes.
TESELA_EXPORT Result<std::vector<TunedChoice>> tunedChoices(const Context &context,
                                                            const KernelOptions &options);

/// Adds the records in the files `records` to the table `path`, which is created if it does not
/// exist. A new record replaces an old one for the same launches. Without `records`, an existing
/// table is checked and nothing is written. The library's own tables (share/tesela/tuned) have this
/// form.
TESELA_EXPORT Status addToTable(const std::string &path, const std::vector<std::string> &records);

} // namespace tesela

#endif // TESELA_TUNE_H
