//===- GradientReferenceTest.cpp - The check of gradients -----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Compares hostGradientReference() with finite differences of a loss over hostReference()'s
// results, which use no derivative. Tests compareGradient() on results of the host's kernels and on
// wrong results.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include "check/Elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

using namespace tesela;

namespace {

constexpr int B = 2, H = 4, Hkv = 2, Sq = 9, Sk = 13, Dqk = 16, Dv = 8;

struct VariantCase {
  const char *name, *text;
  double dropout = 0; ///< the probability
};
void PrintTo(const VariantCase &variant, std::ostream *stream) { *stream << variant.name; }

/// Tensors of f32 in host memory.
struct Case {
  KernelOptions options;
  LaunchArguments arguments;
  std::vector<std::vector<float>> memory;

  explicit Case(const VariantCase &variant) {
    options.variantText = variant.text;
    if (variant.dropout > 0) {
      options.dropout = true;
      arguments.scalars = dropoutScalars(variant.dropout, 11, 12);
    }
    options.inputType = ElementType::f32;
    options.headDimQk = Dqk;
    options.headDimV = Dv;
    memory.reserve(16);
    arguments.q = add(H, Sq, Dqk), arguments.k = add(Hkv, Sk, Dqk), arguments.v = add(Hkv, Sk, Dv);
    arguments.o = add(H, Sq, Dv), arguments.lse = rows();
    arguments.tensors = {{"do", add(H, Sq, Dv)},
                         {"dlse", rows()},
                         {"dq", add(H, Sq, Dqk)},
                         {"dk", add(Hkv, Sk, Dqk)},
                         {"dv", add(Hkv, Sk, Dv)}};
    if (options.variantText.find("slope") != std::string::npos) {
      memory.push_back({0.5f, -0.25f, 0.125f, 1});
      arguments.captures = {
          {"slope", Tensor::contiguous(memory.back().data(), ElementType::f32, {H})}};
    }
    if (options.variantText.find("const") != std::string::npos)
      options.constants = {{"reach", 5}};
  }

  Tensor add(int heads, int length, int dim) {
    std::vector<float> &values = memory.emplace_back(size_t(B * heads * length * dim));
    Tensor tensor = Tensor::bhsd(values.data(), ElementType::f32, B, heads, length, dim);
    fillNormal(tensor, memory.size());
    return tensor;
  }
  Tensor rows() {
    std::vector<float> &values = memory.emplace_back(size_t(B * H * Sq));
    Tensor tensor = Tensor::contiguous(values.data(), ElementType::f32, {B, H, Sq});
    fillNormal(tensor, memory.size());
    return tensor;
  }
  const Tensor &named(const std::string &name) const {
    for (const NamedTensor &each : arguments.tensors)
      if (each.name == name)
        return each.tensor;
    return arguments.o;
  }
  static float *numbers(const Tensor &tensor) { return static_cast<float *>(tensor.data); }

