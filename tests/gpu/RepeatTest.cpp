//===- RepeatTest.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel that reads data before they are there, or overwrites data that are still read, sometimes
// gives other bits. One launch is checked; a thousand further launches must give the same bits. The
// device compares the results, because copying them would take longer than the launches.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"
#include "PtxKernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

using namespace tesela;

namespace {

/// Adds to [counter] how many of the `words` 32-bit words at a and b differ.
constexpr const char *countDifferences = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry count_differences(.param .u64 a, .param .u64 b, .param .u64 words,
                                  .param .u64 counter) {
  .reg .pred %p<3>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [words];
  ld.param.u64 %rd4, [counter];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  cvta.to.global.u64 %rd4, %rd4;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %nctaid.x;
  mov.u32 %r4, %tid.x;
  mul.wide.u32 %rd5, %r1, %r2;
  cvt.u64.u32 %rd6, %r4;
  add.u64 %rd5, %rd5, %rd6;      // this thread's word
  mul.wide.u32 %rd7, %r3, %r2;   // words of one round of the grid
comparing:
  setp.ge.u64 %p1, %rd5, %rd3;
  @%p1 ret;
  shl.b64 %rd8, %rd5, 2;
  add.u64 %rd9, %rd1, %rd8;
  add.u64 %rd10, %rd2, %rd8;
  ld.global.u32 %r5, [%rd9];
  ld.global.u32 %r6, [%rd10];
  setp.ne.u32 %p2, %r5, %r6;
  @%p2 red.global.add.u32 [%rd4], 1;
  add.u64 %rd5, %rd5, %rd7;
  bra.uni comparing;
}
)";

struct RepeatPoint {
  const char *variant;
  HeadDims headDims;
};

std::string nameOf(const RepeatPoint &point) {
  return std::string(point.variant) + "_" + nameOf(point.headDims);
}

std::string pointName(const testing::TestParamInfo<RepeatPoint> &info) {
  return nameOf(info.param);
}

/// Without this function GoogleTest prints the bytes, which contain addresses.
void PrintTo(const RepeatPoint &point, std::ostream *stream) { *stream << nameOf(point); }

class Repeats : public testing::TestWithParam<RepeatPoint> {};

/// One counter for each launch.
constexpr int repeats = 1000;

/// Queues a comparison of `actual` with `expected` on the default stream.
Status compareOnDevice(const PtxKernel &kernel, const TestTensor &actual,
                       const TestTensor &expected, void *counter) {
  const void *a = actual.device().data, *b = expected.device().data;
  uint64_t words = actual.device().spanBytes() / 4;
  constexpr unsigned blocks = 1024, threads = 256; // enough blocks for every multiprocessor
  return kernel.launch(blocks, threads, {&a, &b, &words, &counter});
}

TestTensor copyOnDevice(const Context &context, TestTensor &tensor) {
  TestTensor copy(context, tensor.host());
  std::memcpy(copy.host().data, tensor.host().data, tensor.host().spanBytes());
  EXPECT_TRUE(copy.upload().ok());
  return copy;
}

TEST_P(Repeats, GiveTheSameBits) {
  const RepeatPoint &point = GetParam();
  std::string reason;
  const Context *context = testContext("cuda", reason);
  if (!context)
    GTEST_SKIP() << reason;
  KernelOptions options;
  options.variantText = variantText(point.variant);
  options.variantFile = std::string(point.variant) + ".attn";
  options.headDimQk = point.headDims.qk;
  options.headDimV = point.headDims.v;
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  Result<PtxKernel> comparison = PtxKernel::load(countDifferences, "count_differences");
  ASSERT_TRUE(comparison.ok()) << comparison.error().message();

  // More work items than multiprocessors, and lengths that are not multiples of a block.
  ForwardCase forward(*context, options, {5, 12, 12, 1000, 1000, false});
  forward.check(*kernel);
  if (HasFailure())
    return;
  TestTensor o = copyOnDevice(*context, forward.o), lse = copyOnDevice(*context, forward.lse);

  TestTensor counters(*context, Tensor::contiguous(nullptr, ElementType::i32, {repeats + 1}));
  std::memset(counters.host().data, 0, counters.host().spanBytes());
  ASSERT_TRUE(counters.upload().ok());
  auto *counter = static_cast<int32_t *>(counters.device().data);
  LaunchArguments arguments = forward.deviceArguments();
  for (int i = 0; i < repeats; ++i, ++counter) {
    ASSERT_TRUE(forward.o.poison().ok() && forward.lse.poison().ok());
    ASSERT_TRUE(kernel->launch(arguments).ok());
    ASSERT_TRUE(compareOnDevice(*comparison, forward.o, o, counter).ok());
    ASSERT_TRUE(compareOnDevice(*comparison, forward.lse, lse, counter).ok());
  }
  // The comparison must be able to see a difference: the last counter must count all words of o.
  ASSERT_TRUE(forward.o.poison().ok());
  ASSERT_TRUE(compareOnDevice(*comparison, forward.o, o, counter).ok());

  Status done = context->synchronize();
  ASSERT_TRUE(done.ok()) << done.error().message();
  ASSERT_TRUE(counters.download().ok());
  const auto *found = static_cast<const int32_t *>(counters.host().data);
  auto differing = std::count_if(found, found + repeats, [](int32_t count) { return count != 0; });
  const int32_t *first =
      std::find_if(found, found + repeats, [](int32_t count) { return count != 0; });
  EXPECT_EQ(differing, 0) << differing << " of " << repeats << " launches differ from the first; "
                          << "launch " << first - found << " in " << *first << " words";
  EXPECT_EQ(found[repeats], int64_t(o.device().spanBytes() / 4));
}

INSTANTIATE_TEST_SUITE_P(Gpu, Repeats,
                         testing::ValuesIn(std::vector<RepeatPoint>{{"full", {64, 64}},
                                                                    {"causal", {64, 64}},
                                                                    {"full", {128, 128}},
                                                                    {"causal", {128, 128}},
                                                                    {"full", {192, 128}},
                                                                    {"causal", {192, 128}},
                                                                    {"full", {256, 256}},
                                                                    {"causal", {256, 256}}}),
                         pointName);

} // namespace
