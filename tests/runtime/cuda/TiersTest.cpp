//===- TiersTest.cpp - A simple kernel first, then the best ---------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

#include "system/File.h"

#include <mutex>
#include <thread>

using namespace tesela;

namespace {

using Origin = KernelInfo::Origin;
using ScheduleOrigin = KernelInfo::ScheduleOrigin;
constexpr std::chrono::seconds longest{60};

class TiersTest : public CudaTest {
protected:
  static constexpr const char *simple = "named simple";

  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::mutex mutex;
  std::vector<std::string> logged;
  bool verify = false;

  void SetUp() override {
    CudaTest::SetUp();
    fake::setCudaFormat(CodeFormat::cubin);
    fake::setSimpleSchedule(simple);
    fake::setHeuristic(fake::Heuristic::waits);
  }
  void TearDown() override {
    fake::setSimpleSchedule("");
    fake::setHeuristic(fake::Heuristic::compiles);
    CudaTest::TearDown();
  }

  Context context(bool tiers = true) {
    ContextOptions options;
    options.device = "cuda:0";
    options.cacheFolder = folder->path();
    options.tiers = tiers;
    options.log = [this](const std::string &sentence) {
      std::lock_guard lock(mutex);
      logged.push_back(sentence);
    };
    Result<Context> made = Context::create(options);
    EXPECT_TRUE(made.ok());
    return *made;
  }
  static void letBestCompile(const Kernel &kernel) {
    fake::setHeuristic(fake::Heuristic::compiles);
    Result<bool> isBest = kernel.isBest(longest);
    EXPECT_TRUE(isBest.ok() && *isBest);
  }
  /// The symbol of the main kernel that a launch ran.
  static std::string launched(const Kernel &kernel, const LaunchArguments &arguments,
                              void *stream = nullptr) {
    stub::recordLaunches();
    Status status = kernel.launch(arguments, stream);
    EXPECT_TRUE(status.ok()) << (status ? "" : status.error().message());
    std::vector<stub::StubLaunch> launches = stub::takeLaunches();
    return launches.empty() ? "" : launches.back().kernel;
  }
};

constexpr const char *best = "fake_sliding_alibi";

TEST_F(TiersTest, TheBestTakesThePlaceAtALaunch) {
  Context shared = context();
  Result<Kernel> kernel = shared.compile(cudaKernelOptions());
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  EXPECT_EQ(kernel->info().scheduleOrigin, ScheduleOrigin::simple);
  EXPECT_EQ(kernel->info().schedule, simple);
  CudaProblem problem = CudaProblem::create(shared).value();
  EXPECT_EQ(launched(*kernel, problem.arguments), "simple");
  Result<bool> isBest = kernel->isBest();
  ASSERT_TRUE(isBest.ok());
  EXPECT_FALSE(*isBest);

  letBestCompile(*kernel);
  EXPECT_EQ(kernel->info().scheduleOrigin, ScheduleOrigin::simple) << "no launch came since";
  EXPECT_EQ(launched(*kernel, problem.arguments), best);
  EXPECT_EQ(kernel->info().scheduleOrigin, ScheduleOrigin::heuristic);
  EXPECT_EQ(launched(*kernel, problem.arguments), best);

  // A new request gets the best kernel at once.
  Result<Kernel> later = shared.compile(cudaKernelOptions());
  EXPECT_EQ(later->info().origin, Origin::memoryCache);
  EXPECT_EQ(later->info().scheduleOrigin, ScheduleOrigin::heuristic);
  EXPECT_EQ(shared.compileCount(), 2);
  EXPECT_TRUE(logged.empty()) << logged.front();
}

TEST_F(TiersTest, BothAreCached) {
  {
    Context first = context();
    letBestCompile(*first.compile(cudaKernelOptions()));
  }
  Context second = context();
  Result<Kernel> kernel = second.compile(cudaKernelOptions());
  EXPECT_EQ(kernel->info().origin, Origin::diskCache);
  EXPECT_EQ(kernel->info().scheduleOrigin, ScheduleOrigin::heuristic);
  Result<bool> isBest = kernel->isBest();
  EXPECT_TRUE(isBest.ok() && *isBest);
  KernelOptions named = cudaKernelOptions();
  named.schedule = simple;
  EXPECT_EQ(second.compile(named)->info().origin, Origin::diskCache);
  EXPECT_EQ(second.compileCount(), 0);
}

TEST_F(TiersTest, OnlyWhereTheyAreAskedFor) {
  fake::setHeuristic(fake::Heuristic::compiles);
  Context one = context(/*tiers=*/false);
  EXPECT_EQ(one.compile(cudaKernelOptions())->info().scheduleOrigin, ScheduleOrigin::heuristic);
  fake::setHeuristic(fake::Heuristic::waits);
  KernelOptions options = cudaKernelOptions();
  options.headDimQk = options.headDimV = 128;
  options.tiers = true;
  Result<Preparation> prepared = one.prepare(options);
  Result<Kernel> kernel = prepared->get();
  EXPECT_EQ(kernel->info().scheduleOrigin, ScheduleOrigin::simple);
  letBestCompile(*kernel);
  // A named schedule is used as it is.
  options.headDimQk = options.headDimV = 64;
  options.schedule = "named own";
  EXPECT_EQ(one.compile(options)->info().schedule, "named own");
}

TEST_F(TiersTest, ACaptureHasOneOfThem) {
  Context shared = context();
  Result<Kernel> kernel = shared.compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(shared).value();
  TestStream stream, other, third;
  uint64_t simpleGraph = stub::beginCapture(stream.get());
  EXPECT_EQ(launched(*kernel, problem.arguments, stream.get()), "simple");
  letBestCompile(*kernel);
  EXPECT_EQ(launched(*kernel, problem.arguments, stream.get()), "simple");
  uint64_t begunBefore = stub::beginCapture(third.get());
  EXPECT_EQ(launched(*kernel, problem.arguments, third.get()), "simple")
      << "nothing takes a place in a capture";
  // A launch outside of the captures replaces the kernel, but not for these captures.
  EXPECT_EQ(launched(*kernel, problem.arguments, other.get()), best);
  EXPECT_EQ(launched(*kernel, problem.arguments, stream.get()), "simple");
  EXPECT_EQ(launched(*kernel, problem.arguments, third.get()), "simple");
  uint64_t bestGraph = stub::beginCapture(other.get());
  EXPECT_EQ(launched(*kernel, problem.arguments, other.get()), best);
  for (const TestStream *each : {&stream, &third, &other})
    EXPECT_TRUE(stub::endCapture(each->get()));
  EXPECT_EQ(launched(*kernel, problem.arguments, stream.get()), best);
  for (uint64_t graph : {simpleGraph, begunBefore, bestGraph})
    stub::destroyGraph(graph);
}

TEST_F(TiersTest, AFailureOfTheBestIsTold) {
  Context shared = context();
  Result<Kernel> kernel = shared.compile(cudaKernelOptions());
  ASSERT_TRUE(kernel.ok());
  fake::setHeuristic(fake::Heuristic::fails);
  Result<bool> isBest = kernel->isBest(longest);
  ASSERT_FALSE(isBest.ok());
  EXPECT_EQ(isBest.code(), Code::unsupported);
  EXPECT_NE(isBest.error().message().find("simple one: the heuristic's schedule"),
            std::string::npos)
      << isBest.error().message();
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_NE(logged[0].find("the heuristic's schedule does not compile"), std::string::npos);
  CudaProblem problem = CudaProblem::create(shared).value();
  EXPECT_EQ(launched(*kernel, problem.arguments), "simple");
  EXPECT_FALSE(kernel->isBest().ok()) << "each time";

  // A new request tries again.
  fake::setHeuristic(fake::Heuristic::waits);
  Result<Kernel> again = shared.compile(cudaKernelOptions());
  EXPECT_EQ(again->info().origin, Origin::memoryCache);
  letBestCompile(*again);
  EXPECT_EQ(launched(*again, problem.arguments), best);
}

TEST_F(TiersTest, WhereTheSimpleOneDoesNotCompileTheBestIsWaitedFor) {
  fake::setSimpleSchedule("broken");
  fake::setHeuristic(fake::Heuristic::compiles);
  Context shared = context();
  Result<Kernel> kernel = shared.compile(cudaKernelOptions());
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->info().scheduleOrigin, ScheduleOrigin::heuristic);
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_NE(logged[0].find("sliding_alibi"), std::string::npos) << logged[0];
  EXPECT_NE(logged[0].find("it is broken"), std::string::npos) << logged[0];
  // An error in the variant itself is only an error, not a warning.
  KernelOptions wrong = cudaKernelOptions();
  wrong.variantText = "attention broken( {";
  EXPECT_EQ(shared.compile(wrong).code(), Code::invalidVariant);
  EXPECT_EQ(logged.size(), 1u);
}

