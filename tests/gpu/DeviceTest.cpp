//===- DeviceTest.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Tests beside the grid: one kernel for all values of launch arguments, edge cases, streams, the
// cache, wrong arguments.
//
//===----------------------------------------------------------------------===//
#include "../TestContext.h"
#include "ForwardCase.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

using namespace tesela;

namespace {

class DeviceTest : public testing::TestWithParam<const char *> {
protected:
  const Context *context = nullptr;

  void SetUp() override {
    std::string reason;
    context = testContext(GetParam(), reason);
    if (!context)
      GTEST_SKIP() << reason;
  }
  bool gpu() const { return context->device().kind == Device::Kind::cuda; }

  static KernelOptions options(const std::string &variant) {
    KernelOptions options;
    options.variantText = variantText(variant);
    options.variantFile = variant + ".attn";
    options.headDimQk = options.headDimV = 64;
    return options;
  }
  Kernel kernel(const KernelOptions &options) {
    Result<Kernel> compiled = context->compile(options);
    EXPECT_TRUE(compiled.ok()) << (compiled ? "" : compiled.error().message());
    return *compiled;
  }
};

/// Tests of what only a GPU has.
class GpuTest : public DeviceTest {};

TEST_P(DeviceTest, OneKernelServesAllLaunchArguments) {
  // A text of its own, which no other test has compiled.
  KernelOptions own = options("sliding_window");
  own.variantText += "// of this test alone\n";
  int64_t before = context->compileCount();
  for (ForwardShape shape :
       {ForwardShape{1, 2, 2, 64, 64, false}, ForwardShape{3, 2, 1, 17, 90, true},
        ForwardShape{2, 8, 2, 130, 5, false}}) {
    SCOPED_TRACE(shape.Sq);
    ForwardCase(*context, own, shape).check(kernel(own));
  }
  EXPECT_EQ(context->compileCount(), before + 1);
}

TEST_P(DeviceTest, TheScaleIsALaunchArgument) {
  KernelOptions causal = options("causal");
  Kernel compiled = kernel(causal);
  ForwardCase forward(*context, causal, {1, 2, 2, 100, 100, false});
  for (double scale : {0.01, 1.0}) {
    LaunchArguments arguments = forward.deviceArguments();
    arguments.scale = scale;
    ASSERT_TRUE(forward.o.poison().ok() && forward.lse.poison().ok());
    Status launched = compiled.launch(arguments);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    ASSERT_TRUE(context->synchronize().ok());
    ASSERT_TRUE(forward.o.download().ok() && forward.lse.download().ok());
    LaunchArguments host = forward.hostArguments();
    host.scale = scale;
    Result<Reference> reference = hostReference(causal, host);
    ASSERT_TRUE(reference.ok());
    Result<Comparison> comparison = compare(*reference, forward.o.host(), forward.lse.host());
    ASSERT_TRUE(comparison.ok());
    EXPECT_TRUE(comparison->passed) << comparison->failure;
  }
}

TEST_P(DeviceTest, ACaptureWithoutElementsReadsZero) {
  KernelOptions plain = options("full"), reading = plain;
  reading.variantText = "attention reading(t: f32[N], u: i32[N, Sk]) {\n"
                        "  score = s + t[q] + u[q, k]\n}\n";
  ForwardCase forward(*context, plain, {1, 2, 2, 70, 90, false});
  LaunchArguments arguments = forward.deviceArguments();
  arguments.captures = {{"t", Tensor::contiguous(nullptr, ElementType::f32, {0})},
                        {"u", Tensor::contiguous(nullptr, ElementType::i32, {0, 90})}};
  ASSERT_TRUE(forward.o.poison().ok() && forward.lse.poison().ok());
  Status launched = kernel(reading).launch(arguments);
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  ASSERT_TRUE(context->synchronize().ok());
  ASSERT_TRUE(forward.o.download().ok() && forward.lse.download().ok());
  Result<Reference> reference = hostReference(plain, forward.hostArguments());
  ASSERT_TRUE(reference.ok());
  Result<Comparison> comparison = compare(*reference, forward.o.host(), forward.lse.host());
  ASSERT_TRUE(comparison.ok());
  EXPECT_TRUE(comparison->passed) << comparison->failure;
}

TEST_P(DeviceTest, ACapturesExtentIsALaunchArgument) {
  KernelOptions counted = options("full"), window = options("sliding_window");
  counted.variantText = "attention counted(at: i32[2*M+1]) { mask = q >= k && q - k < M }";
  Kernel compiled = kernel(counted);
  std::vector<int32_t> none(1001);
  Result<Buffer> buffer = context->allocate(none.size() * sizeof none[0]);
  ASSERT_TRUE(buffer.ok());
  ForwardCase forward(*context, window, {1, 2, 2, 300, 300, false});
  for (int64_t m : {0, 1, 70, 500}) {
    SCOPED_TRACE(m);
    LaunchArguments arguments = forward.deviceArguments(), host = forward.hostArguments();
    arguments.scalars.clear();
    arguments.captures = {
        {"at", Tensor::contiguous(buffer->data(), ElementType::i32, {2 * m + 1})}};
    host.scalars = {{"window", double(m)}};
    ASSERT_TRUE(forward.o.poison().ok() && forward.lse.poison().ok());
    Status launched = compiled.launch(arguments);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    ASSERT_TRUE(context->synchronize().ok());
    ASSERT_TRUE(forward.o.download().ok() && forward.lse.download().ok());
    Result<Reference> reference = hostReference(window, host);
    ASSERT_TRUE(reference.ok());
    Result<Comparison> comparison = compare(*reference, forward.o.host(), forward.lse.host());
    ASSERT_TRUE(comparison.ok());
    EXPECT_TRUE(comparison->passed) << comparison->failure;
  }
  LaunchArguments even = forward.deviceArguments();
  even.scalars.clear();
  even.captures = {{"at", Tensor::contiguous(buffer->data(), ElementType::i32, {8})}};
  EXPECT_EQ(compiled.launch(even).code(), Code::invalidArgument);
}

TEST_P(DeviceTest, NoKeysGiveZeroAndMinusInfinity) {
  KernelOptions full = options("full");
  ForwardCase(*context, full, {2, 2, 2, 70, 0, false}).check(kernel(full));
}

TEST_P(DeviceTest, NoQueriesAndNoBatchAreNothingToDo) {
  KernelOptions full = options("full");
  for (ForwardShape shape :
       {ForwardShape{2, 2, 2, 0, 70, false}, ForwardShape{0, 2, 2, 70, 70, false}}) {
    ForwardCase forward(*context, full, shape);
    Status launched = kernel(full).launch(forward.deviceArguments());
    EXPECT_TRUE(launched.ok()) << launched.error().message();
    EXPECT_TRUE(context->synchronize().ok());
  }
}

TEST_P(DeviceTest, KeyHeadsMayBeRepeatedByAStrideOfZero) {
  KernelOptions full = options("full");
  ForwardCase forward(*context, full, {1, 4, 4, 50, 60, false});
  LaunchArguments device = forward.deviceArguments(), host = forward.hostArguments();
  for (Tensor *tensor : {&device.k, &device.v, &host.k, &host.v})
    tensor->strides[1] = 0;
  ASSERT_TRUE(kernel(full).launch(device).ok());
  ASSERT_TRUE(context->synchronize().ok());
  ASSERT_TRUE(forward.o.download().ok() && forward.lse.download().ok());
  Result<Reference> reference = hostReference(full, host);
  ASSERT_TRUE(reference.ok());
  Result<Comparison> comparison = compare(*reference, forward.o.host(), forward.lse.host());
  ASSERT_TRUE(comparison.ok());
  EXPECT_TRUE(comparison->passed) << comparison->failure;
}

TEST_P(DeviceTest, WrongArgumentsAreRefusedBeforeTheLaunch) {
  KernelOptions full = options("full");
  Kernel compiled = kernel(full);
  ForwardCase forward(*context, full, {1, 2, 2, 50, 60, false});
  LaunchArguments arguments = forward.deviceArguments();
  arguments.k.extents[3] = 32;
  EXPECT_EQ(compiled.launch(arguments).code(), Code::invalidArgument);
  arguments = forward.deviceArguments();
  arguments.q.data = static_cast<char *>(arguments.q.data) + (gpu() ? 8 : 1);
  EXPECT_EQ(compiled.launch(arguments).code(), Code::invalidArgument);
  arguments = forward.deviceArguments();
  arguments.scale = NAN;
  EXPECT_EQ(compiled.launch(arguments).code(), Code::invalidArgument);
}

TEST_P(DeviceTest, UnsupportedOptionsAreSentences) {
  KernelOptions odd = options("full");
  odd.headDimQk = odd.headDimV = 7;
  Result<Kernel> refused = context->compile(odd);
  ASSERT_FALSE(refused.ok());
  EXPECT_FALSE(refused.error().isDefect()) << refused.error().message();
  EXPECT_NE(refused.error().message().find("7"), std::string::npos) << refused.error().message();
  if (!gpu())
    return;
  KernelOptions single = options("full");
  single.inputType = ElementType::f32;
  EXPECT_EQ(context->compile(single).code(), Code::unsupported);
}

TEST_P(DeviceTest, TheDiskKeepsKernels) {
  char folder[] = "/tmp/tesela-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  ContextOptions contextOptions = testContextOptions(GetParam());
  contextOptions.diskCache = true;
  contextOptions.cacheFolder = folder;
  KernelOptions causal = options("causal");
  for (auto origin : {KernelInfo::Origin::compiled, KernelInfo::Origin::diskCache}) {
    Result<Context> fresh = Context::create(contextOptions);
    ASSERT_TRUE(fresh.ok());
    Result<Kernel> compiled = fresh->compile(causal);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message();
    EXPECT_EQ(compiled->info().origin, origin);
    ForwardCase(*fresh, causal, {1, 2, 2, 100, 100, false}).check(*compiled);
  }
  std::filesystem::remove_all(folder);
}

TEST_P(DeviceTest, FirstLaunchesAreVerified) {
  ContextOptions contextOptions = testContextOptions(GetParam());
  std::vector<Event> verified;
  contextOptions.events = [&](const Event &event) {
    if (event.kind == Event::Kind::verified)
      verified.push_back(event);
  };
  Result<Context> fresh = Context::create(contextOptions);
  ASSERT_TRUE(fresh.ok());
  for (const char *variant : {"documents_causal", "softcap_window"}) {
    SCOPED_TRACE(variant);
    verified.clear();
    KernelOptions chosen = options(variant);
    Result<Kernel> compiled = fresh->compile(chosen);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message();
    ForwardCase forward(*fresh, chosen, {2, 4, 2, 300, 300, true});
    forward.check(*compiled);
    forward.check(*compiled);
    ASSERT_EQ(verified.size(), 1u);
    EXPECT_EQ(verified[0].variant, variant);
    EXPECT_EQ(verified[0].text, "1024 of 2400 rows");
    EXPECT_FALSE(verified[0].failure);
  }
}

TEST_P(DeviceTest, AWrongFirstLaunchFails) {
  Result<Context> fresh = Context::create(testContextOptions(GetParam()));
  ASSERT_TRUE(fresh.ok());
  KernelOptions causal = options("causal");
  Result<Kernel> compiled = fresh->compile(causal);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message();
  ForwardCase forward(*fresh, causal, {1, 2, 2, 100, 100, false});
  LaunchArguments arguments = forward.deviceArguments();
  arguments.lse.data = arguments.o.data; // one result overwrites the other
  Status launched = compiled->launch(arguments);
  EXPECT_EQ(launched.code(), Code::defect);
  EXPECT_NE(launched.error().message().find("the first launch of 'causal'"), std::string::npos)
      << launched.error().message();
  EXPECT_EQ(compiled->launch(forward.deviceArguments()).code(), Code::defect);
  EXPECT_TRUE(fresh->synchronize().ok());
}

TEST_P(DeviceTest, TheKernelIsDescribed) {
  KernelInfo info = kernel(options("causal")).info();
  EXPECT_EQ(info.variantName, "causal");
  EXPECT_EQ(info.target, context->device().target);
  EXPECT_FALSE(info.schedule.empty());
  EXPECT_FALSE(info.stages.empty());
  EXPECT_EQ(info.registers.has_value(), gpu());
  if (gpu()) {
    EXPECT_GT(*info.registers, 0);
    EXPECT_GT(*info.threads, 0);
    EXPECT_FALSE(info.assembler.empty());
  }
}

TEST_P(GpuTest, TheOracleAgreesWithTheInterpreter) {
  for (const std::string &variant : variantNames())
    for (ElementType type : {ElementType::bf16, ElementType::f16})
      for (ForwardShape shape :
           {ForwardShape{2, 4, 2, 33, 47, true}, ForwardShape{1, 2, 1, 65, 20, false},
            ForwardShape{1, 1, 1, 1, 300, false}}) {
        SCOPED_TRACE(variant + " " + std::string(elementTypeName(type)));
        KernelOptions chosen = options(variant);
        chosen.inputType = type;
        ForwardCase forward(*context, chosen, shape);
        Result<Reference> oracle = forward.reference();
        ASSERT_TRUE(oracle.ok()) << oracle.error().message();
        Result<Reference> interpreted = hostReference(chosen, forward.hostArguments());
        ASSERT_TRUE(interpreted.ok());
        double largest = 0;
        for (size_t i = 0; i < oracle->ref.size(); ++i) {
          ASSERT_NEAR(oracle->ref[i], interpreted->ref[i], 1e-9);
          ASSERT_NEAR(oracle->magnitude[i], interpreted->magnitude[i], 1e-9);
          // A slightly different sum may round s to a neighbouring number.
          largest = std::max(largest, std::fabs(oracle->base[i] - interpreted->base[i]));
        }
        EXPECT_LT(largest, 2e-2);
        EXPECT_NEAR(oracle->maxScore, interpreted->maxScore, 1e-9 * interpreted->maxScore);
        for (size_t i = 0; i < oracle->termNorm.size(); ++i)
          ASSERT_NEAR(oracle->termNorm[i], interpreted->termNorm[i], 1e-9);
        for (size_t i = 0; i < oracle->lse.size(); ++i)
          if (oracle->lse[i] != interpreted->lse[i]) { // -inf minus -inf is NaN
            ASSERT_NEAR(oracle->lse[i], interpreted->lse[i], 1e-9);
          }
      }
}

TEST_P(GpuTest, AnotherStreamIsWaitedFor) {
  void *perThread = reinterpret_cast<void *>(2); // CU_STREAM_PER_THREAD
  KernelOptions causal = options("causal");
  ForwardCase forward(*context, causal, {1, 2, 2, 100, 100, false});
  Status launched = kernel(causal).launch(forward.deviceArguments(), perThread);
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  ASSERT_TRUE(context->synchronize(perThread).ok());
  ASSERT_TRUE(forward.o.download().ok() && forward.lse.download().ok());
  Result<Reference> reference = forward.reference();
  ASSERT_TRUE(reference.ok());
  EXPECT_TRUE(compare(*reference, forward.o.host(), forward.lse.host())->passed);
}

TEST_P(DeviceTest, TimesAreMeasured) {
  KernelOptions causal = options("causal");
  Kernel compiled = kernel(causal);
  ForwardCase forward(*context, causal, {1, 2, 2, 100, 100, false});
  LaunchArguments arguments = forward.deviceArguments();
  Result<std::vector<double>> times =
      context->measure([&] { return compiled.launch(arguments); }, 1, 3);
  ASSERT_TRUE(times.ok()) << times.error().message();
  for (double milliseconds : *times)
    EXPECT_GT(milliseconds, 0);
}

INSTANTIATE_TEST_SUITE_P(Host, DeviceTest, testing::Values("host"));
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceTest, testing::Values("cuda"));
INSTANTIATE_TEST_SUITE_P(Gpu, GpuTest, testing::Values("cuda"));

} // namespace
