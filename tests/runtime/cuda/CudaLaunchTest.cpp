//===- CudaLaunchTest.cpp - What the driver gets for a launch -------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

#include <cstring>
#include <set>

using namespace tesela;

namespace {

class CudaLaunchTest : public CudaTest {
protected:
  template <typename T> static T value(const stub::StubLaunch &launch, size_t parameter) {
    T result{};
    EXPECT_LT(parameter, launch.parameters.size());
    EXPECT_EQ(launch.parameters[parameter].size(), sizeof result);
    std::memcpy(&result, launch.parameters[parameter].data(), sizeof result);
    return result;
  }
  /// The address that the stub wrote into a map's first bytes.
  static uint64_t mapped(const stub::StubLaunch &launch, size_t parameter) {
    uint64_t result = 0;
    EXPECT_EQ(launch.parameters[parameter].size(), 128u);
    std::memcpy(&result, launch.parameters[parameter].data(), sizeof result);
    return result;
  }
  static uint64_t address(const Tensor &tensor) { return reinterpret_cast<uintptr_t>(tensor.data); }
};

/// The parameters of the fake kernel, as FakeCompiler.cpp lists them.
enum Parameter { lse = 4, heads = 5, keys = 8, scale = 11, window, slope, slopeStride, strides };
enum { maps = strides + 12, step = maps + 4, counter, summaryOfSlope };

TEST_F(CudaLaunchTest, TheKernelsParametersAreTheArguments) {
  Result<Context> context = cudaContext();
  ASSERT_TRUE(context.ok()) << context.error().message();
  EXPECT_EQ(context->device().name, "NVIDIA H200");
  EXPECT_EQ(context->device().target, "sm_90");
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  CudaProblem problem = CudaProblem::create(*context).value();
  const LaunchArguments &arguments = problem.arguments;
  TestStream stream;
  stub::recordLaunches();
  Status launched = kernel->launch(arguments, stream.get());
  ASSERT_TRUE(launched.ok()) << launched.error().message();

  std::vector<stub::StubLaunch> launches = stub::takeLaunches();
  ASSERT_EQ(launches.size(), 2u);
  const stub::StubLaunch &summary = launches[0], &main = launches[1];
  EXPECT_EQ(summary.kernel, "summary0_slope");
  EXPECT_EQ(summary.grid, 1u);
  EXPECT_EQ(summary.block, 128u);
  EXPECT_EQ(value<uint64_t>(summary, 0), address(arguments.captures[0].tensor));
  EXPECT_EQ(value<int32_t>(summary, 1), CudaProblem::H);

  EXPECT_EQ(main.kernel, "fake_sliding_alibi");
  EXPECT_EQ(main.grid, 132u); // persistent: one thread block per multiprocessor
  EXPECT_EQ(main.block, 384u);
  EXPECT_EQ(main.sharedBytes, 1024u);
  EXPECT_EQ(main.device, 0);
  EXPECT_EQ(value<uint64_t>(main, lse), address(arguments.lse));
  EXPECT_EQ(value<int32_t>(main, heads), CudaProblem::H);
  EXPECT_EQ(value<int32_t>(main, keys), CudaProblem::Sk);
  EXPECT_EQ(value<float>(main, scale), 0.125f);
  EXPECT_EQ(value<int32_t>(main, window), 7);
  EXPECT_EQ(value<uint64_t>(main, slope), address(arguments.captures[0].tensor));
  EXPECT_EQ(value<int64_t>(main, slopeStride), 1);
  EXPECT_EQ(value<int64_t>(main, strides), CudaProblem::H * CudaProblem::Sq * CudaProblem::D);
  const Tensor *tensors[] = {&arguments.q, &arguments.k, &arguments.v, &arguments.o};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(mapped(main, maps + i), address(*tensors[i]));
  EXPECT_EQ(value<int32_t>(main, step), 1);
  uint64_t zeros = 1;
  std::memcpy(&zeros, reinterpret_cast<void *>(value<uint64_t>(main, counter)), sizeof zeros);
  EXPECT_EQ(zeros, 0u);
  EXPECT_EQ(value<uint64_t>(main, summaryOfSlope), value<uint64_t>(summary, 3));
}

// A launch asks once for the current context, and pushes its own only if another one is current.
TEST_F(CudaLaunchTest, TheContextIsMadeCurrentOnce) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  TestStream stream;
  ASSERT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
  stub::reset();
  ASSERT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
  EXPECT_EQ(stub::callsOf("cuCtxGetCurrent"), 1);
  EXPECT_EQ(stub::callsOf("cuCtxPushCurrent_v2"), 1);
  EXPECT_EQ(stub::callsOf("cuCtxPopCurrent_v2"), 1);
  EXPECT_EQ(stub::callsOf("cuStreamGetId"), 1);
  EXPECT_EQ(stub::callsOf("cuStreamGetCaptureInfo_v2"), 1);
  EXPECT_EQ(stub::callsOf("cuLaunchKernel"), 1);
  EXPECT_EQ(stub::callsOf("cuLaunchKernelEx"), 1);