TEST_F(TiersTest, KernelsLiveOnWhereTheContextGoes) {
  std::optional<Kernel> kernel;
  Context other = context(); // buffers keep their context alive
  CudaProblem problem = CudaProblem::create(other).value();
  {
    Context gone = context();
    kernel = *gone.compile(cudaKernelOptions());
    for (int headDim = 8; headDim < 64; headDim += 8) { // more than there are threads
      KernelOptions options = cudaKernelOptions();
      options.headDimQk = options.headDimV = headDim;
      ASSERT_TRUE(gone.prepare(options).ok());
    }
  }
  EXPECT_EQ(kernel->isBest(longest).code(), Code::cancelled);
  EXPECT_EQ(launched(*kernel, problem.arguments), "simple");
  EXPECT_TRUE(logged.empty()) << logged.front();
}

TEST_F(TiersTest, HandlesOfOneKernelShareTheBest) {
  Context shared = context();
  std::vector<Kernel> kernels;
  for (int i = 0; i < 3; ++i)
    kernels.push_back(*shared.compile(cudaKernelOptions()));
  EXPECT_EQ(kernels[2].info().origin, Origin::memoryCache);
  for (const Kernel &kernel : kernels)
    letBestCompile(kernel);
  EXPECT_EQ(shared.compileCount(), 2);
}

