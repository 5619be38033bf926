//===- PackedTest.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Query heads that share the rows of a tile, on the host and on a GPU, checked by the rule of
// docs/numerics.md: every way to arrange them, with groups that fill their tiles and groups that do
// not, and with masks and scores that depend on the head of a row.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

struct PackedVariant {
  const char *name, *parameters, *body;
};

constexpr PackedVariant variants[] = {
    {"full", "", "mask = true"},
    {"causal_bottom_right", "", "mask = q + Sk - Sq >= k"},
    {"head_mask", "z: i32[H]", "mask = k >= z[h] && k + h >= q"},
    {"even_heads", "", "mask = h % 2 == 0 ? q + Sk - Sq >= k : k % 3 == 0 || hkv == 1"},
    {"stride_of_head", "z: i32[H]",
     "mask = (q - k) % 3 == h % 3 || k % (z[0] % 5 + 2) == (q + h) % (z[0] % 5 + 2)"},
    {"alibi", "slope: f32[H]", "mask = q + Sk - Sq >= k\n score = s + slope[h] * (k - q)"},
    {"head_score", "a: f32[H]", "score = s * a[h] + 0.01 * (h - 3 * q) - 0.1 * hkv"},
    {"relative_bias", "t: f32[H, 2*Sk]", "score = s + t[h, q - k + Sk]"},
    {"bias", "t: f32[B, H, Sq, Sk]", "score = s + t[b, h, q, k]"},
    {"rows_and_columns", "a: f32[Sq], c: f32[Sk]", "score = s + a[q] * c[k]"},
    {"sink", "z: f32[B, H]", "mask = q + Sk - Sq >= k\n sink = 3 * z[b, h] - q"},
};

/// H, Hkv, Sq, Sk, with 3, 5, 12, 8, 1, 20 and 64 query heads for each kv head.
constexpr ForwardShape shapes[] = {
    {2, 6, 2, 3, 70},   {1, 5, 1, 1, 513},   {1, 12, 1, 17, 300}, {2, 16, 2, 4, 700},
    {1, 3, 3, 33, 129}, {1, 40, 2, 2, 1000}, {1, 64, 1, 1, 64},   {1, 6, 2, 130, 257},
};

/// What makes heads share rows: the schedule, or a small expected number of queries.
struct Packing {
  const char *name, *schedule;
  int64_t expectedQueries;
};

constexpr Packing hostPackings[] = {
    {"two_heads", "block_m = 16, heads = 2", 0},
    {"heads_fill_a_tile", "block_m = 32, heads = 32", 0},
    {"one_query", "", 1},
    {"four_queries", "", 4},
    {"32_queries", "", 32},
};

constexpr Packing gpuPackings[] = {
    {"one_query", "", 1},
    {"four_queries", "", 4},
    {"32_queries", "", 32},
    {"two_warpgroups", "consumers = 2, heads = 64", 0},
    {"three_warpgroups", "consumers = 3, heads = 16", 0},
    {"no_output_buffer", "consumers = 1, heads = 8, output_buffer = false", 0},
    {"not_persistent", "consumers = 1, heads = 8, persistent = false", 0},
    {"no_roles", "consumers = 0, block_m = 64, heads = 8", 0},
    {"no_roles_and_strips", "consumers = 0, block_m = 128, heads = 32", 0},
};

struct Point {
  std::string device;
  PackedVariant variant;
  Packing packing;
  ElementType type;
  HeadDims headDims;
};

std::string nameOf(const Point &point) {
  return std::string(point.variant.name) + "_" + point.packing.name + "_" +
         std::string(elementTypeName(point.type)) + "_" + nameOf(point.headDims);
}

/// Without this function GoogleTest prints the bytes, which contain addresses.
void PrintTo(const Point &point, std::ostream *stream) { *stream << nameOf(point); }

std::string pointName(const testing::TestParamInfo<Point> &info) { return nameOf(info.param); }

class Packed : public testing::TestWithParam<Point> {};

TEST_P(Packed, HoldsTheRule) {
  const Point &point = GetParam();
  std::string reason;
  const Context *context = testContext(point.device, reason);
  if (!context)
    GTEST_SKIP() << reason;
  std::string schedule = point.packing.schedule;
  bool isWide = point.headDims.qk > 128;
  bool needsRoles =
      isWide || (!schedule.empty() && schedule.find("consumers = 0") == std::string::npos);
  if (point.device == "cuda" && needsRoles && context->device().sm != 90)
    GTEST_SKIP() << "warpgroups with roles need sm_90";
  if (isWide && schedule.find("consumers = 0") != std::string::npos)
    GTEST_SKIP() << "wide heads need roles";
  if (isWide && schedule.find("consumers = 3") != std::string::npos)
    GTEST_SKIP() << "three consumers hold no wide heads";
  KernelOptions options;
  options.variantText = "attention " + std::string(point.variant.name) + "(" +
                        point.variant.parameters + ") {\n " + point.variant.body + "\n}";
  options.variantFile = std::string(point.variant.name) + ".attn";
  options.inputType = point.type;
  options.headDimQk = point.headDims.qk;
  options.headDimV = point.headDims.v;
  options.schedule = schedule;
  options.expectedQueries = point.packing.expectedQueries;
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  EXPECT_NE(kernel->info().schedule.find("heads = "), std::string::npos) << kernel->info().schedule;
  bool bshd = false;
  for (ForwardShape shape : shapes) {
    shape.bshd = bshd = !bshd;
    SCOPED_TRACE(testing::Message() << shape.H << " heads over " << shape.Hkv << ", " << shape.Sq
                                    << "x" << shape.Sk << (bshd ? " bshd" : " bhsd"));
    ForwardCase(*context, options, shape).check(*kernel);
    if (HasFatalFailure())
      return;
  }
}

template <size_t count>
std::vector<Point> points(const std::string &device, const Packing (&packings)[count],
                          const std::vector<ElementType> &types,
                          const std::vector<HeadDims> &headDims) {
  std::vector<Point> result;
  for (const PackedVariant &variant : variants)
    for (const Packing &packing : packings)
      for (ElementType type : types)
        for (HeadDims dims : headDims)
          result.push_back({device, variant, packing, type, dims});
  return result;
}

INSTANTIATE_TEST_SUITE_P(Host, Packed,
                         testing::ValuesIn(points("host", hostPackings, {ElementType::f32},
                                                  {{64, 64}})),
                         pointName);
INSTANTIATE_TEST_SUITE_P(Gpu, Packed,
                         testing::ValuesIn(points("cuda", gpuPackings, {ElementType::bf16},
                                                  {{64, 64}, {128, 128}, {192, 128}, {256, 256}})),
                         pointName);

} // namespace
