//===- TuneTest.cpp - Contexts that tune their schedules ------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Tune.h"
#include "../TestContext.h"
#include "Problem.h"
#include "api/State.h"
#include "system/File.h"
#include "tune/TuneRecord.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

using namespace tesela;

namespace {

class TuneTest : public testing::Test {
protected:
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::mutex mutex;
  std::vector<std::string> logged;
  std::vector<Event> trials;

  void SetUp() override {
    // Eight times as fast as the heuristic's schedule, so that noise does not matter.
    fake::setCandidates(
        {"launches = 8", "launches = 5", "broken", "launches = 1", "launches = 12"});
  }
  void TearDown() override { fake::setCandidates({}); }

  Context context(Tuning tuning = Tuning::cached) {
    ContextOptions options = testContextOptions();
    options.threads = 1;
    options.diskCache = true;
    options.cacheFolder = folder->path() + "/cache";
    options.tuning = tuning;
    options.tuningSeconds = 600; // the race is decided long before
    options.log = [this](const std::string &message) {
      std::lock_guard lock(mutex);
      logged.push_back(message);
    };
    options.events = [this](const Event &event) {
      std::lock_guard lock(mutex);
      if (event.kind == Event::Kind::trial)
        trials.push_back(event);
    };
    Result<Context> created = Context::create(options);
    EXPECT_TRUE(created.ok());
    return *created;
  }

  /// The mask of the fake variant reads no captured tensor.
  static TuneShape shapeOf(const Problem &problem) {
    TuneShape shape;
    static_cast<ProblemSizes &>(shape) = {problem.B, problem.H, problem.Hkv, problem.Sq,
                                          problem.Sk};
    return shape;
  }
  static KernelOptions optionsFor(const Problem &problem) {
    KernelOptions options = problem.options();
    options.sizes = shapeOf(problem);
    return options;
  }
  /// Launches and checks the result.
  static void launch(const Kernel &kernel, Problem &problem) {
    Status launched = kernel.launch(problem.arguments);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    Result<Reference> reference = hostReference(problem.options(), problem.arguments, 1);
    ASSERT_TRUE(reference.ok());
    Result<Comparison> comparison = compare(*reference, problem.arguments.o, problem.arguments.lse);
    ASSERT_TRUE(comparison.ok() && comparison->passed);
  }
};

TEST_F(TuneTest, FindsKeepsAndUsesTheFastest) {
  Problem problem;
  problem.fill();
  Context first = context();
  int calls = 0;
  TuneOptions tuning;
  tuning.progress = [&](const TuneProgress &progress) {
    ++calls;
    EXPECT_EQ(progress.total, 5);
  };
  Result<TuneReport> report = tune(first, problem.options(), shapeOf(problem), tuning);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->schedule, "launches = 1");
  EXPECT_FALSE(report->isHeuristic);
  EXPECT_GT(report->speedup, 2);
  EXPECT_GE(report->overHeuristic, 0.95);
  EXPECT_EQ(report->timed, 4);
  EXPECT_GE(calls, 1);
  ASSERT_EQ(report->trials.size(), 5u);
  EXPECT_EQ(report->trials.front().schedule, "launches = 1");
  EXPECT_EQ(report->trials.back().schedule, "broken");
  EXPECT_NE(report->trials.back().dropped.find("it is broken"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(report->record));
  EXPECT_GE(trials.size(), 5u);

  // The next process finds the choice.
  Context second = context();
  Result<Kernel> kernel = second.compile(optionsFor(problem));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->info().schedule, "launches = 1");
  EXPECT_EQ(kernel->info().scheduleOrigin, KernelInfo::ScheduleOrigin::tuned);
  EXPECT_EQ(kernel->info().tunedRecord, report->record);
  launch(*kernel, problem);
  Result<std::vector<TunedChoice>> choices = tunedChoices(second, problem.options());
  ASSERT_TRUE(choices.ok() && choices->size() == 1);
  EXPECT_EQ(choices->front().schedule, "launches = 1");
  EXPECT_EQ(choices->front().bucket, "h4.g2.q32.k32");
}

TEST_F(TuneTest, AGivenScheduleAlwaysHolds) {
  Problem problem;
  problem.fill();
  Context shared = context();
  ASSERT_TRUE(tune(shared, problem.options(), shapeOf(problem)).ok());
  KernelOptions options = optionsFor(problem);
  options.schedule = "launches = 2";
  Result<Kernel> kernel = shared.compile(options);
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->info().schedule, "launches = 2");
  EXPECT_EQ(kernel->info().scheduleOrigin, KernelInfo::ScheduleOrigin::given);
  Result<Kernel> off = context(Tuning::off).compile(optionsFor(problem));
  ASSERT_TRUE(off.ok());
  EXPECT_EQ(off->info().scheduleOrigin, KernelInfo::ScheduleOrigin::heuristic);
}