TEST_F(TiersTest, ManyThreadsLaunchMeanwhile) {
  Context shared = context();
  Kernel kernel = *shared.compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(shared).value();
  std::atomic<int> failures = 0, launches = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      TestStream stream;
      while (!stop) {
        failures += !kernel.launch(problem.arguments, stream.get()).ok();
        ++launches;
      }
    });
  while (launches < 100)
    std::this_thread::yield();
  letBestCompile(kernel);
  for (int before = launches; launches < before + 100;)
    std::this_thread::yield();
  stop = true;
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(kernel.info().scheduleOrigin, ScheduleOrigin::heuristic);
}

// What one kernel knows about captured tensors is outdated after launches of another.
TEST_F(TiersTest, SummariesAreMadeAnewAfterwards) {
  Context shared = context();
  Kernel kernel = *shared.compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(shared).value();
  auto launchCount = [&] {
    stub::recordLaunches();
    EXPECT_TRUE(kernel.launch(problem.arguments).ok());
    return stub::takeLaunches().size();
  };
  EXPECT_EQ(launchCount(), 2u) << "a summary and the kernel";
  problem.arguments.capturesUnchanged = true;
  EXPECT_EQ(launchCount(), 1u);
  letBestCompile(kernel);
  EXPECT_EQ(launchCount(), 2u);
  EXPECT_EQ(launchCount(), 2u);
}

/// The best kernel needs a larger workspace than the simple one, and only the latter can be asked
/// before.
class TiersWorkspaceTest : public TiersTest {
protected:
  void SetUp() override {
    TiersTest::SetUp();
    fake::setHeuristicNeedsMore(true);
  }
  void TearDown() override {
    fake::setHeuristicNeedsMore(false);
    TiersTest::TearDown();
  }
};

TEST_F(TiersWorkspaceTest, ItIsLargeEnoughForBoth) {
  Context shared = context();
  Kernel kernel = *shared.compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(shared).value();
  Result<size_t> before = kernel.workspaceBytes(problem.arguments);
  letBestCompile(kernel);
  Result<size_t> after = kernel.workspaceBytes(problem.arguments);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_GE(*after, *before + 1024) << "it is there, but no launch has come";
  Buffer memory = shared.allocate(*after).value();
  problem.arguments.workspace = {memory.data(), memory.size()};
  EXPECT_TRUE(kernel.checkArguments(problem.arguments).ok());
  EXPECT_EQ(launched(kernel, problem.arguments), best);
  EXPECT_TRUE(logged.empty()) << logged.front();
  problem.arguments.workspace.bytes = 1;
  EXPECT_EQ(kernel.launch(problem.arguments).code(), Code::invalidArgument);
  EXPECT_EQ(kernel.checkArguments(problem.arguments).code(), Code::invalidArgument);
}

TEST_F(TiersWorkspaceTest, WithTheSimpleOnesTheSimpleOneRunsAndThatIsToldOnce) {
  Context shared = context();
  Kernel kernel = *shared.compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(shared).value();
  Buffer memory = shared.allocate(kernel.workspaceBytes(problem.arguments).value()).value();
  problem.arguments.workspace = {memory.data(), memory.size()};
  letBestCompile(kernel);
  EXPECT_TRUE(kernel.checkArguments(problem.arguments).ok());
  EXPECT_EQ(launched(kernel, problem.arguments), "simple");
  EXPECT_TRUE(logged.empty()) << "nobody could know before that launch";
  EXPECT_EQ(launched(kernel, problem.arguments), "simple");
  EXPECT_EQ(launched(kernel, problem.arguments), "simple");
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_NE(logged[0].find("ask the kernel for the bytes of these arguments"), std::string::npos)
      << logged[0];
  problem.arguments.workspace = {}; // the library's own memory
  EXPECT_EQ(launched(kernel, problem.arguments), best);
}

TEST_F(TiersTest, AnErrorOfTheBestOnesLaunchIsTheCallers) {
  Context shared = context();
  Kernel kernel = *shared.compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(shared).value();
  letBestCompile(kernel);
  stub::failCall("cuLaunchKernelEx", 1, 719); // CUDA_ERROR_LAUNCH_FAILED
  EXPECT_FALSE(kernel.launch(problem.arguments).ok());
  EXPECT_EQ(launched(kernel, problem.arguments), best);
}

} // namespace
