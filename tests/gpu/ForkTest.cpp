//===- ForkTest.cpp - A device in a child of fork() -----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "../runtime/ChildProcess.h"
#include "ForwardCase.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

class ForkTest : public testing::TestWithParam<const char *> {
protected:
  const Context *context = nullptr;

  void SetUp() override {
    std::string reason;
    context = testContext(GetParam(), reason);
    if (!context)
      GTEST_SKIP() << reason;
  }
  /// `comment` makes the text unique, so that it is compiled and not found in a cache.
  static KernelOptions options(const std::string &comment) {
    KernelOptions options;
    options.variantText = variantText("causal") + "// " + comment + "\n";
    options.headDimQk = options.headDimV = 64;
    return options;
  }
};

// On the host a child process can compute. CUDA does not allow this on a GPU; the child gets an
// error.
TEST_P(ForkTest, AChildWorksOrIsTold) {
  bool onHost = context->device().kind == Device::Kind::host;
  Result<Kernel> kernel = context->compile(options("of the parent"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  ForwardCase problem(*context, options("of the parent"), {1, 2, 2, 130, 130});
  problem.check(*kernel);
  std::string said = inChild([&]() -> std::string {
    std::string wrong;
    auto expect = [&](const char *what, const Status &status) {
      bool isTold = !status && status.code() == Code::unsupported &&
                    status.error().message().find("was forked") != std::string::npos;
      if (onHost ? !status.ok() : !isTold)
        wrong += std::string(what) + ": " + (status ? "done" : status.error().message()) + "; ";
    };
    auto statusOf = [](const auto &result) {
      return result ? Status::success() : Status(result.error());
    };
    expect("launch", kernel->launch(problem.deviceArguments()));
    expect("compile", statusOf(context->compile(options("of the child"))));
    Result<Preparation> preparation = context->prepare(options("prepared by the child"));
    if (preparation)
      expect("prepare", statusOf(preparation->get()));
    else
      wrong += preparation.error().message();
    expect("allocate", statusOf(context->allocate(64)));
    ContextOptions own;
    own.device = GetParam();
    own.diskCache = false;
    expect("create", statusOf(Context::create(own)));
    return wrong;
  });
  EXPECT_EQ(said, "");
  problem.check(*kernel); // the parent can continue
}

INSTANTIATE_TEST_SUITE_P(Host, ForkTest, testing::Values("host"));
INSTANTIATE_TEST_SUITE_P(Gpu, ForkTest, testing::Values("cuda"));

} // namespace