TEST_F(TuneTest, AWrongResultNeverWins) {
  fake::setCandidates({"launches = 8", "wrong"});
  Problem problem;
  problem.fill();
  Result<TuneReport> report = tune(context(), problem.options(), shapeOf(problem));
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->isHeuristic);
  bool isTold = false;
  for (const Trial &trial : report->trials)
    isTold |= trial.dropped.find("its result differs from that of the heuristic's schedule") !=
              std::string::npos;
  EXPECT_TRUE(isTold);
}

TEST_F(TuneTest, CancelledAndOverdue) {
  Problem problem;
  problem.fill();
  std::stop_source stop;
  TuneOptions tuning;
  tuning.limits.cancelled = stop.get_token();
  tuning.progress = [&](const TuneProgress &) { stop.request_stop(); };
  Context shared = context();
  Result<TuneReport> report = tune(shared, problem.options(), shapeOf(problem), tuning);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.code(), Code::cancelled);
  EXPECT_TRUE(tunedChoices(shared, problem.options())->empty());
  tuning.seconds = 0;
  EXPECT_EQ(tune(shared, problem.options(), shapeOf(problem), tuning).code(),
            Code::invalidArgument);
}

TEST_F(TuneTest, WrongShapesAreTold) {
  Problem problem;
  problem.fill();
  TuneShape shape = shapeOf(problem);
  shape.kvHeads = 3;
  Result<TuneReport> report = tune(context(), problem.options(), shape);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message().find("must be a multiple"), std::string::npos);
  shape = shapeOf(problem);
  shape.length = 0;
  EXPECT_EQ(tune(context(), problem.options(), shape).code(), Code::invalidArgument);
  TuneOptions tuning;
  tuning.memoryBytes = 1000;
  EXPECT_EQ(tune(context(), problem.options(), shapeOf(problem), tuning).code(), Code::outOfMemory);
  // The mask reads the tensor, which decides how many tiles there are.
  KernelOptions documents = problem.options();
  documents.variantText = "attention documents(id: i32[Sk]) { mask = id[q] == id[k] }";
  Result<TuneReport> missing = tune(context(), documents, shapeOf(problem));
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message().find("pass 'id'"), std::string::npos);
}

// A launch never waits: the first launches run the existing kernel, later ones the race's winner.
TEST_F(TuneTest, OnFirstUseLaterLaunchesChange) {
  Problem problem;
  problem.fill();
  Context shared = context(Tuning::onFirstUse);
  Result<Kernel> kernel = shared.compile(problem.options());
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->info().scheduleOrigin, KernelInfo::ScheduleOrigin::heuristic);
  launch(*kernel, problem);
  TunedKernels &tuned = *kernel->internal()->tuned;
  SizeBucket bucket = SizeBucket::of({int32_t(problem.B), int32_t(problem.H), int32_t(problem.Hkv),
                                      int32_t(problem.Sq), int32_t(problem.Sk)});
  for (int i = 0; i < 60000 && !tuned.has(bucket); ++i) {
    problem.o.assign(problem.o.size(), NAN);
    ASSERT_TRUE(kernel->launch(problem.arguments).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(tuned.has(bucket));
  EXPECT_EQ(tuned.find(problem.arguments)->info.schedule, "launches = 1");
  launch(*kernel, problem);
  EXPECT_TRUE(logged.empty()) << logged[0];
  // Another handle and a near size get the same kernel.
  Problem larger;
  larger.H = 8, larger.Hkv = 4;
  larger.fill();
  Result<Kernel> again = shared.compile(problem.options());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->internal()->tuned->find(larger.arguments)->info.schedule, "launches = 1");
  launch(*again, larger);
}

TEST_F(TuneTest, FullTunesBeforeCompileReturns) {
  Problem problem;
  problem.fill();
  Context shared = context(Tuning::full);
  Result<Kernel> kernel = shared.compile(optionsFor(problem));
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  EXPECT_EQ(kernel->info().schedule, "launches = 1");
  launch(*kernel, problem);
  size_t before = trials.size();
  ASSERT_TRUE(shared.compile(optionsFor(problem)).ok());
  EXPECT_EQ(trials.size(), before) << "known by now";
  // prepare() gives the same.
  Result<Kernel> prepared = shared.prepare(optionsFor(problem))->get();
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->info().scheduleOrigin, KernelInfo::ScheduleOrigin::tuned);
}

