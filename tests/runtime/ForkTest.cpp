//===- ForkTest.cpp - Contexts and kernels in a child of fork() -----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ChildProcess.h"
#include "Problem.h"
#include "api/State.h"
#include "host/ThreadPool.h"
#include "tesela/Tune.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

using namespace tesela;

namespace {

class ForkTest : public testing::Test {
protected:
  void SetUp() override {
    if (!canForkWithThreads)
      GTEST_SKIP() << "the thread sanitizer allows no threads after a fork";
  }
  void TearDown() override { fake::setCompileMilliseconds(0); }

  static Context context(int threads = 3, Tuning tuning = Tuning::cached) {
    ContextOptions options;
    options.device = "host";
    options.diskCache = false;
    options.threads = threads;
    options.tuning = tuning;
    return *Context::create(options);
  }
  static KernelOptions options(int headDim = 32) {
    KernelOptions options = Problem().options();
    options.headDimQk = options.headDimV = headDim;
    return options;
  }
  /// "" if the results equal `expected`.
  static std::string launch(const Kernel &kernel, const std::vector<float> &expected) {
    Problem problem;
    problem.fill();
    if (Status launched = kernel.launch(problem.arguments); !launched)
      return launched.error().message();
    bool isSame =
        std::memcmp(problem.o.data(), expected.data(), expected.size() * sizeof(float)) == 0;
    return isSame ? "" : "other results";
  }
  static std::vector<float> resultsOf(const Kernel &kernel) {
    Problem problem;
    problem.fill();
    EXPECT_TRUE(kernel.launch(problem.arguments).ok());
    return problem.o;
  }
  static std::string messageOf(const Status &status) {
    return status ? "" : status.error().message();
  }
};

TEST_F(ForkTest, KernelsOfTheHostLaunch) {
  for (int threads : {1, 3, 0}) {
    Context shared = context(threads);
    Kernel kernel = *shared.compile(options());
    std::vector<float> expected = resultsOf(kernel);
    EXPECT_EQ(inChild([&] { return launch(kernel, expected); }), "");
    EXPECT_EQ(inChild([&] { // and in a child of the child
                return inChild([&] { return launch(kernel, expected); }) + launch(kernel, expected);
              }),
              "");
    EXPECT_EQ(resultsOf(kernel), expected);
  }
}

TEST_F(ForkTest, ThreadsOfAChildAreItsOwn) {
  constexpr int count = 4;
  ThreadPool pool(count), other(2);
  std::atomic<bool> isOver = false;
  std::atomic<int> inside = 0;
  // Two runs are active during the child's life; one of them holds the pool's lock.
  std::vector<std::thread> runs;
  for (ThreadPool *each : {&pool, &other})
    runs.emplace_back([&, each] {
      EXPECT_TRUE(each->run(1, 64,
                            [&](int64_t, void *) {
                              ++inside;
                              while (!isOver)
                                std::this_thread::yield();
                            })
                      .ok());
    });
  while (inside < 2)
    std::this_thread::yield();
  EXPECT_EQ(inChild([&]() -> std::string {
              std::atomic<int> met = 0;
              Status ran = pool.run(count, 64, [&](int64_t, void *scratch) {
                std::memset(scratch, 1, 64);
                for (++met; met < count;) // all are at work at the same time
                  std::this_thread::yield();
              });
              return messageOf(ran) + (pool.size() == count ? "" : "other size");
            }),
            "");
  isOver = true;
  for (std::thread &run : runs)
    run.join();
}

TEST_F(ForkTest, AChildCompilesAndPrepares) {
  Context shared = context();
  Kernel kernel = *shared.compile(options());
  Preparation done = *shared.prepare(options(40));
  ASSERT_TRUE(done.get().ok()); // its threads wait for more work
  std::vector<float> expected = resultsOf(kernel);
  auto work = [&]() -> std::string {
    if (!done.ready() || !done.get())
      return "what was prepared is lost";
    Result<Kernel> again = shared.compile(options());
    if (!again || again->info().origin != KernelInfo::Origin::memoryCache)
      return "what was compiled is lost";
    if (Result<Kernel> other = shared.compile(options(48)); !other)
      return other.error().message();
    Result<Preparation> preparation = shared.prepare(options(56));
    if (!preparation)
      return preparation.error().message();
    Result<Kernel> prepared = preparation->get();
    return prepared ? launch(*again, expected) : prepared.error().message();
  };
  EXPECT_EQ(inChild(work), "");
  EXPECT_EQ(inChild([&] { return work() + inChild(work); }), "");
  EXPECT_EQ(work(), "") << "the parent goes on";
}

TEST_F(ForkTest, WhileTheParentCompilesAChildIsRefused) {
  Context shared = context();
  Kernel kernel = *shared.compile(options());
  std::vector<float> expected = resultsOf(kernel);
  fake::setCompileMilliseconds(600'000);
  int before = fake::compilesBegunSoFar();
  Preparation slow = *shared.prepare(options(64));
  while (fake::compilesBegunSoFar() == before)
    std::this_thread::yield();
  std::string said = inChild([&]() -> std::string {
    fake::setCompileMilliseconds(0);
    std::string wrong = launch(kernel, expected); // this is allowed
    auto expect = [&](const char *what, Code code, Code wanted, const std::string &message) {
      if (code != wanted || message.find("was forked") == std::string::npos)
        wrong += std::string(what) + ": " + message + "; ";
    };
    if (!slow.ready() || !slow.waitFor(std::chrono::milliseconds(1)))
      wrong += "not ready; ";
    Result<Kernel> given = slow.get();
    expect("get", given.code(), Code::cancelled, given ? "" : given.error().message());
    slow.cancel();
    Result<Kernel> compiled = shared.compile(options(64));
    expect("compile", compiled.code(), Code::unsupported,
           compiled ? "" : compiled.error().message());
    Result<Preparation> prepared = shared.prepare(options(40));
    expect("prepare", prepared.code(), Code::unsupported,
           prepared ? "" : prepared.error().message());
    Result<TuneReport> tuned = tune(shared, options(), {});
    expect("tune", tuned.code(), Code::unsupported, tuned ? "" : tuned.error().message());
    Result<std::string> stage = emitStage(options(), "llvm");
    expect("emitStage", stage.code(), Code::unsupported, stage ? "" : stage.error().message());
    return wrong;
  });
  EXPECT_EQ(said, "");
  slow.cancel();
  EXPECT_EQ(slow.get().code(), Code::cancelled);
  fake::setCompileMilliseconds(0);
  EXPECT_TRUE(shared.compile(options(64)).ok()) << "the parent goes on";
  EXPECT_EQ(inChild([&] { return shared.compile(options(72)).ok() ? "" : "refused"; }), "")
      << "by now nobody compiles";
}

TEST_F(ForkTest, AContextGoesInAChild) {
  for (bool compiles : {false, true}) {
    auto shared = std::make_unique<Context>(context(3, Tuning::onFirstUse));
    Kernel kernel = *shared->compile(options());
    std::vector<float> expected = resultsOf(kernel);
    ASSERT_TRUE(shared->prepare(options(40))->get().ok());
    std::optional<Preparation> slow;
    if (compiles) {
      fake::setCompileMilliseconds(600'000);
      slow = *shared->prepare(options(64));
    }
    EXPECT_EQ(inChild([&] {
                shared.reset();
                std::string said = launch(kernel, expected);
                Kernel last = std::move(kernel);
                return said;
              }),
              "");
    if (slow)
      slow->cancel();
    fake::setCompileMilliseconds(0);
  }
}

// Sizes without a measurement: a child has no tuner.
TEST_F(ForkTest, WhereLaunchesSwapAChildKeepsWhatThereIs) {
  Context shared = context(2, Tuning::onFirstUse);
  Kernel kernel = *shared.compile(options());
  EXPECT_EQ(inChild([&]() -> std::string {
              Problem problem;
              problem.Sq = 200;
              problem.fill();
              std::string said = messageOf(kernel.launch(problem.arguments));
              return said + (std::isnan(problem.lse[0]) ? "no results" : "");
            }),
            "");
}

} // namespace
