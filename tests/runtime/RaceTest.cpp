//===- RaceTest.cpp - Races of kernels whose times are known --------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/Race.h"
#include "tune/Statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

using namespace tesela;

namespace {

/// Kernels with given times, a machine with noise, and a clock that only launches advance.
class FakeTrack : public RaceTrack {
public:
  std::vector<double> milliseconds; ///< 0 is the reference
  double noise = 0.02;              ///< relative standard deviation of a launch's time
  /// The factor by which other work on the machine slows a launch down, at a time of the clock.
  std::function<double(double seconds)> load = [](double) { return 1.0; };
  double budget = 60, compileSeconds = 0.01;
  std::map<size_t, int> samples;
  double clock = 0;
  int failsAt = -1, cancelAfter = -1;

  size_t count() const override { return milliseconds.size(); }
  std::optional<size_t> next() override {
    if (given == milliseconds.size())
      return std::nullopt;
    clock += compileSeconds;
    return given++;
  }
  Result<double> sample(size_t kernel) override {
    ++samples[kernel];
    if (int(kernel) == failsAt)
      return Error(Code::driver, "it does not launch");
    double time = milliseconds[kernel] * load(clock) * std::exp(noise * normal(random));
    clock += time * 1e-3;
    return time;
  }
  double secondsLeft() const override { return std::max(budget - clock, 0.0); }
  bool isCancelled() const override {
    return cancelAfter >= 0 && int(samples.size()) > cancelAfter;
  }

private:
  size_t given = 0;
  std::mt19937 random{7};
  std::normal_distribution<double> normal;
};

/// A hundred kernels with 0.9 to 3 times the reference's time; one of them is the best.
FakeTrack hundred(size_t best, double bestMilliseconds) {
  FakeTrack track;
  track.milliseconds = {2.0};
  std::mt19937 random(3);
  while (track.milliseconds.size() < 100)
    track.milliseconds.push_back(1.8 + 4.2 * double(random() % 1000) / 1000);
  track.milliseconds[best] = bestMilliseconds;
  return track;
}

int totalSamples(const FakeTrack &track) {
  int total = 0;
  for (auto [kernel, samples] : track.samples)
    total += samples;
  return total;
}

TEST(Race, FindsTheFastestAndIsSure) {
  for (size_t best : {1u, 40u, 99u}) {
    FakeTrack track = hundred(best, 1.6);
    Result<RaceResult> result = race(track, 0);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->winner, best);
    EXPECT_NEAR(result->runners[best].ratio, 0.8, 0.02);
    EXPECT_GE(result->overReference, 0.99);
    EXPECT_FALSE(result->timeUp);
    // Kernels that cannot win are dropped after a few launches.
    EXPECT_LT(totalSamples(track), 1500) << "of 100 kernels";
  }
}

// A machine with load: other work halves its speed for part of each second.
TEST(Race, LoadOfTheMachineDecidesNothing) {
  for (size_t best : {1u, 50u, 99u}) {
    FakeTrack track = hundred(best, 1.6);
    track.load = [](double seconds) { return std::fmod(seconds, 1.0) < 0.4 ? 2.0 : 1.0; };
    Result<RaceResult> result = race(track, 0);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->winner, best);
  }
}

// Two in five launches lose their processor to other work.
TEST(Race, InterruptedLaunchesDecideNothing) {
  for (size_t best : {1u, 50u, 99u}) {
    FakeTrack track = hundred(best, 1.6);
    std::mt19937 random(11);
    track.load = [&random](double) { return random() % 5 < 2 ? 3.0 : 1.0; };
    Result<RaceResult> result = race(track, 0);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->winner, best);
    for (const Runner &runner : result->runners)
      EXPECT_GT(runner.ratio, 0.5) << "none is twice as fast, whatever its neighbours met";
  }
}

TEST(Race, KeepsTheReferenceWhereNothingIsSurelyFaster) {
  FakeTrack track;
  track.milliseconds = {2.0, 2.0, 1.995, 2.1, 2.5};
  Result<RaceResult> result = race(track, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->winner, 0u);
  ASSERT_TRUE(result->runnerUp);
  EXPECT_NE(*result->runnerUp, 0u);
}

