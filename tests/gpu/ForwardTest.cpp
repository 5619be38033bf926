//===- ForwardTest.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Every variant on every shape of the grid, on the host and on a GPU, checked by the rule of
// docs/numerics.md. A kernel is compiled once for all shapes. Some variants run with every type and
// head dimension (VariantGrid.h).
//
//===----------------------------------------------------------------------===//
#include "../VariantGrid.h"
#include "ForwardCase.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

/// (Sq, Sk), after FlashAttention's own tests: short, long, not multiples of blocks, different in
/// both ways.
constexpr std::pair<int64_t, int64_t> lengths[] = {
    {1, 1},       {64, 128},    {128, 192},   {256, 256}, {239, 1},   {799, 3},   {113, 203},
    {128, 217},   {113, 211},   {108, 256},   {256, 512}, {384, 256}, {640, 128}, {512, 256},
    {1024, 1024}, {1023, 1024}, {1024, 1023}, {3, 3},     {1, 513}};

struct GridPoint {
  std::string device, variant;
  ElementType type;
  HeadDims headDims;
  int64_t sharing; ///< query heads for each kv head; 0: all
};

std::string nameOf(const GridPoint &point) {
  return point.variant + "_" + std::string(elementTypeName(point.type)) + "_" +
         nameOf(point.headDims) +
         (point.sharing == 0   ? "_mqa"
          : point.sharing == 1 ? "_mha"
                               : "_gqa");
}

std::string pointName(const testing::TestParamInfo<GridPoint> &info) { return nameOf(info.param); }

/// Without this function GoogleTest prints the bytes, which contain addresses.
void PrintTo(const GridPoint &point, std::ostream *stream) { *stream << nameOf(point); }

const std::vector<HeadDims> allHeadDims = {{32, 32},   {40, 40},   {64, 64},   {72, 72},
                                           {96, 96},   {128, 128}, {192, 192}, {256, 256},
                                           {192, 128}, {64, 256},  {40, 72}};

std::vector<GridPoint> grid(const std::string &device, const std::vector<ElementType> &types,
                            const std::vector<HeadDims> &headDims) {
  std::vector<GridPoint> points;
  for (const std::string &variant : variantNames()) {
    if (!hasWholeGrid(variant)) {
      points.push_back({device, variant, types[0], headDims[0], 1});
      points.push_back({device, variant, types[1], headDims[1], 2});
      continue;
    }
    for (ElementType type : types)
      for (HeadDims dims : isWholeGrid() ? allHeadDims : headDims)
        for (int64_t sharing : {1, 2, 0})
          if (sharing > 0 || isWholeGrid())
            points.push_back({device, variant, type, dims, sharing});
  }
  return points;
}

class Forward : public testing::TestWithParam<GridPoint> {};

TEST_P(Forward, HoldsTheRule) {
  const GridPoint &point = GetParam();
  std::string reason;
  const Context *context = testContext(point.device, reason);
  if (!context)
    GTEST_SKIP() << reason;
  KernelOptions options;
  options.variantText = variantText(point.variant);
  options.variantFile = point.variant + ".attn";
  options.inputType = point.type;
  options.headDimQk = point.headDims.qk;
  options.headDimV = point.headDims.v;

  bool gpu = point.device == "cuda";
  std::vector<std::pair<int64_t, int64_t>> shapes(std::begin(lengths), std::end(lengths));
  // The interpreter takes most of the suite's time, so only the whole grid's variants get long
  // shapes.
  if (!gpu && !hasWholeGrid(point.variant))
    std::erase_if(shapes, [](auto shape) { return shape.first * shape.second > 512 * 512; });
  if (gpu)
    shapes.push_back({4096, 4096});
  // Fewer heads for wide heads, because the reference takes most of the suite's time.
  bool many = gpu && point.headDims.qk <= 128;
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  int64_t compilations = context->compileCount();
  bool bshd = false;
  for (auto [queries, keys] : shapes) {
    ForwardShape shape;
    shape.B = many && queries < 4096 ? 2 : 1;
    shape.H = many && queries < 4096 ? 4 : 2;
    shape.Hkv = point.sharing == 0 ? 1 : shape.H / point.sharing;
    shape.Sq = queries;
    shape.Sk = keys;
    shape.bshd = bshd = !bshd;
    SCOPED_TRACE(std::to_string(queries) + "x" + std::to_string(keys) + (bshd ? " bshd" : " bhsd"));
    // The second request must find the kernel in memory.
    Result<Kernel> again = context->compile(options);
    ASSERT_TRUE(again.ok()) << again.error().message();
    ForwardCase(*context, options, shape).check(*again);
    if (HasFatalFailure())
      return;
  }
  EXPECT_EQ(context->compileCount(), compilations) << "what compile() made serves all shapes";
}

INSTANTIATE_TEST_SUITE_P(
    Host, Forward,
    testing::ValuesIn(grid("host", {ElementType::f32, ElementType::bf16, ElementType::f16},
                           {{64, 64}, {128, 128}})),
    pointName);
INSTANTIATE_TEST_SUITE_P(Gpu, Forward,
                         testing::ValuesIn(grid("cuda", {ElementType::bf16, ElementType::f16},
                                                {{64, 64}, {128, 128}, {192, 128}, {256, 256}})),
                         pointName);

} // namespace
