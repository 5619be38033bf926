//===- OneAnswerTest.cpp - A process repeats what it has run --------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Problem.h"
#include "api/State.h"
#include "system/File.h"
#include "tesela/Tune.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

using namespace tesela;

namespace {

/// The schedule "wrong" writes no results, so the results show whether it ran.
class OneAnswerTest : public testing::Test {
protected:
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::vector<std::string> logged;

  void TearDown() override {
    fake::setCandidates({});
    fake::setCompileMilliseconds(0);
  }

  ContextOptions contextOptions(Tuning tuning = Tuning::cached) {
    ContextOptions options;
    options.device = "host";
    options.threads = 1;
    options.cacheFolder = folder->path() + "/cache";
    options.tuning = tuning;
    options.tuningSeconds = 600; // the race is decided long before
    options.log = [this](const std::string &message) { logged.push_back(message); };
    return options;
  }
  Context context() { return *Context::create(contextOptions()); }

  static Problem problemOf(int64_t length) {
    Problem problem;
    problem.Sq = length;
    problem.fill();
    return problem;
  }
  static ProblemSizes sizesOf(const Problem &problem) {
    return {problem.B, problem.H, problem.Hkv, problem.Sq, problem.Sk};
  }
  static SizeBucket bucketOf(const Problem &problem) {
    return SizeBucket::of({int32_t(problem.B), int32_t(problem.H), int32_t(problem.Hkv),
                           int32_t(problem.Sq), int32_t(problem.Sk)});
  }

  /// Pretends that another process has measured `schedule` as the fastest for `problem`.
  void measuredElsewhere(const Problem &problem, const std::string &schedule,
                         const KernelOptions &options) {
    TuneRecord record;
    record.device = recordDevice(context().device(), 1);
    record.kernel = recordKernel(*makeSpecification(options, "host"));
    record.bucket = bucketOf(problem);
    record.schedule = schedule;
    RecordStore store(folder->path() + "/cache/tuned", "", std::make_shared<EventSink>());
    ASSERT_TRUE(store.store(record).ok());
  }
  void measuredElsewhere(const Problem &problem, const std::string &schedule) {
    measuredElsewhere(problem, schedule, problem.options());
  }