TEST(Race, EndsInTime) {
  FakeTrack track = hundred(99, 1.0);
  track.compileSeconds = 0.5; // 50 s for all kernels
  track.budget = 10;
  Result<RaceResult> result = race(track, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_LT(track.clock, 10.6);
  EXPECT_NE(result->winner, 99u) << "it was not reached";
  EXPECT_NE(result->runners[99].dropped.find("not timed: the time limit was reached"),
            std::string::npos);
}

TEST(Race, ExhaustiveTimesAllOfThemFully) {
  FakeTrack track = hundred(40, 1.6);
  track.budget = 0.1;
  Result<RaceResult> result = race(track, 0, {.exhaustive = true});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->winner, 40u);
  for (size_t i = 0; i < track.count(); ++i)
    EXPECT_GE(result->runners[i].rounds.size(), 12u) << i;
}

// The tuner's choice is within 3 % of the best of an exhaustive search, for any set of kernels.
TEST(Race, IsAsGoodAsAnExhaustiveSearch) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    FakeTrack track;
    std::mt19937 random(seed);
    std::lognormal_distribution<double> times(0.2, 0.3);
    track.milliseconds = {1.0};
    while (track.milliseconds.size() < 200)
      track.milliseconds.push_back(times(random));
    track.noise = 0.04;
    Result<RaceResult> result = race(track, 0);
    ASSERT_TRUE(result.ok());
    double best = *std::min_element(track.milliseconds.begin(), track.milliseconds.end());
    EXPECT_LE(track.milliseconds[result->winner], 1.03 * best) << "seed " << seed;
  }
}

TEST(Race, DropsWhatFails) {
  FakeTrack track = hundred(40, 1.6);
  track.failsAt = 40;
  Result<RaceResult> result = race(track, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_NE(result->winner, 40u);
  EXPECT_EQ(result->runners[40].dropped, "it does not launch");
}

TEST(Race, FailsWithTheReference) {
  FakeTrack track = hundred(40, 1.6);
  track.failsAt = 0;
  Result<RaceResult> result = race(track, 0);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.code(), Code::driver);
}

TEST(Race, EndsWhenItIsCancelled) {
  FakeTrack track = hundred(40, 1.6);
  track.cancelAfter = 10;
  Result<RaceResult> result = race(track, 0);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.code(), Code::cancelled);
  EXPECT_LE(track.samples.size(), 12u);
}

TEST(Race, OfOneKernel) {
  FakeTrack track;
  track.milliseconds = {1.0};
  Result<RaceResult> result = race(track, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->winner, 0u);
  EXPECT_GT(result->runners[0].milliseconds, 0.9);
}

TEST(Statistics, Median) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({3, 1}), 2);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({5, 1, 3, 100}), 4);
}

// Both launches of a pair have their round's load, so the load does not matter.
TEST(Statistics, PairsAreOfOneRound) {
  std::vector<double> times{1, 10, 2, 20, 1}, others{2, 20, 4, 40, 2, 99};
  EXPECT_DOUBLE_EQ(pairedRatio(times, others), 0.5);
  EXPECT_DOUBLE_EQ(confidenceBelow(1, times, others), 1);
  EXPECT_DOUBLE_EQ(confidenceBelow(0.4, times, others), 0);
}

TEST(Statistics, EqualKernelsAreNotToldApart) {
  std::mt19937 random(5);
  std::lognormal_distribution<double> times(0, 0.05);
  int sure = 0;
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> a, b;
    for (int i = 0; i < 15; ++i) {
      a.push_back(times(random));
      b.push_back(times(random));
    }
    sure += confidenceBelow(1, a, b) > 0.99;
  }
  EXPECT_LE(sure, 4);
  EXPECT_EQ(confidenceBelow(1, std::vector<double>{1}, std::vector<double>{2}), 0.5);
}

} // namespace
