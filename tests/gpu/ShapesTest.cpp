//===- ShapesTest.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Every kind of head dimension, which tiles pad on chip. Gaps of NaN between the rows show a kernel
// that reads beyond a row. MHA, GQA and MQA, and offsets beyond 2^31 elements. Checked by the rule
// of docs/numerics.md.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

struct Point {
  std::string device;
  HeadDims headDims;
  ElementType type;
  std::string target; ///< empty: the device's own target
};

std::string nameOf(const Point &point) {
  return nameOf(point.headDims) + "_" + std::string(elementTypeName(point.type)) +
         (point.target.empty() ? "" : "_" + point.target);
}

std::string pointName(const testing::TestParamInfo<Point> &info) { return nameOf(info.param); }

/// Without this function GoogleTest prints the bytes, which contain addresses.
void PrintTo(const Point &point, std::ostream *stream) { *stream << nameOf(point); }

// Less than a step of a matrix instruction, odd numbers of steps, half a panel of 64 columns, a
// last panel with one chunk of columns, the widest; different dimensions, both ways.
constexpr HeadDims dims[] = {{8, 8},     {32, 32},   {40, 40},   {64, 64},   {72, 72},
                             {80, 80},   {96, 96},   {104, 104}, {136, 136}, {192, 192},
                             {256, 256}, {192, 128}, {64, 256},  {40, 72},   {200, 24}};

std::vector<Point> points(const std::string &device, const std::vector<ElementType> &types,
                          const std::string &target = "") {
  std::vector<Point> result;
  for (HeadDims each : dims)
    for (ElementType type : types)
      result.push_back({device, each, type, target});
  return result;
}

std::vector<Point> gpuPoints() {
  std::vector<Point> all = points("cuda", {ElementType::bf16, ElementType::f16});
  std::vector<Point> older = points("cuda", {ElementType::bf16, ElementType::f16}, "sm_80");
  all.insert(all.end(), older.begin(), older.end());
  return all;
}

class Shapes : public testing::TestWithParam<Point> {};

TEST_P(Shapes, HoldTheRule) {
  const Point &point = GetParam();
  std::string reason;
  const Context *context = testContext(point.device, reason);
  if (!context)
    GTEST_SKIP() << reason;
  for (const char *variant : {"full", "alibi"}) {
    KernelOptions options;
    options.variantText = variantText(variant);
    options.variantFile = std::string(variant) + ".attn";
    options.inputType = point.type;
    options.headDimQk = point.headDims.qk;
    options.headDimV = point.headDims.v;
    options.target = point.target;
    Result<Kernel> kernel = context->compile(options);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message();
    for (int64_t sharing : {1, 2, 4})
      for (auto [queries, keys] : {std::pair<int64_t, int64_t>(113, 203), {1, 1}, {300, 257}})
        for (int64_t gap : {0, 8}) {
          ForwardShape shape{.B = 2, .H = 4, .Hkv = 4 / sharing, .Sq = queries, .Sk = keys};
          shape.bshd = sharing == 2;
          shape.gap = gap;
          SCOPED_TRACE(std::string(variant) + " " + std::to_string(queries) + "x" +
                       std::to_string(keys) + ", " + std::to_string(sharing) +
                       " heads share keys, gap " + std::to_string(gap));
          ForwardCase(*context, options, shape).check(*kernel);
          if (HasFatalFailure())
            return;
        }
  }
}

INSTANTIATE_TEST_SUITE_P(Host, Shapes,
                         testing::ValuesIn(points("host", {ElementType::f32, ElementType::bf16})),
                         pointName);
INSTANTIATE_TEST_SUITE_P(Gpu, Shapes, testing::ValuesIn(gpuPoints()), pointName);

/// Batches that are more than 2^31 elements apart.
class FarApart : public testing::TestWithParam<std::string> {};

TEST_P(FarApart, OffsetsHave64Bits) {
  std::string reason;
  const Context *context = testContext("cuda", reason);
  if (!context)
    GTEST_SKIP() << reason;
  KernelOptions options;
  options.variantText = variantText("causal");
  options.variantFile = "causal.attn";
  options.inputType = ElementType::bf16;
  options.headDimQk = options.headDimV = 64;
  options.target = GetParam();
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  ForwardShape shape{.B = 2, .H = 2, .Hkv = 2, .Sq = 100, .Sk = 150};
  shape.batchGap = (int64_t(1) << 31) + 64;
  ForwardCase(*context, options, shape).check(*kernel);
}

INSTANTIATE_TEST_SUITE_P(Gpu, FarApart, testing::Values("", "sm_80"), [](const auto &info) {
  return info.param.empty() ? std::string("own") : info.param;
});

} // namespace
