//===- ScoreTest.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Scores of every form that the compiler decomposes, on the host and on a GPU, checked by the rule
// of docs/numerics.md: linear ones, those of positions, quotients, tables read inside and outside
// of their extents, and scores that must not be decomposed.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

struct ScoreText {
  const char *name, *parameters, *body;
};

constexpr ScoreText texts[] = {
    {"half", "", "score = s * 0.5"},
    {"negated", "", "score = -s"},
    {"number", "", "score = 3.0"},
    {"weighted", "a: f32[H]", "score = 1 - s * a[h]"},
    {"divided_head", "", "score = s + 0.1 * (h / 2 + Sk % 3)"},
    {"masked_head", "", "score = s + (h == 0 ? -inf : 0)"},
    {"masked_by_score", "", "score = k > q ? -inf : s"},
    {"distance", "slope: f32[H]", "score = s - slope[h] * abs(q - k)"},
    {"both_ways", "slope: f32[H]", "score = slope[h] * (k - q) + s * 3 - 2"},
    {"multiples", "", "score = s + 0.001 * (2 * k - 3 * q)"},
    {"wrapping", "", "let n = 2147483600\n score = s + 1e-9 * (k - q + n)"},
    {"square", "", "score = 0.001 * (k - q) * (k - q) + s"},
    {"rows_and_columns", "a: f32[Sq], c: f32[Sk]", "score = s + a[q] * c[k] + a[q] - c[k]"},
    {"softcap", "cap: f32", "score = cap * tanh(s / cap)"},
    {"negative_softcap", "", "let cap = -3.0\n score = cap * tanh(s / cap)"},
    {"no_softcap", "", "mask = q >= k\n score = 0.0 * tanh(s)"},
    {"nan_softcap", "a: f32[H]", "let cap = h == 0 ? inf - inf : a[h]\n score = cap * tanh(s)"},
    {"exact_softcap", "cap: f32", "exact score = cap * tanh(s / cap)"},
    {"softcapped_alibi", "slope: f32[H]", "score = 20 * tanh((s + slope[h] * (k - q)) / 20)"},
    {"two_tanh", "", "score = 5 * tanh(s) + 3 * tanh(s / 2)"},
    {"quotient", "", "score = s / (1.0 + abs(q - k))"},
    {"relative_bias", "t: f32[H, 2*Sk]", "score = s + t[h, q - k + Sk]"},
    {"clamped_bias", "t: f32[H, 16]", "score = s + t[h, k - q]"},
    {"bias", "t: f32[B, H, Sq, Sk]", "mask = q >= k\n score = s + t[b, h, q, k]"},
    {"transposed_bias", "t: f32[Sk, Sq]", "score = s * t[k, q]"},
    {"buckets", "t: f32[16]", "score = s + t[min(int(log(abs(q - k) + 1.0) * 4), 15)]"},
    {"half_bias", "t: f16[H, Sk], r: bf16[Sq]", "score = s + 0.25 * t[h, k] - r[q]"},
    {"half_table", "t: bf16[H, 2*Sk]", "score = s + t[h, q - k + Sk]"},
    {"allowed", "on: bool[Sq, Sk]", "mask = on[q, k]"},
    {"allowed_keys", "on: bool[B, Sk], off: bool[Sq]",
     "mask = on[b, k] && !off[q] || k == q\n score = s + (on[b, k - 1] ? 0.5 : 0.0)"},
    {"half_mask", "t: f16[Sk], r: bf16[Sq]", "mask = t[k] > r[q] - 0.5"},
    {"allowed_or_empty", "on: bool[Sk-1, Sk]", "mask = on[q, k] || k == q"},
    {"sink", "z: f32[H]", "mask = q >= k\n sink = z[h]"},
    {"sink_of_parameter", "z: f32", "mask = q >= k\n sink = z"},
    {"sink_of_all", "z: bf16[B, H], n: i32",
     "mask = q >= k + n\n score = s * 2\n sink = z[b, hkv] * 30 - 2 * q % 7 + Sk % 3"},
    {"any", "g: i32[4]", "mask = q >= k && (q - k < 16 || any(i < 4: g[i] == k))"},
    {"all", "n: i32", "mask = all(i < n / 8: (q - i) % 64 != k % 61) || q == k"},
    {"nested", "g: i32[4]",
     "mask = any(i < 4: all(j < 4: j >= i || g[j] > k - i) && (q + i) % 3 == 0) || q == k"},
    {"sum", "a: f32[4, Sk]",
     "mask = sum(i < 3: (q - k) * (i + 1)) > 0 || q == k\n"
     " score = s + 0.1 * sum(i < 4: a[i, k] * a[i, q])"},
    {"bound_extents", "a: f32[H, N], z: f32[M]",
     "mask = q >= k || k % N == 0\n"
     " score = s * N / 20 + a[h, N - 1 - k % N] - 0.1 * sum(i < M: z[i] * (i < k ? 1 : M))\n"
     " sink = z[M / 2] + 0.01 * N"},
    {"sum_of_index", "", "mask = sum(i < 3: i) + k < q + 4\n score = s + 0.1 * sum(i < H: i)"},
    {"uniform_reduction", "t: i32[8]",
     "mask = q - k < sum(i < 8: t[i]) / 4 && q >= k\n"
     " score = s + (any(i < 8: t[i] > h) ? 0.25 : 0.5)"},
    {"no_rounds", "",
     "mask = all(i < Sk - Sk: k == i) && !any(i < -3: true)\n score = s + sum(i < 0: 1)"},
    {"read_mask", "id: i32[B, Sk]", "mask = id[b, q] / 8 == id[b, k] / 8\n score = s + 0.01 * k"},
};

struct Point {
  std::string device;
  ScoreText text;
  ElementType type;
  int headDim;
};

std::vector<Point> points(const std::string &device, const std::vector<ElementType> &types,
                          const std::vector<int> &headDims) {
  std::vector<Point> result;
  for (const ScoreText &text : texts)
    for (ElementType type : types)
      for (int headDim : headDims)
        result.push_back({device, text, type, headDim});
  return result;
}

std::string nameOf(const Point &point) {
  return std::string(point.text.name) + "_" + std::string(elementTypeName(point.type)) + "_d" +
         std::to_string(point.headDim);
}

/// Without this function GoogleTest prints the bytes, which contain addresses.
void PrintTo(const Point &point, std::ostream *stream) { *stream << nameOf(point); }

class Score : public testing::TestWithParam<Point> {};

TEST_P(Score, HoldsTheRule) {
  const Point &point = GetParam();
  KernelOptions options;
  options.variantText = "attention " + std::string(point.text.name) + "(" + point.text.parameters +
                        ") {\n " + point.text.body + "\n}";
  options.variantFile = std::string(point.text.name) + ".attn";
  options.inputType = point.type;
  options.headDimQk = options.headDimV = point.headDim;
  // Blocks inside a table, blocks across its ends, and a last block with few rows.
  checkLengths(point.device, options, {{113, 203}, {512, 640}, {1, 1}});
}

std::string pointName(const testing::TestParamInfo<Point> &info) { return nameOf(info.param); }

INSTANTIATE_TEST_SUITE_P(Host, Score,
                         testing::ValuesIn(points("host", {ElementType::f32, ElementType::bf16},
                                                  {64})),
                         pointName);
INSTANTIATE_TEST_SUITE_P(Gpu, Score,
                         testing::ValuesIn(points("cuda", {ElementType::bf16, ElementType::f16},
                                                  {64, 128})),
                         pointName);

} // namespace
