//===- Tune.h - The fastest schedule by measurement -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Every schedule gives a right kernel; which one is the fastest depends on the device, the variant
// and the sizes. The heuristic guesses; the tuner measures, once, and keeps what it found beside
// the compiled kernels, where compile() looks for it (ContextOptions::tuning). docs/tuning.md.
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
  /// In host memory. Those that are not given are random; but what a mask reads must be given,
  /// since it decides how many tiles there are.
  std::vector<CaptureArgument> captures;
};

struct TuneProgress {
  int decided = 0; ///< schedules that were timed or dropped
  int total = 0;
  std::string best; ///< the fastest so far
  double bestMilliseconds = 0;
  double speedup = 1;     ///< of it over the heuristic's
  double secondsLeft = 0; ///< at most
};

struct TuneOptions {
  /// How long it may take, in seconds; the last launches and compilations may exceed it a little.
  double seconds = 60;
  /// Every schedule is timed fully, however long that takes: to hold the tuner's choice against.
  bool exhaustive = false;
  /// Threads that compile; 0: all processors but one, 32 at most. On the host, whose launches they
  /// would disturb, up to eight, which only compile while nothing is timed.
  int compileThreads = 0;
  /// Device memory that inputs and outputs may take, in bytes. They are there several times, so
  /// that no launch finds its inputs in a cache, as far as this allows.
  int64_t memoryBytes = int64_t(2) << 30;
  /// False: the choice is reported and not kept.
  bool keep = true;
  /// Called from the calling thread, a few times a second at most.
  std::function<void(const TuneProgress &)> progress;
  RequestLimits limits;
};

/// A schedule and what came of it.
struct Trial {
  std::string schedule;             ///< every choice, as KernelOptions::schedule takes them
  double predictedMilliseconds = 0; ///< by the cost model: an order, not a time
  double milliseconds = 0;          ///< median; 0: never timed
  double speedup = 0;               ///< over the heuristic's, by launches of the same rounds
  int launches = 0;                 ///< samples that the median is of
  bool isHeuristic = false;
  std::string dropped; ///< why it left the race; "" for finalists
};

struct TuneReport {
  std::string schedule;     ///< the choice: the heuristic's where nothing is surely faster
  bool isHeuristic = false; ///< it is the heuristic's
  double milliseconds = 0;
  double speedup = 1;         ///< over the heuristic's
  double overHeuristic = 0.5; ///< how sure the choice is faster than the heuristic's, 0 to 1
  double overRunnerUp = 0.5;  ///< and than the next best
  std::vector<Trial> trials;  ///< the fastest first, then those that were never timed
  int timed = 0;              ///< of the trials
  double seconds = 0;         ///< that it took
  bool timeUp = false;        ///< the time was over before the choice was sure
  std::string record;         ///< the file that keeps the choice; "" where it is not kept
};

/// Finds the fastest schedule for launches of `shape` on the context's device and keeps it. Choices
/// that `options.schedule` names stay as they are (and the result is not kept). Uses buffers and
/// kernels of its own; launches of others at the same time make it less sure, not wrong.
TESELA_EXPORT Result<TuneReport> tune(const Context &context, const KernelOptions &options,
                                      const TuneShape &shape, const TuneOptions &tuning = {});

/// A choice that was kept, or came with the library.
struct TunedChoice {
  ProblemSizes sizes;   ///< that were timed
  std::string bucket;   ///< all launches for which it counts: "h32.g4.q4096.k4096"
  std::string schedule; ///< every choice, as KernelOptions::schedule takes them
  double milliseconds = 0, heuristicMilliseconds = 0;
  double confidence = 0; ///< that it is faster than the heuristic's, 0 to 1
  int timed = 0;         ///< schedules
  std::string version;   ///< of Tesela
  std::string made;      ///< when, "2026-01-31T12:00:00Z"
  std::string path;      ///< the file
};

/// What is known for kernels of `options` on the context's device, whatever their sizes.
TESELA_EXPORT Result<std::vector<TunedChoice>> tunedChoices(const Context &context,
                                                            const KernelOptions &options);

/// Adds the records in the files `records` to the table `path`, which is made where it is not
/// there; of two for the same launches the new one stays. Without `records` nothing is written, and
/// a table that is there is checked. Tables of that form ship with the library
/// (share/tesela/tuned).
TESELA_EXPORT Status addToTable(const std::string &path, const std::vector<std::string> &records);

} // namespace tesela

#endif // TESELA_TUNE_H
