//===- CudaTuneTest.cpp - The tuner on the stub's GPUs --------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

#include "api/State.h"
#include "system/File.h"
#include "tesela/Tune.h"

#include <algorithm>

using namespace tesela;

namespace {

class CudaTuneTest : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    fake::setCandidates({"one", "two", "broken", "three"});
  }
  void TearDown() override {
    fake::setCandidates({});
    CudaTest::TearDown();
  }

  static TuneShape shape() {
    TuneShape shape;
    static_cast<ProblemSizes &>(shape) = {CudaProblem::B, CudaProblem::H, CudaProblem::Hkv,
                                          CudaProblem::Sq, CudaProblem::Sk};
    shape.scalars = {{"window", 7}};
    return shape;
  }
  static TuneOptions brief() {
    TuneOptions tuning;
    tuning.seconds = 0.2;
    tuning.memoryBytes = 8 << 20;
    tuning.keep = false;
    return tuning;
  }
};

// Launches of the caller on the default stream must not wait for a race.
TEST_F(CudaTuneTest, RacesOnAStreamOfItsOwn) {
  Result<Context> context = cudaContext();
  stub::recordLaunches();
  Result<TuneReport> report = tune(*context, cudaKernelOptions(), shape(), brief());
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->trials.size(), 4u);
  std::vector<stub::StubLaunch> launches = stub::takeLaunches();
  ASSERT_FALSE(launches.empty());
  uint64_t defaultStream = 0;
  ASSERT_EQ((*cuda::driver())->cuInit(0), 0);
  {
    Result<Kernel> kernel = context->compile(cudaKernelOptions());
    CudaProblem problem = CudaProblem::create(*context).value();
    ASSERT_TRUE(kernel->launch(problem.arguments).ok());
    defaultStream = stub::takeLaunches().back().stream;
  }
  for (const stub::StubLaunch &launch : launches)
    EXPECT_NE(launch.stream, defaultStream);
}

// Any failure at any time gives an error and leaves no live object (CudaTest).
TEST_F(CudaTuneTest, FailuresLeaveNothingBehind) {
  Result<Context> context = cudaContext();
  for (const char *entry :
       {"cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async",
        "cuStreamCreate", "cuModuleLoadDataEx", "cuLaunchKernel", "cuStreamSynchronize",
        "cuEventRecord", "cuEventElapsedTime"})
    for (int call : {1, 2, 5, 9}) {
      SCOPED_TRACE(testing::Message() << "call " << call << " of " << entry);
      stub::Live before = stub::live();
      stub::failCall(entry, call, cuda::errorOutOfMemory);
      Result<TuneReport> report = tune(*context, cudaKernelOptions(), shape(), brief());
      stub::failCall("", 0, 0);
      EXPECT_TRUE(report.ok() || !report.error().message().empty());
      EXPECT_EQ(stub::live(), before);
    }
}

// A race in the background, from its first allocation to the comparison of results.
TEST_F(CudaTuneTest, LeavesCapturesOfOtherThreadsAlone) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions()); // loads everything first
  for (bool blocking : {false, true}) {
    TestStream captured(0, blocking);
    stub::beginCapture(captured.get());
    std::thread tuner([&] {
      Result<TuneReport> report = tune(*context, cudaKernelOptions(), shape(), brief());
      EXPECT_TRUE(report.ok()) << report.error().message();
    });
    tuner.join();
    EXPECT_TRUE(stub::endCapture(captured.get())) << "blocking " << blocking;
  }
}

// A program that warmed a stream for a capture has warmed the kernel of that time. A better kernel
// that replaced it has no memory on the stream and must not break the graph.
TEST_F(CudaTuneTest, AKernelThatChangesBeforeACaptureSpoilsNothing) {
  fake::setCudaFormat(CodeFormat::cubin);
  ContextOptions options;
  options.device = "cuda";
  options.diskCache = false;
  options.tuning = Tuning::onFirstUse;
  options.tuningSeconds = 0.1;
  Result<Context> context = Context::create(options);
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  TestStream stream;
  ASSERT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
  KernelOptions other = cudaKernelOptions();
  other.schedule = "two";
  Result<Kernel> better = context->compile(other);
  ASSERT_TRUE(better.ok());
  SizeBucket bucket = SizeBucket::of({int32_t(problem.B), int32_t(problem.H), int32_t(problem.Hkv),
                                      int32_t(problem.Sq), int32_t(problem.Sk)});
  kernel->internal()->tuned->set(bucket, better->internal()->kernel);
  stub::beginCapture(stream.get());
  Status launched = kernel->launch(problem.arguments, stream.get());
  EXPECT_TRUE(stub::endCapture(stream.get()));
  EXPECT_TRUE(launched.ok()) << launched.error().message();
}