  /// Σ dO ∘ O + Σ dlse ∘ lse, without rows that have no keys.
  double loss() const {
    LaunchArguments forward = arguments;
    forward.tensors.clear();
    Result<Reference> reference = hostReference(options, forward);
    EXPECT_TRUE(reference.ok()) << (reference ? "" : reference.error().message());
    double sum = 0;
    for (size_t i = 0; reference && i < reference->ref.size(); ++i)
      sum += reference->ref[i] * numbers(named("do"))[i];
    for (size_t row = 0; reference && row < reference->lse.size(); ++row)
      if (std::isfinite(reference->lse[row]))
        sum += reference->lse[row] * numbers(named("dlse"))[row];
    return sum;
  }
};

class GradientReferenceTest : public testing::TestWithParam<VariantCase> {};

TEST_P(GradientReferenceTest, IsTheSlopeOfALoss) {
  Case test(GetParam());
  Result<GradientReference> reference = hostGradientReference(test.options, test.arguments);
  ASSERT_TRUE(reference.ok()) << reference.error().message();
  for (auto [tensor, gradient] :
       {std::pair(&test.arguments.q, &reference->dq), std::pair(&test.arguments.k, &reference->dk),
        std::pair(&test.arguments.v, &reference->dv)}) {
    float *values = Case::numbers(*tensor);
    ASSERT_EQ(int64_t(gradient->ref.size()), tensor->elementCount());
    double largest = 0;
    for (int64_t i = 0; i < tensor->elementCount(); i += 7) {
      const float known = values[i];
      auto slopeOver = [&](float step) {
        values[i] = known + step;
        double above = test.loss(), rise = double(values[i]) - known;
        values[i] = known - step;
        double below = test.loss(), fall = double(known) - values[i];
        values[i] = known;
        return (above - below) / (rise + fall);
      };
      // Richardson extrapolation: the quadratic error terms cancel.
      double slope = (4 * slopeOver(0x1p-9f) - slopeOver(0x1p-8f)) / 3;
      EXPECT_NEAR(gradient->ref[size_t(i)], slope, 2e-6 * (1 + std::fabs(slope)))
          << "element " << i;
      EXPECT_LE(std::fabs(gradient->ref[size_t(i)]), 1.000001 * gradient->magnitude[size_t(i)]);
      largest = std::max(largest, std::fabs(slope));
    }
    EXPECT_GT(largest, 0.1); // the test would prove nothing if all derivatives were small
  }
}

TEST_P(GradientReferenceTest, PassesWhatKernelsGiveAndNothingElse) {
  Case test(GetParam());
  std::string reason;
  const Context *context = testContext("host", reason);
  ASSERT_TRUE(context) << reason;
  LaunchArguments forward = test.arguments;
  forward.tensors.clear();
  Result<Kernel> attention = context->compile(test.options);
  ASSERT_TRUE(attention.ok()) << attention.error().message();
  ASSERT_TRUE(attention->launch(forward).ok());
  KernelOptions options = test.options;
  options.algorithm = "backward";
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  Status launched = kernel->launch(test.arguments);
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  Result<GradientReference> reference = hostGradientReference(options, test.arguments);
  ASSERT_TRUE(reference.ok()) << reference.error().message();
  for (auto [name, of] : {std::pair("dq", &reference->dq), std::pair("dk", &reference->dk),
                          std::pair("dv", &reference->dv)}) {
    const Tensor &gradient = test.named(name);
    auto compare = [&] { return compareGradient(*of, gradient, name); };
    Result<Comparison> right = compare();
    ASSERT_TRUE(right.ok()) << right.error().message();
    EXPECT_TRUE(right->passed) << name << ": " << right->failure;
    // Wrong results: one wrong row; one NaN; a value where there is no pair.
    float *values = Case::numbers(gradient);
    size_t middle = of->ref.size() / 2;
    const float known = values[middle];
    values[middle] = known + 0.01f;
    Result<Comparison> wrong = compare();
    ASSERT_TRUE(wrong.ok());
    EXPECT_FALSE(wrong->passed);
    EXPECT_NE(wrong->failure.find(name), std::string::npos) << wrong->failure;
    values[middle] = std::numeric_limits<float>::quiet_NaN();
    Result<Comparison> isNaN = compare();
    ASSERT_TRUE(isNaN.ok());
    EXPECT_FALSE(isNaN->passed);
    EXPECT_EQ(isNaN->nanCount, 1);
    values[middle] = known;
    for (size_t row = 0; row < of->lse.size(); ++row)
      if (std::isinf(of->lse[row])) {
        values[row * size_t(of->Dv)] = 1e-30f;
        Result<Comparison> some = compare();
        ASSERT_TRUE(some.ok());
        EXPECT_NE(some->failure.find("a row without pairs"), std::string::npos) << some->failure;
        break;
      }
  }
}

TEST_P(GradientReferenceTest, WhatDoesNotFitIsNamed) {
  Case test(GetParam());
  auto message = [&](const LaunchArguments &arguments) {
    Result<GradientReference> reference = hostGradientReference(test.options, arguments);
    return reference ? std::string() : reference.error().message();
  };
  LaunchArguments without = test.arguments;
  without.tensors.erase(without.tensors.begin()); // do
  EXPECT_NE(message(without).find("'do' is missing"), std::string::npos) << message(without);
  LaunchArguments shorter = test.arguments;
  shorter.tensors[1].tensor.extents[2] = Sq - 1; // dlse
  EXPECT_NE(message(shorter).find("dlse is f32[2, 4, 8]"), std::string::npos) << message(shorter);
  Result<GradientReference> reference = hostGradientReference(test.options, test.arguments);
  ASSERT_TRUE(reference.ok());
  Result<Comparison> other = compareGradient(reference->dq, test.named("dk"), "dq");
  EXPECT_EQ(other.code(), Code::invalidArgument);
}

INSTANTIATE_TEST_SUITE_P(
    Host, GradientReferenceTest,
    testing::Values(
        VariantCase{"full", "attention full() {}"},
        VariantCase{"late", "attention late() { mask = q >= k + 3 }"},
        VariantCase{"dropout", "attention late() { mask = q >= k + 3 }", 0.3},
        VariantCase{"softcap", "attention cap(cap: f32 = 1.5) { score = cap * tanh(s / cap) }"},
        VariantCase{"alibi", "attention alibi(slope: f32[H]) { mask = q + 4 >= k\n score = s + "
                             "slope[h] * (k - q) }"},
        VariantCase{"sink", "attention sink(slope: f32[H]) { score = 0.5 * s * s + slope[h] * s\n "
                            "sink = slope[h] }"},
        VariantCase{"constant",
                    "attention near(const reach: i32 = 2) { mask = abs(q - k) < reach }"}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
