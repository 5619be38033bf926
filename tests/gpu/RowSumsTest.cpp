//===- RowSumsTest.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Row sums that come out of the product with the values (`row_sums = product`), against the rule of
// docs/numerics.md: every reference and number of consumers, every kind of inputs, rows without
// keys, rows that are NaN, heads that share rows.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include <gtest/gtest.h>

#include <iterator>

using namespace tesela;

namespace {

struct SummedVariant {
  const char *name, *text;
  bool hasNaNRows = false;
};

constexpr SummedVariant variants[] = {
    {"full", "mask = true"},
    {"causal", "mask = q >= k"},
    {"window", "mask = q >= k && q - k < 200"},
    // Half of the rows begin with masked blocks, half end with them.
    {"late_rows", "mask = q % 2 == 0 ? k >= 300 : k < 300"},
    {"empty_rows", "mask = q >= k && q % 4 != 1"},
    {"one_key", "mask = q == k"},
    {"minus_infinity", "score = q % 5 == 2 || k % 4 == 1 || k < 130 ? -inf : s"},
    {"nan_rows", "mask = q >= k\n score = k % 97 == 5 && q % 3 == 0 ? inf - inf : s", true},
    {"infinite_rows", "score = k == 201 && q % 3 == 0 ? inf : s", true},
    {"far_bias", "score = s - 20.0 * abs(q - k)"},
    {"flat", "score = 7.0"},
};

constexpr const char *schedules[] = {
    "consumers = 3, reference = recompute",
    "consumers = 3, reference = lazy, turns = true",
    "consumers = 2, reference = recompute, turns = true",
    "consumers = 2, reference = lazy, overlap = false, turns = false",
    "consumers = 2, reference = follow, stages = 1, block_n = 80",
    "consumers = 1, reference = recompute, heads = 8",
    "consumers = 1, reference = follow, persistent = false, output_buffer = false",
};

/// (Sq, Sk): many blocks both ways, more keys than queries, few keys, whole blocks.
constexpr std::pair<int64_t, int64_t> lengths[] = {
    {1000, 1000}, {113, 2050}, {700, 203}, {256, 256}};

/// A sum of so many terms: a tensor core does not round its accumulator as an f32 addition does.
constexpr std::pair<int64_t, int64_t> manyKeys = {64, 200'000};

struct Point {
  SummedVariant variant;
  const char *schedule;
  ElementType type;
  int number; ///< of the schedule
};

std::string nameOf(const Point &point) {
  return std::string(point.variant.name) + "_" + std::string(elementTypeName(point.type)) + "_" +
         std::to_string(point.number);
}

/// Without it, GoogleTest shows the bytes, addresses among them.
void PrintTo(const Point &point, std::ostream *stream) {
  *stream << nameOf(point) << ": " << point.schedule;
}

std::vector<Point> points() {
  std::vector<Point> points;
  for (const SummedVariant &variant : variants)
    for (int number = 0; number < int(std::size(schedules)); ++number)
      for (ElementType type : {ElementType::bf16, ElementType::f16})
        points.push_back({variant, schedules[number], type, number});
  return points;
}

class RowSums : public testing::TestWithParam<Point> {};

TEST_P(RowSums, HoldTheRule) {
  const Point &point = GetParam();
  std::string reason;
  const Context *context = testContext("cuda", reason);
  if (!context)
    GTEST_SKIP() << reason;
  if (context->device().sm != 90)
    GTEST_SKIP() << "products of warpgroups need sm_90";
  KernelOptions options;
  std::string name = point.variant.name;
  options.variantText = "attention " + name + "() {\n " + point.variant.text + "\n}\n";
  options.variantFile = name + ".attn";
  options.inputType = point.type;
  options.headDimQk = options.headDimV = 64;
  options.schedule = std::string(point.schedule) + ", row_sums = product";
  std::optional<Kernel> kernel = compileOrSkip(*context, options, reason);
  if (!kernel)
    GTEST_SKIP() << reason;
  EXPECT_NE(kernel->info().schedule.find("row_sums = product"), std::string::npos);
  for (InputKind inputs : inputKinds()) {
    std::vector<std::pair<int64_t, int64_t>> shapes(std::begin(lengths), std::end(lengths));
    if (name == "full" && inputs == InputKind::normal)
      shapes.push_back(manyKeys);
    for (auto [queries, keys] : shapes) {
      SCOPED_TRACE(std::string(inputKindName(inputs)) + " " + std::to_string(queries) + "x" +
                   std::to_string(keys));
      ForwardCase forward(*context, options, {1, 8, 1, queries, keys, false}, inputs);
      if (point.variant.hasNaNRows)
        forward.checkWithNaNRows(*kernel);
      else
        forward.check(*kernel);
      if (HasFatalFailure())
        return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, RowSums, testing::ValuesIn(points()),
                         [](const auto &info) { return nameOf(info.param); });

} // namespace