  /// The schedule that a launch of `problem` ran.
  static std::string ranBy(const Kernel &kernel, Problem &problem) {
    problem.fill();
    Status launched = kernel.launch(problem.arguments);
    EXPECT_TRUE(launched.ok()) << (launched ? "" : launched.error().message());
    const TunedKernels *tuned = kernel.internal()->tuned.get();
    const LoadedKernel *chosen =
        tuned ? kernel.internal()->tuned->find(problem.arguments) : nullptr;
    std::string schedule = (chosen ? chosen->info : kernel.info()).schedule;
    EXPECT_EQ(std::isnan(problem.lse[0]), schedule == "wrong");
    return schedule;
  }
};

TEST_F(OneAnswerTest, TheSameSequenceRunsTheSameKernels) {
  measuredElsewhere(problemOf(64), "wrong");
  measuredElsewhere(problemOf(256), "launches = 2");
  auto sequence = [&] {
    std::vector<std::string> ran;
    Context shared = context();
    Kernel kernel = *shared.compile(Problem().options());
    for (int64_t length : {33, 64, 100, 300, 64, 33, 600}) {
      Problem problem = problemOf(length);
      ran.push_back(ranBy(kernel, problem));
    }
    return ran;
  };
  std::vector<std::string> first = sequence();
  EXPECT_EQ(first, (std::vector<std::string>{"rows = 1", "wrong", "wrong", "launches = 2", "wrong",
                                             "rows = 1", "rows = 1"}));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(sequence(), first);
}

TEST_F(OneAnswerTest, CompileMakesAllKernelsAndLaunchesNone) {
  measuredElsewhere(problemOf(64), "launches = 2");
  measuredElsewhere(problemOf(128), "launches = 2");
  measuredElsewhere(problemOf(256), "launches = 3");
  fake::setCompileMilliseconds(100);
  Context shared = context();
  Kernel kernel = *shared.prepare(Problem().options())->get();
  EXPECT_EQ(shared.compileCount(), 3) << "the heuristic's and two schedules";
  for (int64_t length : {64, 128, 256, 33}) {
    Problem problem = problemOf(length);
    ranBy(kernel, problem);
  }
  ASSERT_TRUE(shared.compile(Problem().options()).ok());
  EXPECT_EQ(shared.compileCount(), 3);
  EXPECT_TRUE(logged.empty());
}

TEST_F(OneAnswerTest, WithSizesOneKernelServesAllLaunches) {
  measuredElsewhere(problemOf(64), "wrong");
  measuredElsewhere(problemOf(256), "launches = 2");
  Problem small = problemOf(64), large = problemOf(256), other = problemOf(33);
  Context shared = context();
  KernelOptions options = small.options();
  options.sizes = sizesOf(large);
  Kernel kernel = *shared.compile(options);
  EXPECT_EQ(shared.compileCount(), 1);
  EXPECT_EQ(kernel.info().scheduleOrigin, KernelInfo::ScheduleOrigin::tuned);
  for (Problem *problem : {&small, &large, &other})
    EXPECT_EQ(ranBy(kernel, *problem), "launches = 2");
  options.sizes = sizesOf(other); // it has no measurement
  Kernel heuristic = *shared.compile(options);
  for (Problem *problem : {&small, &large, &other})
    EXPECT_EQ(ranBy(heuristic, *problem), "rows = 1");
}

TEST_F(OneAnswerTest, WhatOthersMeasureMeanwhileChangesNothing) {
  Problem problem = problemOf(64), other = problemOf(256);
  KernelOptions narrow = problem.options();
  narrow.headDimV = 16;
  measuredElsewhere(other, "launches = 2");
  Context early = context();
  Kernel kernel = *early.compile(problem.options());
  EXPECT_EQ(ranBy(kernel, problem), "rows = 1");
  measuredElsewhere(problem, "wrong");
  measuredElsewhere(other, "wrong");
  measuredElsewhere(problem, "wrong", narrow);
  // This holds for the kernel, for a new request with and without sizes, and for another variant.
  KernelOptions sized = problem.options();
  sized.sizes = sizesOf(problem);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ranBy(kernel, problem), "rows = 1");
    EXPECT_EQ(ranBy(kernel, other), "launches = 2");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(ranBy(*early.compile(problem.options()), problem), "rows = 1");
  EXPECT_EQ(ranBy(*early.compile(sized), problem), "rows = 1");
  EXPECT_EQ(early.compile(narrow)->info().schedule, "rows = 1");
  // A new context uses everything that was measured before.
  Context late = context();
  EXPECT_EQ(ranBy(*late.compile(problem.options()), problem), "wrong");
  EXPECT_EQ(ranBy(*late.compile(sized), problem), "wrong");
}

TEST_F(OneAnswerTest, AKernelThatIsThereDoesNotChangeWhenItsContextTunes) {
  fake::setCandidates({"launches = 8", "launches = 1"});
  Problem problem = problemOf(64);
  Context shared = context();
  Kernel before = *shared.compile(problem.options());
  TuneShape shape;
  static_cast<ProblemSizes &>(shape) = sizesOf(problem);
  ASSERT_TRUE(tune(shared, problem.options(), shape).ok());
  EXPECT_EQ(ranBy(before, problem), "rows = 1");
  Kernel after = *shared.compile(problem.options());
  EXPECT_EQ(ranBy(after, problem), "launches = 1");
  fake::setCandidates({"launches = 8", "launches = 2"});
  ASSERT_TRUE(tune(shared, problem.options(), shape).ok());
  EXPECT_EQ(ranBy(after, problem), "launches = 1");
  EXPECT_EQ(ranBy(*shared.compile(problem.options()), problem), "launches = 2");
}