// Arguments of a refused launch are not tuned for.
TEST_F(TuneTest, ARefusedLaunchAsksForNothing) {
  Problem problem;
  problem.fill();
  Context shared = context(Tuning::onFirstUse);
  Result<Kernel> kernel = shared.compile(problem.options());
  ASSERT_TRUE(kernel.ok());
  LaunchArguments wrong = problem.arguments;
  wrong.k.extents[1] = wrong.v.extents[1] = 3; // 3 key/value heads for 4 query heads
  EXPECT_EQ(kernel->launch(wrong).code(), Code::invalidArgument);
  wrong = problem.arguments;
  wrong.q.extents[2] = wrong.o.extents[2] = int64_t(1) << 40;
  EXPECT_FALSE(kernel->launch(wrong).ok());
  EXPECT_FALSE(kernel->internal()->tuned->isUsed());
}

// A server requests its kernels again and again.
TEST_F(TuneTest, AskingAgainChangesNothing) {
  Problem problem;
  problem.fill();
  ASSERT_TRUE(tune(context(), problem.options(), shapeOf(problem)).ok());
  Context shared = context();
  Result<Kernel> kernel = shared.compile(problem.options());
  ASSERT_TRUE(kernel.ok());
  const std::shared_ptr<TunedKernels> &tuned = kernel->internal()->tuned;
  size_t tables = tuned->tableCount();
  for (int i = 0; i < 10; ++i) {
    Result<Kernel> again = shared.compile(problem.options());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->internal()->tuned, tuned);
  }
  EXPECT_EQ(tuned->tableCount(), tables);
}

// A record whose schedule no longer compiles only causes a warning.
TEST_F(TuneTest, ARecordThatDoesNotCompileIsNotUsed) {
  Problem problem;
  problem.fill();
  Result<TuneReport> report = tune(context(), problem.options(), shapeOf(problem));
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->schedule, "launches = 1");
  std::string text = *readFile(report->record);
  text.replace(text.find("launches = 1\""), 12, "broken");
  ASSERT_TRUE(writeFile(report->record, text));
  Result<Kernel> kernel = context().compile(optionsFor(problem));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->info().scheduleOrigin, KernelInfo::ScheduleOrigin::heuristic);
  launch(*kernel, problem);
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_NE(logged[0].find(report->record), std::string::npos);
}

TEST_F(TuneTest, AKernelWithSeveralSchedulesOutlivesItsContext) {
  Problem problem;
  problem.fill();
  ASSERT_TRUE(tune(context(), problem.options(), shapeOf(problem)).ok());
  for (Tuning tuning : {Tuning::cached, Tuning::onFirstUse}) {
    Result<Kernel> kernel = context(tuning).compile(problem.options());
    ASSERT_TRUE(kernel.ok());
    EXPECT_NE(kernel->info().schedule, "launches = 1");
    ASSERT_TRUE(kernel->internal()->tuned) << "there are records";
    EXPECT_EQ(kernel->internal()->tuned->find(problem.arguments)->info.schedule, "launches = 1");
    launch(*kernel, problem);
    Problem other;
    other.Sq = 200;
    other.fill();
    launch(*kernel, other); // this starts no tuning
  }
}

TEST_F(TuneTest, WhereLaunchesSwapTuningAKernelChangesIt) {
  Problem problem;
  problem.fill();
  Context shared = context(Tuning::onFirstUse);
  Result<Kernel> kernel = shared.compile(problem.options());
  ASSERT_TRUE(kernel.ok());
  ASSERT_TRUE(tune(shared, problem.options(), shapeOf(problem)).ok());
  EXPECT_EQ(kernel->internal()->tuned->find(problem.arguments)->info.schedule, "launches = 1");
}

TEST_F(TuneTest, LaunchesOfManyThreadsWhileKernelsChange) {
  Context shared = context(Tuning::onFirstUse);
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        Problem problem;
        problem.Sq = 4 << ((i + t) % 3);
        problem.fill();
        Result<Kernel> kernel = shared.compile(problem.options());
        failures +=
            !kernel.ok() || !kernel->launch(problem.arguments).ok() || std::isnan(problem.lse[0]);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 0);
} // the context goes while a race is under way

TEST_F(TuneTest, TablesCollectRecords) {
  Problem problem;
  problem.fill();
  Context shared = context();
  std::vector<std::string> files;
  for (int64_t length : {33, 70}) {
    TuneShape shape = shapeOf(problem);
    shape.length = length;
    Result<TuneReport> report = tune(shared, problem.options(), shape);
    ASSERT_TRUE(report.ok());
    files.push_back(report->record);
  }
  std::string table = folder->path() + "/table.json";
  ASSERT_TRUE(addToTable(table, {files[0]}).ok());
  ASSERT_TRUE(addToTable(table, files).ok());
  Result<std::vector<TuneRecord>> records = parseRecords(*readFile(table));
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(records->size(), 2u);
  EXPECT_FALSE(addToTable(table, {folder->path() + "/none.json"}).ok());
  ASSERT_TRUE(writeFile(table, "no table"));
  EXPECT_FALSE(addToTable(table, files).ok());
}

} // namespace
