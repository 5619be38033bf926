//===- CaptureTest.cpp - Launches that become part of a graph -------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

#include <cstring>
#include <set>
#include <thread>

using namespace tesela;

namespace {

class CaptureTest : public CudaTest {};

/// Memory of the caller that lasts as long as the test.
LaunchWorkspace workspaceOf(const Kernel &kernel, const LaunchArguments &arguments,
                            const Context &context, Buffer &memory) {
  Result<size_t> bytes = kernel.workspaceBytes(arguments);
  EXPECT_TRUE(bytes.ok());
  EXPECT_GT(*bytes, 0u);
  memory = context.allocate(*bytes).value();
  return {memory.data(), memory.size()};
}

/// The address of the counter that the kernel got.
uint64_t counterOf(const stub::StubLaunch &launch) {
  uint64_t address = 0;
  EXPECT_GT(launch.parameters.size(), 32u);
  if (launch.parameters.size() > 32)
    std::memcpy(&address, launch.parameters[32].data(), sizeof address);
  return address;
}

TEST_F(CaptureTest, WithAWorkspaceAnyLaunchCanBeCaptured) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  Buffer memory;
  problem.arguments.workspace = workspaceOf(*kernel, problem.arguments, *context, memory);
  TestStream stream;
  stub::recordLaunches();
  uint64_t capture = stub::beginCapture(stream.get());
  Status launched = kernel->launch(problem.arguments, stream.get());
  EXPECT_TRUE(stub::endCapture(stream.get()));
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  std::vector<stub::StubLaunch> launches = stub::takeLaunches();
  std::erase_if(launches, [](const stub::StubLaunch &each) { return each.capture == 0; });
  ASSERT_EQ(launches.size(), 2u) << "a summary and the kernel, no memset";
  for (const stub::StubLaunch &launch : launches)
    EXPECT_EQ(launch.capture, capture);
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  EXPECT_EQ(counterOf(launches[1]) % 2, 1u) << "a table, one counter for each instance";
  EXPECT_EQ(stub::placeOf(counterOf(launches[1])).offset % 1024, 1u);
  EXPECT_TRUE(counterOf(launches[1]) < address ||
              counterOf(launches[1]) >= address + memory.size());
}

// On streams that Tesela has never seen, without an earlier launch.
TEST_F(CaptureTest, WithoutOneTheGraphHasItsOwn) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  size_t before = stub::liveBytes();
  TestStream stream;
  stub::recordLaunches();
  uint64_t capture = stub::beginCapture(stream.get());
  for (int layer = 0; layer < 2000; ++layer) // more than the supply
    ASSERT_TRUE(kernel->launch(problem.arguments, stream.get()).ok()) << layer;
  EXPECT_TRUE(stub::endCapture(stream.get()));
  std::set<uint64_t> counters;
  for (const stub::StubLaunch &launch : stub::takeLaunches())
    if (launch.capture && launch.parameters.size() > 32) {
      EXPECT_TRUE(counters.insert(counterOf(launch)).second) << "each has a table of its own";
    }
  EXPECT_EQ(counters.size(), 2000u);
  EXPECT_GT(stub::liveBytes(), before);

  // Later graphs use the tables again; the workspace is freed.
  stub::destroyGraph(capture);
  cuda::awaitReleases();
  size_t kept = stub::liveBytes();
  for (int graph = 0; graph < 200; ++graph) {
    capture = stub::beginCapture(stream.get());
    for (int layer = 0; layer < 20; ++layer)
      EXPECT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
    EXPECT_TRUE(stub::endCapture(stream.get()));
    stub::destroyGraph(capture);
    cuda::awaitReleases();
    EXPECT_EQ(stub::liveBytes(), kept);
  }
}

TEST_F(CaptureTest, AGraphKeepsItsKernel) {
  TestStream stream;
  uint64_t capture = 0;
  stub::Live before = stub::live();
  {
    Result<Context> context = cudaContext();
    Result<Kernel> kernel = context->compile(cudaKernelOptions());
    CudaProblem problem = CudaProblem::create(*context).value();
    capture = stub::beginCapture(stream.get());
    EXPECT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
    EXPECT_TRUE(stub::endCapture(stream.get()));
  }
  EXPECT_EQ(stub::live().modules, before.modules + 1);
  stub::destroyGraph(capture);
  cuda::awaitReleases();
  EXPECT_EQ(stub::live(), before);
}

// The launch that computed the stream's summaries may not have run yet when the graph runs.
TEST_F(CaptureTest, AGraphMakesItsOwnSummaries) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  problem.arguments.capturesUnchanged = true;
  TestStream stream;
  ASSERT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
  stub::recordLaunches();
  stub::beginCapture(stream.get());
  EXPECT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
  EXPECT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
  EXPECT_TRUE(stub::endCapture(stream.get()));
  std::vector<stub::StubLaunch> launches = stub::takeLaunches();
  std::erase_if(launches, [](const stub::StubLaunch &each) { return each.capture == 0; });
  EXPECT_EQ(launches.size(), 3u) << "one summary for both";
}

// In the usual capture mode, an allocation on any thread would break the capture.
TEST_F(CaptureTest, WhatOthersAllocateLeavesACaptureAlone) {
  ASSERT_TRUE(cuda::driver().ok());
  TestStream captured(0, true);
  stub::beginCapture(captured.get());
  std::thread other([&] {
    Result<Context> context = cudaContext();
    ASSERT_TRUE(context.ok()) << context.error().message();
    Result<Kernel> kernel = context->compile(cudaKernelOptions());
    EXPECT_TRUE(kernel.ok());
    Result<Buffer> memory = context->allocate(size_t(1) << 20);
    EXPECT_TRUE(memory.ok());
    TestStream stream;
    LaunchArguments arguments;
    char *address = static_cast<char *>(memory->data());
    arguments.q = arguments.o =
        Tensor::contiguous(address, ElementType::bf16, {1, 3000, 1, 64}); // 3000 slopes
    arguments.k = arguments.v = Tensor::contiguous(address, ElementType::bf16, {1, 3000, 1, 64});
    arguments.lse = Tensor::contiguous(address, ElementType::f32, {1, 3000, 1});
    arguments.captures = {{"slope", Tensor::contiguous(address, ElementType::f32, {3000})}};
    Status launched = kernel->launch(arguments, stream.get()); // needs memory for a summary
    EXPECT_TRUE(launched.ok()) << launched.error().message();
  });
  other.join();
  EXPECT_TRUE(stub::endCapture(captured.get()));
}

TEST_F(CaptureTest, TheDefaultStreamIsRefusedWithASentence) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  TestStream captured(0, true);
  stub::beginCapture(captured.get());
  Status launched = kernel->launch(problem.arguments);
  stub::endCapture(captured.get());
  EXPECT_EQ(launched.code(), Code::driver);
  EXPECT_NE(launched.error().message().find("made with CU_STREAM_NON_BLOCKING"), std::string::npos)
      << launched.error().message();
  EXPECT_TRUE(kernel->launch(problem.arguments).ok());
}

TEST_F(CaptureTest, AWorkspaceThatDoesNotFitIsTheCallersError) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  problem.arguments.workspace = {problem.memory.data(), 8};
  Status launched = kernel->launch(problem.arguments);
  EXPECT_EQ(launched.code(), Code::invalidArgument);
  EXPECT_EQ(launched.error().message(),
            "launching 'sliding_alibi': the workspace has 8 bytes, this launch needs 256: ask "
            "the kernel for the bytes of these arguments, and pass as many");
  EXPECT_EQ(kernel->checkArguments(problem.arguments).code(), Code::invalidArgument);
}

} // namespace