/// A cache in which "named special" is the fastest known schedule for CudaProblem's sizes.
class CudaAnswerTest : public CudaTest {
protected:
  Result<TemporaryFolder> folder = TemporaryFolder::create();

  void SetUp() override {
    CudaTest::SetUp();
    fake::setCudaFormat(CodeFormat::cubin);
    TuneRecord record;
    record.device = recordDevice((*cudaDevices())[0], 0);
    record.kernel = recordKernel(*makeSpecification(cudaKernelOptions(), "sm_90"));
    record.bucket = SizeBucket::of(
        {CudaProblem::B, CudaProblem::H, CudaProblem::Hkv, CudaProblem::Sq, CudaProblem::Sk});
    record.schedule = "named special";
    RecordStore store(folder->path() + "/tuned", "", std::make_shared<EventSink>());
    ASSERT_TRUE(store.store(record).ok());
  }
  Context context() {
    ContextOptions options;
    options.device = "cuda";
    options.cacheFolder = folder->path();
    return *Context::create(options);
  }
  /// The names of the kernels that were started, in order.
  static std::vector<std::string> started() {
    std::vector<std::string> names;
    for (const stub::StubLaunch &launch : stub::takeLaunches())
      if (launch.kernel != "memset")
        names.push_back(launch.kernel);
    return names;
  }
  /// Half as many queries: sizes without a measurement.
  static LaunchArguments otherSizes(LaunchArguments arguments) {
    for (Tensor *tensor : {&arguments.q, &arguments.o, &arguments.lse})
      tensor->extents[2] /= 2;
    arguments.lse = Tensor::contiguous(arguments.lse.data, ElementType::f32,
                                       {CudaProblem::B, CudaProblem::H, CudaProblem::Sq / 2});
    return arguments;
  }
};

TEST_F(CudaAnswerTest, TheSameSequenceStartsTheSameKernels) {
  auto sequence = [&] {
    Context shared = context();
    Kernel kernel = *shared.compile(cudaKernelOptions());
    CudaProblem problem = CudaProblem::create(shared).value();
    TestStream stream;
    stub::recordLaunches();
    for (bool other : {true, false, false, true, false})
      EXPECT_TRUE(
          kernel.launch(other ? otherSizes(problem.arguments) : problem.arguments, stream.get())
              .ok());
    return started();
  };
  std::vector<std::string> first = sequence();
  EXPECT_EQ(std::count(first.begin(), first.end(), "special"), 3);
  EXPECT_EQ(std::count(first.begin(), first.end(), "fake_sliding_alibi"), 2);
  EXPECT_EQ(sequence(), first);
}

TEST_F(CudaAnswerTest, AGraphHasTheKernelOfTheEagerLaunch) {
  Context shared = context();
  Kernel kernel = *shared.compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(shared).value();
  TestStream stream;
  stub::recordLaunches();
  ASSERT_TRUE(kernel.launch(problem.arguments, stream.get()).ok());
  std::vector<std::string> eager = started();
  EXPECT_EQ(eager.back(), "special");
  for (bool isLent : {false, true}) {
    Buffer memory;
    if (isLent) {
      memory = shared.allocate(*kernel.workspaceBytes(problem.arguments)).value();
      problem.arguments.workspace = {memory.data(), memory.size()};
    }
    stub::takeLaunches();
    stub::beginCapture(stream.get());
    Status launched = kernel.launch(problem.arguments, stream.get());
    EXPECT_TRUE(stub::endCapture(stream.get()));
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    EXPECT_EQ(started(), eager);
  }
}

// No other kernel is launched instead, because its results would have other bits.
TEST_F(CudaAnswerTest, AKernelThatCannotBeLaunchedIsAnError) {
  Context shared = context();
  Kernel kernel = *shared.compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(shared).value();
  problem.arguments.workspace = {problem.memory.data(), 1};
  stub::recordLaunches();
  EXPECT_FALSE(kernel.checkArguments(problem.arguments).ok());
  EXPECT_EQ(kernel.launch(problem.arguments).code(), Code::invalidArgument);
  EXPECT_TRUE(started().empty());
}

} // namespace
