//===- HardTest.cpp -------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Cases that normal numbers and plain variants do not reach: maxima that keep rising or jump, rows
// whose first blocks are completely masked, scores of -inf, +inf and NaN, large biases. In bf16 and
// f16, and on the host also f32. On a GPU f16 has the tighter tolerance.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

/// A variant of this file, or the library's variant if `text` is empty.
struct HardVariant {
  const char *name;
  const char *text = "";
  bool hasNaNRows = false;
};

/// These see every kind of inputs.
constexpr HardVariant maskVariants[] = {
    {"full"},
    {"causal"},
    {"sliding_window"},
    // A block runs although some rows drop all of it: half of the rows begin with masked blocks,
    // the other half end with them.
    {"late_rows", "mask = q % 2 == 0 ? k >= 300 : k < 300"},
};

/// These have special scores or masks, so normal inputs and jumps are enough.
constexpr HardVariant scoreVariants[] = {
    {"late_keys", "mask = k >= 300"},
    {"empty_rows", "mask = q >= k && q % 4 != 1"},
    {"one_key", "mask = q == k"},
    {"sieve", "mask = (q + k) % 3 == 0 && abs(q - k) < 200"},
    {"minus_infinity", "score = q % 5 == 2 || k % 4 == 1 || k < 130 ? -inf : s"},
    {"nan_rows", "mask = q >= k\n score = k % 97 == 5 && q % 3 == 0 ? inf - inf : s", true},
    {"infinite_rows", "score = k == 201 && q % 3 == 0 ? inf : s", true},
    {"masked_nan", "mask = q >= k\n score = k > q ? inf - inf : s"},
    {"masked_infinity", "mask = k % 2 == 0\n score = k % 2 == 0 ? s : inf"},
    {"row_bias", "score = s + 3000.0 * (q % 5 - 2)"},
    {"key_bias", "mask = q >= k\n score = s + 0.5 * k"},
    {"far_bias", "score = s - 20.0 * abs(q - k)"},
    {"flat", "score = 7.0"},
    {"sinks", "sink = 2.0 * h - 3"},
    {"far_sinks", "mask = q >= k\n sink = q % 2 == 0 ? 260.0 : -260.0"},
    {"sinks_of_empty_rows",
     "mask = q >= k && q % 4 != 1\n score = s * 0.5\n sink = q % 8 == 1 ? -inf : 0.1 * q"},
    {"largest_sinks",
     "mask = q % 5 != 1\n sink = q % 3 == 0 ? 3.4e38 : q % 3 == 1 ? -3.4e38 : -2.4e38"},
    {"nan_sinks",
     "mask = q % 7 != 1\n sink = q % 6 == 0 ? inf - inf : q % 6 == 1 ? inf : q % 3 == 1 ? 2 : 0.5",
     true},
    // All blocks except the last are near f32's end, where the product with log2(e) is -inf.
    {"end_of_range", "score = k + 1 < Sk ? -3.4e38 : s"},
};

/// (Sq, Sk): many blocks in both directions, more keys than queries, few keys.
constexpr std::pair<int64_t, int64_t> lengths[] = {{1000, 1000}, {113, 2050}, {700, 203}};

struct HardPoint {
  std::string device;
  HardVariant variant;
  ElementType type;
  HeadDims headDims;
  std::vector<InputKind> inputs;
  std::string target; ///< empty: the device's own target
};

std::string nameOf(const HardPoint &point) {
  return std::string(point.variant.name) + "_" + std::string(elementTypeName(point.type)) + "_" +
         nameOf(point.headDims) + (point.target.empty() ? "" : "_" + point.target);
}

std::string pointName(const testing::TestParamInfo<HardPoint> &info) { return nameOf(info.param); }

/// Without this function GoogleTest prints the bytes, which contain addresses.
void PrintTo(const HardPoint &point, std::ostream *stream) { *stream << nameOf(point); }

/// The `kinds` for which results of `type` can satisfy the rule: a sum in f32 rounds large scores
/// too often for f32's own tolerance (docs/numerics.md).
std::vector<InputKind> heldKinds(ElementType type, std::vector<InputKind> kinds) {
  if (type == ElementType::f32)
    std::erase_if(
        kinds, [](InputKind kind) { return kind != InputKind::normal && kind != InputKind::wide; });
  return kinds;
}

/// Every variant of this file with all kinds of inputs for it.
std::vector<HardPoint> points(const std::string &device, const std::vector<ElementType> &types,
                              const std::vector<HeadDims> &headDims,
                              const std::string &target = "") {
  std::vector<HardPoint> points;
  for (ElementType type : types)
    for (const HardVariant &variant : maskVariants)
      for (HeadDims dims : headDims)
        points.push_back({device, variant, type, dims, heldKinds(type, inputKinds()), target});
  // Scores do not depend on the type or the head dimension: f16 gets the first dimension, others
  // the second.
  for (ElementType type : types)
    for (const HardVariant &variant : scoreVariants)
      points.push_back({device, variant, type,
                        type == ElementType::f16 ? headDims.front() : headDims[1],
                        heldKinds(type, {InputKind::normal, InputKind::jumping}), target});
  return points;
}

std::vector<HardPoint> gpuPoints() {
  std::vector<HardPoint> all = points("cuda", {ElementType::bf16, ElementType::f16},
                                      {{64, 64}, {128, 128}, {192, 128}, {256, 256}});
  // mma.sync with copies by threads, which newer GPUs run, too.
  std::vector<HardPoint> older =
      points("cuda", {ElementType::f16}, {{64, 64}, {128, 128}}, "sm_80");
  all.insert(all.end(), older.begin(), older.end());
  return all;
}

class Hard : public testing::TestWithParam<HardPoint> {};

TEST_P(Hard, HoldsTheRule) {
  const HardPoint &point = GetParam();
  std::string reason;
  const Context *context = testContext(point.device, reason);
  if (!context)
    GTEST_SKIP() << reason;
  KernelOptions options;
  std::string name = point.variant.name, body = point.variant.text;
  options.variantText =
      body.empty() ? variantText(name) : "attention " + name + "() {\n " + body + "\n}\n";
  options.variantFile = name + ".attn";
  options.inputType = point.type;
  options.headDimQk = point.headDims.qk;
  options.headDimV = point.headDims.v;
  options.target = point.target;
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  for (InputKind inputs : point.inputs)
    for (auto [queries, keys] : lengths) {
      SCOPED_TRACE(std::string(inputKindName(inputs)) + " " + std::to_string(queries) + "x" +
                   std::to_string(keys));
      ForwardCase forward(*context, options, {1, 2, 1, queries, keys, false}, inputs);
      if (point.variant.hasNaNRows)
        forward.checkWithNaNRows(*kernel);
      else
        forward.check(*kernel);
      if (HasFatalFailure())
        return;
    }
}

INSTANTIATE_TEST_SUITE_P(Host, Hard,
                         testing::ValuesIn(points("host", {ElementType::f16, ElementType::f32},
                                                  {{64, 64}, {128, 128}})),
                         pointName);
INSTANTIATE_TEST_SUITE_P(Gpu, Hard, testing::ValuesIn(gpuPoints()), pointName);

} // namespace
