//===- LaunchTest.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "../TestContext.h"
#include "Problem.h"

#include "events/ProfilerRange.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <thread>

using namespace tesela;

namespace {

class LaunchTest : public testing::Test {
protected:
  Context context = makeContext();
  Problem problem;

  static Context makeContext() {
    ContextOptions options = testContextOptions();
    options.threads = 2;
    Result<Context> created = Context::create(options);
    EXPECT_TRUE(created.ok());
    return *created;
  }

  Kernel kernel() {
    Result<Kernel> compiled = context.compile(problem.options());
    EXPECT_TRUE(compiled.ok()) << (compiled ? "" : compiled.error().message());
    return *compiled;
  }

  void expectRight() {
    Status launched = kernel().launch(problem.arguments);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    Result<Reference> reference = hostReference(problem.options(), problem.arguments, 2);
    ASSERT_TRUE(reference.ok()) << reference.error().message();
    Result<Comparison> comparison = compare(*reference, problem.arguments.o, problem.arguments.lse);
    ASSERT_TRUE(comparison.ok()) << comparison.error().message();
    EXPECT_TRUE(comparison->passed) << comparison->failure;
  }
};

TEST_F(LaunchTest, ResultsAreRight) {
  problem.fill();
  expectRight();
}

TEST_F(LaunchTest, TheOtherLayout) {
  problem.bshd = true;
  problem.fill();
  expectRight();
}

TEST_F(LaunchTest, OneKernelServesAllExtentsAndValues) {
  for (int64_t batch : {1, 3})
    for (int64_t kvHeads : {1, 4})
      for (auto [queries, keys] : {std::pair<int64_t, int64_t>{1, 1}, {65, 2}, {7, 129}}) {
        problem.B = batch;
        problem.Hkv = kvHeads;
        problem.Sq = queries;
        problem.Sk = keys;
        problem.fill();
        problem.arguments.scalars = {{"window", double(queries / 2 + 1)}};
        problem.arguments.scale = 0.3;
        expectRight();
      }
  EXPECT_EQ(context.compileCount(), 1);
}

TEST_F(LaunchTest, ARowWithoutKeys) {
  problem.fill();
  problem.arguments.scalars = {{"window", 0}};
  expectRight();
  EXPECT_EQ(problem.o[0], 0);
  EXPECT_EQ(problem.lse[0], -HUGE_VALF);
}

TEST_F(LaunchTest, NoKeysAtAll) {
  problem.Sk = 0;
  problem.fill();
  expectRight();
  EXPECT_EQ(problem.o.back(), 0);
  EXPECT_EQ(problem.lse.back(), -HUGE_VALF);
}

TEST_F(LaunchTest, NoQueriesOrNoBatchLaunchNothing) {
  for (bool batch : {true, false}) {
    Problem empty;
    (batch ? empty.B : empty.Sq) = 0;
    empty.fill();
    Status launched = kernel().launch(empty.arguments);
    EXPECT_TRUE(launched.ok()) << launched.error().message();
  }
}

TEST_F(LaunchTest, HeadsMayBeRepeatedByAStrideOfZero) {
  problem.fill();
  problem.arguments.k.strides[1] = 0;
  problem.arguments.v.strides[1] = 0;
  expectRight();
}

TEST_F(LaunchTest, SeveralThreadsLaunchAtOnce) {
  Kernel shared = kernel();
  std::vector<Problem> problems(4);
  std::vector<std::thread> threads;
  for (Problem &each : problems)
    threads.emplace_back([&] {
      each.fill();
      for (int i = 0; i < 5; ++i)
        EXPECT_TRUE(shared.launch(each.arguments).ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(problems[0].o, problems[3].o);
}

TEST_F(LaunchTest, TheHostHasNoStreams) {
  problem.fill();
  int stream;
  Status launched = kernel().launch(problem.arguments, &stream);
  ASSERT_FALSE(launched.ok());
  EXPECT_NE(launched.error().message().find("null stream"), std::string::npos);
}

TEST_F(LaunchTest, OptionsThatCannotBe) {
  KernelOptions options = problem.options();
  options.inputType = ElementType::i32;
  EXPECT_EQ(context.compile(options).code(), Code::invalidArgument);
  options = problem.options();
  options.headDimV = 0;
  EXPECT_EQ(context.compile(options).code(), Code::invalidArgument);
  options = problem.options();
  options.target = "sm_80";
  EXPECT_EQ(context.compile(options).code(), Code::unsupported); // f32 on a GPU
  options.inputType = ElementType::bf16;
  Result<Kernel> kernel = context.compile(options);
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message().find("does not run on"), std::string::npos);
  options.target = "sm_7";
  EXPECT_EQ(context.compile(options).code(), Code::invalidArgument);
}

TEST_F(LaunchTest, DevicesThatCannotBe) {
  for (const char *name : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:12345678901234567890"}) {
    ContextOptions options;
    options.device = name;
    Result<Context> created = Context::create(options);
    ASSERT_FALSE(created.ok()) << name;
    EXPECT_EQ(created.code(), Code::invalidArgument);
    EXPECT_NE(created.error().message().find("auto, host, cuda"), std::string::npos);
  }
}

TEST_F(LaunchTest, StagesByName) {
  KernelOptions options = problem.options();
  EXPECT_EQ(*emitStage(options, "attn"), "stage 0 for host");
  Result<std::string> unknown = emitStage(options, "sass");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message().find("attn, tile, pipe"), std::string::npos);
  EXPECT_EQ(emitStage(options, "cubin").code(), Code::invalidArgument);
}

TEST_F(LaunchTest, CopiesStayWithinTheirBuffer) {
  Result<Buffer> buffer = context.allocate(16);
  ASSERT_TRUE(buffer.ok());
  char bytes[32] = {};
  EXPECT_TRUE(context.copyToDevice(*buffer, bytes, 16).ok());
  EXPECT_FALSE(context.copyToDevice(*buffer, bytes, 17).ok());
  EXPECT_TRUE(context.fill(*buffer, 0xff).ok());
  EXPECT_TRUE(context.copyToHost(bytes, *buffer, 16).ok());
  EXPECT_EQ(bytes[15], char(0xff));
  EXPECT_EQ(bytes[16], 0);
  EXPECT_FALSE(context.copyToHost(bytes, *buffer, 17).ok());
  Result<Buffer> none = context.allocate(0);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(context.copyToDevice(*none, bytes, 0).ok());
  Result<Buffer> tooMuch = context.allocate(std::numeric_limits<size_t>::max());
  ASSERT_FALSE(tooMuch.ok());
  EXPECT_EQ(tooMuch.code(), Code::outOfMemory);
}

TEST(DropoutScalarsTest, AreThoseThatEveryKernelWithDropoutTakes) {
  std::vector<std::pair<std::string, double>> found;
  for (const ScalarArgument &each : dropoutScalars(0.25, 3 + (5ull << 32), 7 + (9ull << 32)))
    found.emplace_back(each.name, each.value);
  // The first positions are missing, because kernels of older bundles do not know them.
  EXPECT_EQ(found, (std::vector<std::pair<std::string, double>>{{"dropout.p", 0.25},
                                                                {"dropout.seed", 3},
                                                                {"dropout.seed_high", 5},
                                                                {"dropout.offset", 7},
                                                                {"dropout.offset_high", 9}}));
}

TEST_F(LaunchTest, MeasureCallsAsOftenAsItSays) {
  int calls = 0;
  Result<std::vector<double>> times =
      context.measure([&] { return ++calls, Status::success(); }, 2, 5);
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(times->size(), 5u);
  EXPECT_EQ(calls, 7);
}

TEST_F(LaunchTest, WithoutAProfilerNothingListens) {
  if (std::getenv("NVTX_INJECTION64_PATH"))
    GTEST_SKIP() << "a profiler runs this test";
  EXPECT_FALSE(ProfilerRange::isHeard());
}

} // namespace