  const cuda::DriverApi &api = **cuda::driver();
  CUctx_st *primary = nullptr, *popped = nullptr;
  ASSERT_EQ(api.cuDevicePrimaryCtxRetain(&primary, 0), 0);
  ASSERT_EQ(api.cuCtxPushCurrent_v2(primary), 0);
  stub::reset();
  ASSERT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
  EXPECT_EQ(stub::callsOf("cuCtxPushCurrent_v2"), 0);
  EXPECT_EQ(stub::callsOf("cuCtxPopCurrent_v2"), 0);
  ASSERT_EQ(api.cuCtxPopCurrent_v2(&popped), 0);
  ASSERT_EQ(api.cuDevicePrimaryCtxRelease_v2(0), 0);
}

// The main kernel waits for the summary, so it may begin while the summary's kernel ends.
TEST_F(CudaLaunchTest, ALaunchMayBeginWhileAnotherOfItsCallEnds) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  stub::recordLaunches();
  ASSERT_TRUE(kernel->launch(problem.arguments).ok());
  std::vector<stub::StubLaunch> launches = stub::takeLaunches();
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_FALSE(launches[0].overlaps);
  EXPECT_TRUE(launches[1].overlaps);
}

TEST_F(CudaLaunchTest, SummariesOfUnchangedCapturesAreKept) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  stub::recordLaunches();
  problem.arguments.capturesUnchanged = true;
  ASSERT_TRUE(kernel->launch(problem.arguments).ok());
  EXPECT_EQ(stub::takeLaunches().size(), 2u);
  ASSERT_TRUE(kernel->launch(problem.arguments).ok());
  EXPECT_EQ(stub::takeLaunches().size(), 1u);
}

// "Unchanged" means since the kernel's last launch, in any memory.
TEST_F(CudaLaunchTest, ALaunchWithAWorkspaceEndsWhatIsKept) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  LaunchArguments arguments = problem.arguments;
  Buffer memory = context->allocate(*kernel->workspaceBytes(arguments)).value();
  LaunchArguments elsewhere = arguments;
  elsewhere.workspace = {memory.data(), memory.size()};
  ASSERT_TRUE(kernel->launch(arguments).ok());
  elsewhere.capturesUnchanged = arguments.capturesUnchanged = true;
  ASSERT_TRUE(kernel->launch(elsewhere).ok());
  stub::recordLaunches();
  ASSERT_TRUE(kernel->launch(arguments).ok());
  EXPECT_EQ(stub::takeLaunches().size(), 1u) << "nothing changed in either";
  elsewhere.capturesUnchanged = false;
  ASSERT_TRUE(kernel->launch(elsewhere).ok());
  stub::takeLaunches();
  ASSERT_TRUE(kernel->launch(arguments).ok());
  EXPECT_EQ(stub::takeLaunches().size(), 2u) << "the tensor changed before the launch elsewhere";
}

TEST_F(CudaLaunchTest, SeveralDevicesAtOnce) {
  Result<Context> contexts[] = {cudaContext(0), cudaContext(1)};
  for (int device : {0, 1, 0, 1}) {
    Context &context = *contexts[device];
    EXPECT_EQ(context.device().index, device);
    Result<Kernel> kernel = context.compile(cudaKernelOptions());
    ASSERT_TRUE(kernel.ok()) << kernel.error().message();
    CudaProblem problem = CudaProblem::create(context).value();
    TestStream stream(device);
    stub::recordLaunches();
    Status launched = kernel->launch(problem.arguments, stream.get());
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    EXPECT_EQ(stub::takeLaunches()[0].device, device);
  }
  // A stream of another device is an error of the caller.
  Result<Kernel> kernel = contexts[0]->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*contexts[0]).value();
  TestStream stream(1);
  Status launched = kernel->launch(problem.arguments, stream.get());
  EXPECT_EQ(launched.code(), Code::invalidArgument);
  EXPECT_NE(launched.error().message().find("must belong to the device's primary context"),
            std::string::npos)
      << launched.error().message();
}

// A server that makes a stream for each request.
TEST_F(CudaLaunchTest, StreamsThatComeAndGoNeedNoMoreMemory) {
  Result<Context> context = cudaContext();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  CudaProblem problem = CudaProblem::create(*context).value();
  size_t most = 0;
  for (int request = 0; request < 12000; ++request) {
    TestStream stream;
    ASSERT_TRUE(kernel->launch(problem.arguments, stream.get()).ok());
    if (request == 4000)
      most = stub::liveBytes();
  }
  EXPECT_LE(stub::liveBytes(), most);
}

TEST_F(CudaLaunchTest, AKernelOutlivesItsContext) {
  std::optional<Kernel> kernel;
  Result<Context> context = cudaContext();
  CudaProblem problem = CudaProblem::create(*context).value();
  {
    Result<Kernel> compiled = context->compile(cudaKernelOptions());
    ASSERT_TRUE(compiled.ok());
    kernel = *compiled;
  }
  context = Error(Code::notFound, "gone");
  EXPECT_TRUE(kernel->launch(problem.arguments).ok());
}

} // namespace
