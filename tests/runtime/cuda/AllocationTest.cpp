//===- AllocationTest.cpp - A ready launch asks for no memory -------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "AllocationCount.h"
#include "CudaProblem.h"

#include "../Problem.h"

using namespace tesela;

namespace {

class AllocationTest : public CudaTest {};

/// Of launches after the first.
long allocationsOf(const Kernel &kernel, const LaunchArguments &arguments, void *stream) {
  EXPECT_TRUE(kernel.launch(arguments, stream).ok());
  long before = allocationsSoFar();
  bool launched = true;
  for (int i = 0; i < 10; ++i)
    launched &= kernel.launch(arguments, stream).ok();
  long counted = allocationsSoFar() - before;
  EXPECT_TRUE(launched);
  return counted;
}

TEST_F(AllocationTest, TheCountCounts) {
  long before = allocationsSoFar();
  auto memory = std::make_unique<std::string>(1000, ' ');
  EXPECT_EQ(allocationsSoFar() - before, 2);
}

TEST_F(AllocationTest, AReadyLaunchOnAGpuAllocatesNothing) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  TestStream stream;
  EXPECT_EQ(allocationsOf(*kernel, problem.arguments, stream.get()), 0);
  problem.arguments.capturesUnchanged = true;
  EXPECT_EQ(allocationsOf(*kernel, problem.arguments, stream.get()), 0);
  EXPECT_EQ(allocationsOf(*kernel, problem.arguments, nullptr), 0);
  Buffer memory = context->allocate(*kernel->workspaceBytes(problem.arguments)).value();
  problem.arguments.workspace = {memory.data(), memory.size()};
  EXPECT_EQ(allocationsOf(*kernel, problem.arguments, stream.get()), 0);
  stub::beginCapture(stream.get());
  EXPECT_EQ(allocationsOf(*kernel, problem.arguments, stream.get()), 0);
  EXPECT_TRUE(stub::endCapture(stream.get()));
}

TEST_F(AllocationTest, NorDoesOneOnTheHost) {
  ContextOptions options;
  options.device = "host";
  options.threads = 2;
  options.diskCache = false;
  Result<Context> context = Context::create(options);
  ASSERT_TRUE(context.ok());
  Problem problem;
  Result<Kernel> kernel = context->compile(problem.fill().options());
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(allocationsOf(*kernel, problem.arguments, nullptr), 0);
}

} // namespace