// If there are many kernels, some are dropped, but records stay.
TEST_F(OneAnswerTest, WhatIsDroppedComesBackTheSame) {
  constexpr int64_t most = 4;
  Problem problem = problemOf(64);
  auto optionsOf = [&](int variant) {
    KernelOptions options = problem.options();
    options.variantText += "// variant " + std::to_string(variant) + "\n";
    return options;
  };
  for (int variant = 0; variant < 12; ++variant)
    measuredElsewhere(problem, "launches = 2", optionsOf(variant));
  for (Tuning tuning : {Tuning::cached, Tuning::onFirstUse}) {
    ContextOptions options = contextOptions(tuning);
    options.mostKernels = most;
    Context small = *Context::create(options);
    for (int round = 0; round < 3; ++round)
      for (int variant = 0; variant < 12; ++variant) {
        Kernel kernel = *small.compile(optionsOf(variant));
        EXPECT_EQ(ranBy(kernel, problem), "launches = 2");
        EXPECT_LE(small.internal()->tuning->keptCount(), size_t(most));
        if (tuning == Tuning::cached && round == 0) // too late to have an effect
          measuredElsewhere(problem, "wrong", optionsOf(variant));
      }
    for (int variant = 0; variant < 12; ++variant)
      measuredElsewhere(problem, "launches = 2", optionsOf(variant));
  }
}

TEST_F(OneAnswerTest, VariantsWithoutMeasurementsAreNotKept) {
  Problem problem = problemOf(64);
  Context shared = context();
  for (int variant = 0; variant < 8; ++variant) {
    KernelOptions options = problem.options();
    options.variantText += "// variant " + std::to_string(variant) + "\n";
    ASSERT_TRUE(shared.compile(options).ok());
  }
  EXPECT_EQ(shared.internal()->tuning->keptCount(), 0u);
}

TEST_F(OneAnswerTest, AScheduleThatIsRefusedCostsAWarning) {
  Problem problem = problemOf(64), other = problemOf(256);
  measuredElsewhere(problem, "broken");
  measuredElsewhere(other, "launches = 2");
  Context shared = context();
  for (int i = 0; i < 3; ++i) {
    Kernel kernel = *shared.compile(problem.options());
    EXPECT_EQ(ranBy(kernel, problem), "rows = 1");
    EXPECT_EQ(ranBy(kernel, other), "launches = 2");
  }
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_NE(logged[0].find("it is broken"), std::string::npos);
}

TEST_F(OneAnswerTest, ARequestThatIsCancelledLeavesTheAnswerToTheNext) {
  Problem problem = problemOf(64);
  measuredElsewhere(problem, "launches = 2");
  fake::setCompileMilliseconds(600'000);
  Context shared = context();
  RequestLimits limits;
  limits.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  EXPECT_EQ(shared.compile(problem.options(), limits).code(), Code::deadlineExceeded);
  fake::setCompileMilliseconds(0);
  EXPECT_EQ(ranBy(*shared.compile(problem.options()), problem), "launches = 2");
}

// What a kernel keeps about captured tensors must come from its own last launch.
TEST_F(OneAnswerTest, CapturesThatChangedBeforeAnotherKernelsLaunchAreNotKept) {
  Problem problem = problemOf(64), other = problemOf(256);
  measuredElsewhere(problem, "launches = 2");
  Context shared = context();
  Kernel kernel = *shared.compile(problem.options());
  TunedKernels &tuned = *kernel.internal()->tuned;
  const LoadedKernel *first = tuned.find(problem.arguments);
  EXPECT_TRUE(tuned.alone(*first));
  EXPECT_TRUE(tuned.alone(*first));
  EXPECT_FALSE(tuned.alone(*kernel.internal()->kernel));
  EXPECT_FALSE(tuned.alone(*first));
}

} // namespace
