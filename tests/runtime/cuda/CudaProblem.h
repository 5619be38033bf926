//===- CudaProblem.h - A launch on the stub's GPUs --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RUNTIME_CUDA_CUDAPROBLEM_H
#define TESELA_TESTS_RUNTIME_CUDA_CUDAPROBLEM_H

#include "CudaStub.h"
#include "FakeCompiler.h"
#include "driver/CurrentContext.h"
#include "driver/GraphOwned.h"
#include "tesela/Context.h"

#include <gtest/gtest.h>

#include <optional>

namespace tesela {

/// A context on one of the stub's GPUs, without a disk cache.
inline Result<Context> cudaContext(int device = 0) {
  fake::setCudaFormat(CodeFormat::cubin); // otherwise the machine's ptxas would assemble it
  ContextOptions options;
  options.device = "cuda:" + std::to_string(device);
  options.diskCache = false;
  return Context::create(options);
}

inline KernelOptions cudaKernelOptions() {
  KernelOptions options;
  options.variantText = fake::variantText;
  options.inputType = ElementType::bf16;
  options.headDimQk = options.headDimV = 64;
  return options;
}

/// Tensors in a device's memory, for the fake kernel.
struct CudaProblem {
  static constexpr int64_t B = 2, H = 6, Hkv = 3, Sq = 100, Sk = 120, D = 64;
  Buffer memory;
  LaunchArguments arguments;

  static Result<CudaProblem> create(const Context &context) {
    CudaProblem problem;
    Result<Buffer> memory = context.allocate(size_t(1) << 20);
    if (!memory)
      return memory.error();
    problem.memory = std::move(*memory);
    char *next = static_cast<char *>(problem.memory.data());
    auto tensor = [&](ElementType type, std::initializer_list<int64_t> extents) {
      Tensor made = Tensor::contiguous(next, type, extents);
      next += (made.spanBytes() + 255) / 256 * 256;
      return made;
    };
    LaunchArguments &arguments = problem.arguments;
    arguments.q = tensor(ElementType::bf16, {B, H, Sq, D});
    arguments.k = tensor(ElementType::bf16, {B, Hkv, Sk, D});
    arguments.v = tensor(ElementType::bf16, {B, Hkv, Sk, D});
    arguments.o = tensor(ElementType::bf16, {B, H, Sq, D});
    arguments.lse = tensor(ElementType::f32, {B, H, Sq});
    arguments.scalars = {{"window", 7}};
    arguments.captures = {{"slope", tensor(ElementType::f32, {H})}};
    return Result<CudaProblem>(std::move(problem));
  }
};

/// A stream of a device, created as users create them.
class TestStream {
public:
  explicit TestStream(int device = 0, bool blocking = false) {
    const cuda::DriverApi &api = **cuda::driver();
    CUctx_st *context = nullptr;
    EXPECT_EQ(api.cuDevicePrimaryCtxRetain(&context, device), 0);
    this->device = device;
    cuda::CurrentContext current(api, context);
    EXPECT_EQ(api.cuStreamCreate(&handle, blocking ? 0 : cuda::streamNonBlocking), 0);
  }
  TestStream(const TestStream &) = delete;
  TestStream &operator=(const TestStream &) = delete;
  ~TestStream() {
    const cuda::DriverApi &api = **cuda::driver();
    EXPECT_EQ(api.cuStreamDestroy_v2(handle), 0);
    EXPECT_EQ(api.cuDevicePrimaryCtxRelease_v2(device), 0);
  }
  CUstream_st *get() const { return handle; }

private:
  int device;
  CUstream_st *handle = nullptr;
};

/// Each test begins with a reset stub and must leave no live object.
class CudaTest : public testing::Test {
protected:
  void SetUp() override { stub::reset(); }
  void TearDown() override {
    stub::failCall("", 0, 0);
    stub::destroyGraphs();
    cuda::awaitReleases();
    stub::Live live = stub::live();
    EXPECT_EQ(live, stub::Live()) << live.contexts << " contexts, " << live.modules << " modules, "
                                  << live.allocations << " allocations, " << live.streams
                                  << " streams, " << live.events << " events, " << live.linkStates
                                  << " link states, " << live.pushed << " pushed";
  }
};

} // namespace tesela

#endif // TESELA_TESTS_RUNTIME_CUDA_CUDAPROBLEM_H
