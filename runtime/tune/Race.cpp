//===- Race.cpp - Finds the fastest of many kernels quickly -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/Race.h"

#include "tune/Statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <random>

namespace tesela {

namespace {

// A kernel that loses its heat by this factor has not won a final in any exhaustive search
// (docs/log/2026-11-22-tuner.md). If others use the machine, ratios of heats are accurate to 10 %.
constexpr double lostHeat = 1.25, lostHeats = 1.15;
constexpr double hopeless = 3; ///< in two consecutive launches
constexpr int samplesOfHeat = 3, secondChance = 3;
constexpr size_t recentSamples = 16;
constexpr size_t mostRunners = 24, finalists = 4;
constexpr int roundsOfHalving = 3, roundsOfAll = 12, mostInFinal = 96;
/// Looking after each round would stop too early, at a result that is good by chance.
constexpr int roundsBetweenLooks = 32;
/// The share of the time after which heats and halving end.
constexpr double heatsShare = 0.6, halvingShare = 0.8;
/// A schedule replaces the heuristic's if it is at least 1 % faster with a probability of 99 %.
/// With 95 % the best of many schedules would too often be better by chance.
constexpr double leastGain = 0.01, sure = 0.95, verySure = 0.99;

class RaceRun {
public:
  RaceRun(RaceTrack &track, size_t reference, const RaceOptions &options)
      : track(track), reference(reference), options(options), seconds(track.secondsLeft()) {
    result.runners.resize(track.count());
    cautious.resize(track.count());
    result.winner = reference;
  }

  Result<RaceResult> run() {
    for (auto stage : {&RaceRun::heats, &RaceRun::all, &RaceRun::halving, &RaceRun::finish})
      if (Status status = (this->*stage)(); !status)
        return status.error();
    choose();
    return std::move(result);
  }

private:
  RaceTrack &track;
  const size_t reference;
  const RaceOptions options;
  const double seconds;
  RaceResult result;
  std::vector<size_t> running;  ///< kernels still in the race, without the reference
  std::deque<double> recent;    ///< latest launches of the reference
  std::vector<double> cautious; ///< cautiousRatio() of the heat, by the kernel's number
  std::mt19937 random{1};       // NOLINT: every race uses the same orders

  Runner &at(size_t kernel) { return result.runners[kernel]; }
  bool isOver(double share) {
    if (options.exhaustive || track.secondsLeft() > seconds * (1 - share))
      return false;
    result.timeUp |= share == 1;
    return true;
  }
  Status checkCancelled() const {
    if (!track.isCancelled())
      return Status::success();
    return Error(Code::cancelled, "the tuning was cancelled: nothing was kept");
  }
  void drop(size_t kernel, std::string reason) {
    at(kernel).dropped = std::move(reason);
    std::erase(running, kernel);
  }

  /// Appends the time of a launch to `times`; drops the kernel if it fails.
  bool time(size_t kernel, std::vector<double> &times) {
    Result<double> milliseconds = track.sample(kernel);
    if (!milliseconds) {
      drop(kernel, milliseconds.error().message());
      return false;
    }
    times.push_back(*milliseconds);
    return true;
  }
  Status timeReference(std::vector<double> &times) {
    Result<double> milliseconds = track.sample(reference);
    if (!milliseconds)
      return milliseconds.error().within("timing the heuristic's schedule");
    times.push_back(*milliseconds);
    recent.push_back(*milliseconds);
    if (recent.size() > recentSamples)
      recent.pop_front();
    return Status::success();
  }

  /// The kernel's fastest launch divided by the reference's fastest recent one. It is correct if
  /// both had a quiet machine, and too large otherwise. With only a few neighbouring launches it
  /// could be too small, if all of the reference's were disturbed.
  double cautiousRatio(const Runner &runner) const {
    return *std::min_element(runner.heat.begin(), runner.heat.end()) /
           *std::min_element(recent.begin(), recent.end());
  }

  /// Compares the kernel with the reference's launches between its own, by the fastest of each:
  /// other work makes launches slower, never faster. A kernel that seems to lose gets a second
  /// chance.
  Status heat(size_t kernel, double best) {
    Runner &runner = at(kernel);
    std::vector<double> warmup, others;
    if (!time(kernel, warmup))
      return Status::success();
    for (int i = 0; i < samplesOfHeat + secondChance; ++i) {
      if (Status status = timeReference(others); !status)
        return status;
      if (!time(kernel, runner.heat))
        return Status::success();
      runner.ratio = *std::min_element(runner.heat.begin(), runner.heat.end()) /
                     *std::min_element(others.begin(), others.end());
      bool isHopeless = !options.exhaustive && runner.ratio > hopeless &&
                        warmup[0] > hopeless * others[0] && i > 0;
      if (isHopeless || (i + 1 >= samplesOfHeat && runner.ratio <= lostHeat * best))
        break;
    }
    runner.ran = true;
    cautious[kernel] = cautiousRatio(runner);
    if (!options.exhaustive && runner.ratio > lostHeat * best)
      drop(kernel,
           fmt::format("lost its heat: {:.2f} of the time of the best", runner.ratio / best));
    return Status::success();
  }

