//===- RaceTest.cpp - Many threads, streams, devices and kernels ----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Mainly for ThreadSanitizer; everything that can be checked without it is checked, too.
//
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

#include <atomic>
#include <thread>

using namespace tesela;

namespace {

class RaceTest : public CudaTest {
protected:
  void TearDown() override {
    fake::setCompileMilliseconds(0);
    CudaTest::TearDown();
  }

  static void onThreads(int count, const std::function<void(int)> &work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i)
      threads.emplace_back(work, i);
    for (std::thread &thread : threads)
      thread.join();
  }
};

constexpr int threads = 8;

TEST_F(RaceTest, OneKernelOnManyStreams) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  TestStream shared;
  onThreads(threads, [&](int thread) {
    CudaProblem problem = CudaProblem::create(*context).value();
    for (int round = 0; round < 60; ++round) {
      TestStream own;
      problem.arguments.capturesUnchanged = round % 2;
      for (void *stream : {static_cast<void *>(own.get()), static_cast<void *>(shared.get())}) {
        Status launched = kernel->launch(problem.arguments, stream);
        EXPECT_TRUE(launched.ok()) << launched.error().message();
      }
    }
  });
}

TEST_F(RaceTest, CapturesBesideLaunchesAndCompilations) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  onThreads(threads, [&](int thread) {
    CudaProblem problem = CudaProblem::create(*context).value();
    Buffer memory = context->allocate(*kernel->workspaceBytes(problem.arguments)).value();
    TestStream stream;
    for (int round = 0; round < 20; ++round) {
      if (thread % 2) {
        problem.arguments.workspace = {memory.data(), memory.size()};
        stub::beginCapture(stream.get());
        EXPECT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
        EXPECT_TRUE(stub::endCapture(stream.get()));
        continue;
      }
      KernelOptions options = cudaKernelOptions();
      options.headDimV = options.headDimQk = 8 * (1 + (round + thread) % 16);
      EXPECT_TRUE(context->compile(options).ok());
      EXPECT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
    }
  });
}

TEST_F(RaceTest, ContextsOnSeveralDevicesComeAndGo) {
  onThreads(threads, [&](int thread) {
    for (int round = 0; round < 6; ++round) {
      Result<Context> context = cudaContext(thread % 2);
      ASSERT_TRUE(context.ok()) << context.error().message();
      Result<Kernel> kernel = context->compile(cudaKernelOptions());
      ASSERT_TRUE(kernel.ok()) << kernel.error().message();
      CudaProblem problem = CudaProblem::create(*context).value();
      TestStream stream(thread % 2);
      EXPECT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
    }
  });
}

// A running compilation holds no lock that a launch of a ready kernel needs.
TEST_F(RaceTest, LaunchesDoNotWaitForACompilation) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  TestStream stream;
  fake::setCompileMilliseconds(600'000); // longer than the test; the token ends it
  int begun = fake::compilesBegunSoFar();
  std::stop_source cancelled;
  std::thread compiler([&] {
    KernelOptions options = cudaKernelOptions();
    options.headDimV = 128;
    RequestLimits limits{cancelled.get_token(), std::nullopt};
    EXPECT_EQ(context->compile(options, limits).code(), Code::cancelled);
  });
  while (fake::compilesBegunSoFar() == begun)
    std::this_thread::yield();
  for (int launch = 0; launch < 10; ++launch)
    EXPECT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
  cancelled.request_stop();
  compiler.join();
}

} // namespace
