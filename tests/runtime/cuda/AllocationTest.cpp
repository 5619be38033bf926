//===- AllocationTest.cpp - A ready launch allocates no memory ------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "AllocationCount.h"
#include "CudaProblem.h"

#include "../Problem.h"
#include "tesela/tesela.h"

using namespace tesela;

namespace {

class AllocationTest : public CudaTest {};

/// The allocations of launches after the first.
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

tesela_view viewOf(const Tensor &tensor) {
  return {tensor.data, tensor.strides[0], tensor.strides[1], tensor.strides[2]};
}

TEST_F(AllocationTest, NorDoesOneThroughTheCApi) {
  fake::setCudaFormat(CodeFormat::cubin);
  tesela_context_options contextOptions = {};
  contextOptions.size = sizeof contextOptions;
  contextOptions.device = "cuda";
  contextOptions.no_disk_cache = 1;
  tesela_context *context = nullptr;
  ASSERT_EQ(tesela_context_create(&contextOptions, &context), TESELA_OK) << tesela_last_error();
  tesela_kernel_options kernelOptions = {};
  kernelOptions.size = sizeof kernelOptions;
  kernelOptions.variant = fake::variantText;
  kernelOptions.input_type = TESELA_BF16;
  kernelOptions.head_dim_qk = kernelOptions.head_dim_v = CudaProblem::D;
  tesela_kernel *kernel = nullptr;
  ASSERT_EQ(tesela_compile(context, &kernelOptions, &kernel), TESELA_OK) << tesela_last_error();
  {
    Result<Context> memory = cudaContext();
    CudaProblem problem = CudaProblem::create(*memory).value();
    const LaunchArguments &from = problem.arguments;
    const int64_t heads[] = {CudaProblem::H};
    tesela_parameter parameters[2] = {};
    parameters[0].name = "window";
    parameters[0].scalar = 7;
    parameters[1].name = "slope";
    parameters[1].data = from.captures[0].tensor.data;
    parameters[1].type = TESELA_F32;
    parameters[1].rank = 1;
    parameters[1].extents = heads;
    tesela_launch_arguments arguments = {};
    arguments.size = sizeof arguments;
    arguments.batch = CudaProblem::B;
    arguments.heads = CudaProblem::H;
    arguments.kv_heads = CudaProblem::Hkv;
    arguments.length = CudaProblem::Sq;
    arguments.kv_length = CudaProblem::Sk;
    arguments.q = viewOf(from.q);
    arguments.k = viewOf(from.k);
    arguments.v = viewOf(from.v);
    arguments.o = viewOf(from.o);
    arguments.lse = static_cast<float *>(from.lse.data);
    arguments.parameters = parameters;
    arguments.parameter_count = 2;
    ASSERT_EQ(tesela_launch(kernel, &arguments, nullptr), TESELA_OK) << tesela_last_error();
    long before = allocationsSoFar();
    tesela_code codes[10];
    for (tesela_code &code : codes)
      code = tesela_launch(kernel, &arguments, nullptr);
    EXPECT_EQ(allocationsSoFar() - before, 0);
    for (tesela_code code : codes)
      EXPECT_EQ(code, TESELA_OK);
  }
  tesela_kernel_destroy(kernel);
  tesela_context_destroy(context);
}

} // namespace