  Status heats() {
    std::optional<size_t> first = track.next();
    if (!first)
      return Error(Code::defect, "a race without the heuristic's schedule");
    Runner &leader = at(reference);
    for (int i = 0; i < 4; ++i) // the first launch is the warm-up
      if (Status status = timeReference(leader.heat); !status)
        return status;
    leader.heat.erase(leader.heat.begin());
    leader.ran = true;
    leader.ratio = 1;
    track.progressed();
    double best = 1;
    while (!isOver(heatsShare)) {
      if (Status status = checkCancelled(); !status)
        return status;
      std::optional<size_t> kernel = track.next();
      if (!kernel)
        break;
      running.push_back(*kernel);
      if (Status status = heat(*kernel, best); !status)
        return status;
      if (at(*kernel).dropped.empty())
        best = std::min(best, cautious[*kernel]);
      track.progressed();
    }
    for (Runner &runner : result.runners)
      if (!runner.ran && runner.dropped.empty())
        runner.dropped =
            "not timed: the time limit was reached, and the model expected it to be slower";
    if (options.exhaustive)
      return Status::success();
    sortRunning();
    for (size_t kernel : std::vector(running))
      if (at(kernel).ratio > lostHeats * best)
        drop(kernel, fmt::format("lost the heats: {:.2f} of the time of the best",
                                 at(kernel).ratio / best));
    keepBest(mostRunners, "the heats");
    return Status::success();
  }

  /// One launch of each remaining kernel and of the reference, in a new order.
  Status round() {
    if (Status status = checkCancelled(); !status)
      return status;
    std::vector<size_t> order = running;
    order.push_back(reference);
    std::shuffle(order.begin(), order.end(), random);
    for (size_t kernel : order) {
      if (kernel != reference)
        time(kernel, at(kernel).rounds);
      else if (Status status = timeReference(at(reference).rounds); !status)
        return status;
    }
    for (size_t kernel : running)
      at(kernel).ratio = pairedRatio(at(kernel).rounds, at(reference).rounds);
    track.progressed();
    return Status::success();
  }

  void sortRunning() {
    std::stable_sort(running.begin(), running.end(),
                     [&](size_t a, size_t b) { return at(a).ratio < at(b).ratio; });
  }
  void keepBest(size_t count, const char *stage) {
    sortRunning();
    while (running.size() > count)
      drop(running.back(), fmt::format("lost {}: {} were faster", stage, count));
  }

  /// The exhaustive search: no kernel is dropped.
  Status all() {
    for (int i = 0; options.exhaustive && i < roundsOfAll; ++i)
      if (Status status = round(); !status)
        return status;
    return Status::success();
  }

  Status halving() {
    while (!options.exhaustive && running.size() > finalists && !isOver(halvingShare)) {
      for (int i = 0; i < roundsOfHalving && !isOver(halvingShare); ++i)
        if (Status status = round(); !status)
          return status;
      keepBest(std::max(finalists, running.size() / 2), "a round");
    }
    keepBest(finalists, "the rounds");
    return Status::success();
  }

  Status finish() {
    for (int i = 0; i < mostInFinal && !running.empty(); ++i) {
      if (isOver(1) && at(reference).rounds.size() >= 3)
        break;
      if (Status status = round(); !status)
        return status;
      sortRunning();
      if (!running.empty() && (i + 1) % roundsBetweenLooks == 0 && isDecided())
        break;
    }
    sortRunning();
    return Status::success();
  }

  /// Whether the best is surely faster or slower than the reference, and surely faster than the
  /// next one, or equal to it.
  bool isDecided() {
    const std::vector<double> &best = at(running[0]).rounds, &base = at(reference).rounds;
    double faster = confidenceBelow(1 - leastGain, best, base);
    if (faster < verySure && faster > 1 - verySure)
      return false;
    if (running.size() < 2 || faster < 0.5)
      return true;
    const std::vector<double> &next = at(running[1]).rounds;
    return confidenceBelow(1, best, next) > verySure ||
           confidenceBelow(1 - leastGain, best, next) < 1 - sure;
  }

  void choose() {
    for (size_t i = 0; i < result.runners.size(); ++i)
      if (at(i).ran && at(i).rounds.empty() && i != reference)
        at(i).ratio = std::max(at(i).ratio, cautious[i]);
    for (Runner &runner : result.runners)
      runner.milliseconds = median(runner.rounds.size() > 2 ? runner.rounds : runner.heat);
    if (running.empty())
      return;
    const std::vector<double> &best = at(running[0]).rounds, &base = at(reference).rounds;
    double faster = confidenceBelow(1, best, base);
    bool isBetter = faster >= verySure && at(running[0]).ratio <= 1 - leastGain;
    result.winner = isBetter ? running[0] : reference;
    if (isBetter) {
      result.overReference = faster;
      // The one behind the winner: another finalist, or the reference.
      bool hasOther = running.size() > 1 && at(running[1]).ratio < 1;
      result.runnerUp = hasOther ? running[1] : reference;
    } else {
      result.runnerUp = running[0];
    }
    result.overRunnerUp = confidenceBelow(1, at(result.winner).rounds, at(*result.runnerUp).rounds);
  }
};

} // namespace

Result<RaceResult> race(RaceTrack &track, size_t reference, const RaceOptions &options) {
  return RaceRun(track, reference, options).run();
}

} // namespace tesela
