//===- CudaForkTest.cpp - GPUs in a child of fork() -----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ChildProcess.h"
#include "CudaProblem.h"

using namespace tesela;

namespace {

class CudaForkTest : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!canForkWithThreads)
      GTEST_SKIP() << "the thread sanitizer allows no threads after a fork";
  }
};

TEST_F(CudaForkTest, AChildIsToldAndTheDriverIsLeftAlone) {
  Result<Context> context = cudaContext();
  std::optional<Kernel> kernel = *context->compile(cudaKernelOptions());
  std::optional<CudaProblem> problem = CudaProblem::create(*context).value();
  TestStream stream;
  ASSERT_TRUE(kernel->launch(problem->arguments, stream.get()).ok());
  std::string said = inChild([&]() -> std::string {
    std::string wrong;
    auto expect = [&](const char *what, const Status &status) {
      bool isTold = !status && status.code() == Code::unsupported &&
                    status.error().message().find("was forked") != std::string::npos;
      if (!isTold)
        wrong += std::string(what) + ": " + (status ? "done" : status.error().message()) + "; ";
    };
    auto status = [](const auto &result) {
      return result ? Status::success() : Status(result.error());
    };
    expect("launch", kernel->launch(problem->arguments, stream.get()));
    expect("allocate", status(context->allocate(64)));
    expect("synchronize", context->synchronize());
    KernelOptions other = cudaKernelOptions();
    other.headDimV = 128;
    expect("compile", status(context->compile(other)));
    for (const char *device : {"auto", "cuda", "cuda:1"}) {
      ContextOptions options;
      options.device = device;
      options.diskCache = false;
      expect(device, status(Context::create(options)));
    }
    expect("devices", status(cudaDevices()));
    // Objects that are destroyed here must not call a driver that does not know them.
    int unloads = stub::callsOf("cuModuleUnload"), frees = stub::callsOf("cuMemFree_v2"),
        releases = stub::callsOf("cuDevicePrimaryCtxRelease_v2");
    problem.reset();
    kernel.reset();
    context = Error(Code::cancelled, "it goes");
    if (stub::callsOf("cuModuleUnload") != unloads || stub::callsOf("cuMemFree_v2") != frees ||
        stub::callsOf("cuDevicePrimaryCtxRelease_v2") != releases)
      wrong += "the driver was called; ";
    ContextOptions host;
    host.device = "host";
    host.diskCache = false;
    if (Result<Context> created = Context::create(host); !created)
      wrong += created.error().message();
    return wrong;
  });
  EXPECT_EQ(said, "");
  EXPECT_TRUE(kernel->launch(problem->arguments, stream.get()).ok()) << "the parent goes on";
}

} // namespace
