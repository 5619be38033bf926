//===- CaptureTest.cpp - Launches that become part of a graph -------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

#include <thread>

using namespace tesela;

namespace {

class CaptureTest : public CudaTest {};

/// Memory of the caller's that lasts as long as the test.
LaunchWorkspace workspaceOf(const Kernel &kernel, const LaunchArguments &arguments,
                            const Context &context, Buffer &memory) {
  Result<size_t> bytes = kernel.workspaceBytes(arguments);
  EXPECT_TRUE(bytes.ok());
  EXPECT_GT(*bytes, 0u);
  memory = context.allocate(*bytes).value();
  return {memory.data(), memory.size()};
}

TEST_F(CaptureTest, WithAWorkspaceAnyLaunchCanBeCaptured) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  Buffer memory;
  problem.arguments.workspace = workspaceOf(*kernel, problem.arguments, *context, memory);
  TestStream stream;
  stub::recordLaunches();
  int allocations = stub::callsOf("cuMemAlloc_v2");
  uint64_t capture = stub::beginCapture(stream.get());
  Status launched = kernel->launch(problem.arguments, stream.get());
  EXPECT_TRUE(stub::endCapture(stream.get()));
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  EXPECT_EQ(stub::callsOf("cuMemAlloc_v2"), allocations);
  std::vector<stub::StubLaunch> launches = stub::takeLaunches();
  ASSERT_EQ(launches.size(), 3u); // the counter is cleared in the graph
  EXPECT_EQ(launches[0].kernel, "memset");
  for (const stub::StubLaunch &launch : launches)
    EXPECT_EQ(launch.capture, capture);
  auto counter = reinterpret_cast<uintptr_t>(memory.data());
  EXPECT_EQ(launches[2].parameters[32],
            std::string(reinterpret_cast<const char *>(&counter), sizeof counter));

  // Again and again: each graph has the caller's memory, and the kernel keeps none.
  size_t bytes = stub::liveBytes();
  for (int i = 0; i < 5000; ++i) {
    stub::beginCapture(stream.get());
    EXPECT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
    EXPECT_TRUE(stub::endCapture(stream.get()));
  }
  EXPECT_EQ(stub::liveBytes(), bytes);
}

TEST_F(CaptureTest, WithoutOneTheStreamsIsTaken) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  TestStream stream;
  stub::beginCapture(stream.get());
  Status launched = kernel->launch(problem.arguments, stream.get());
  EXPECT_TRUE(stub::endCapture(stream.get())); // refused, and the capture is whole
  EXPECT_EQ(launched.code(), Code::outOfMemory);
  EXPECT_NE(launched.error().message().find("launch once with these extents on the same stream "
                                            "before each capture, or pass a workspace"),
            std::string::npos)
      << launched.error().message();
  ASSERT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
  stub::beginCapture(stream.get());
  EXPECT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
  EXPECT_TRUE(stub::endCapture(stream.get()));
}

// The launch that made the stream's summaries need not have run when the graph does.
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
  EXPECT_EQ(stub::takeLaunches().size(), 3u) << "one summary for both";
}

// In the mode that captures mostly have, an allocation on any thread would break them.
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
    Status launched = kernel->launch(arguments, stream.get()); // with memory for its summary
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
            "launching 'sliding_alibi': the workspace is 8 bytes, this launch needs 512: ask "
            "Kernel::workspaceBytes with its arguments");
  EXPECT_EQ(kernel->checkArguments(problem.arguments).code(), Code::invalidArgument);
}

} // namespace
