//===- ForwardTest.cpp - Forward attention on the host ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ForwardCore.h"
#include "HostLaunch.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace tesela;
using namespace tesela::test;

namespace {

struct Shape {
  int32_t B, H, Hkv, Sq, Sk;
};

struct Inputs {
  std::vector<float> q, k, v;
};

/// Causal attention (q >= k) in double precision: o and lse, contiguous [B, H, Sq, (D)].
/// `weights[i]` is Σ p|v|, to which o's rounding errors are proportional.
struct Reference {
  std::vector<double> o, lse, weights;
};

Reference reference(const Shape &shape, int d, const Inputs &in, float scale) {
  Reference out;
  for (int b = 0; b < shape.B; ++b)
    for (int h = 0; h < shape.H; ++h)
      for (int q = 0; q < shape.Sq; ++q) {
        int hkv = h / (shape.H / shape.Hkv);
        const float *query = &in.q[((int64_t(b) * shape.H + h) * shape.Sq + q) * d];
        size_t head = (size_t(b) * shape.Hkv + hkv) * shape.Sk * d;
        int keys = std::min(q + 1, shape.Sk);
        std::vector<double> scores(keys);
        double maximum = -HUGE_VAL, sum = 0;
        for (int k = 0; k < keys; ++k) {
          double dot = 0;
          for (int x = 0; x < d; ++x)
            dot += double(query[x]) * in.k[head + size_t(k) * d + x];
          scores[k] = dot * scale;
          maximum = std::max(maximum, scores[k]);
        }
        std::vector<double> row(d), weight(d);
        for (int k = 0; k < keys; ++k) {
          double p = std::exp(scores[k] - maximum);
          sum += p;
          for (int x = 0; x < d; ++x) {
            row[x] += p * in.v[head + size_t(k) * d + x];
            weight[x] += p * std::fabs(in.v[head + size_t(k) * d + x]);
          }
        }
        for (int x = 0; x < d; ++x) {
          out.o.push_back(sum == 0 ? 0 : row[x] / sum);
          out.weights.push_back(sum == 0 ? 0 : weight[x] / sum);
        }
        out.lse.push_back(sum == 0 ? -HUGE_VAL : maximum + std::log(sum));
      }
  return out;
}

/// The last parameter: products of pairs of bf16, by the instruction if this CPU has it.
class Forward : public testing::TestWithParam<std::tuple<ElementType, int, bool>> {};

} // namespace

TEST_P(Forward, AgreesWithDoubles) {
  auto [type, d, pairs] = GetParam();
  auto kernel = HostKernelUnderTest::compile(
      causalForwardCore(type, 64, 64, d, d, pairs ? ", product_pairs = true" : ""));
  ASSERT_TRUE(kernel);
  float scale = 1 / std::sqrt(float(d));
  double unit = type == ElementType::f32 ? 0x1p-24 : type == ElementType::f16 ? 0x1p-11 : 0x1p-8;

  for (const Shape &shape : {Shape{1, 1, 1, 1, 1}, Shape{2, 4, 2, 67, 130}, Shape{1, 2, 1, 200, 77},
                             Shape{1, 2, 2, 3, 0}, Shape{1, 3, 1, 64, 64}}) {
    SCOPED_TRACE(testing::Message() << "Sq " << shape.Sq << ", Sk " << shape.Sk);
    size_t queries = size_t(shape.B) * shape.H * shape.Sq;
    size_t keys = size_t(shape.B) * shape.Hkv * shape.Sk;
    Inputs in{randomValues(type, queries * d, 1), randomValues(type, keys * d, 2),
              randomValues(type, keys * d, 3)};
    std::vector<char> q = encode(type, in.q), k = encode(type, in.k), v = encode(type, in.v);
    std::vector<char> o = encode(type, std::vector<float>(queries * d, NAN));
    std::vector<float> lse(queries, NAN);

    HostArguments arguments;
    arguments.extents = {shape.B, shape.H, shape.Hkv, shape.Sq, shape.Sk};
    std::vector<int64_t> ofQueries{int64_t(shape.H) * shape.Sq * d, int64_t(shape.Sq) * d, d};
    std::vector<int64_t> ofKeys{int64_t(shape.Hkv) * shape.Sk * d, int64_t(shape.Sk) * d, d};
    arguments.tensors = {{"q", {q.data(), ofQueries, {}}},
                         {"k", {k.data(), ofKeys, {}}},
                         {"v", {v.data(), ofKeys, {}}},
                         {"o", {o.data(), ofQueries, {}}},
                         {"lse", {lse.data(), {}, {}}}};
    arguments.floats = {{"scale", scale}};
    kernel->run(arguments);

    Reference expected = reference(shape, d, in, scale);
    std::vector<float> values = decode(type, o);
    double worst = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_FALSE(std::isnan(values[i])) << "element " << i << " of o";
      double limit = (type == ElementType::f32 ? 16 : 4) * unit * expected.weights[i] + 1e-7;
      double error = std::fabs(values[i] - expected.o[i]);
      worst = std::max(worst, error / limit);
      ASSERT_LE(error, limit) << "element " << i << " of o";
    }
    for (size_t i = 0; i < queries; ++i) {
      if (std::isinf(expected.lse[i]))
        ASSERT_EQ(lse[i], -HUGE_VALF) << "row " << i;
      else
        ASSERT_NEAR(lse[i], expected.lse[i], 1e-4) << "row " << i;
    }
    RecordProperty("errorOverLimit" + std::to_string(shape.Sk), std::to_string(worst));
  }
}

static std::string nameOf(const testing::TestParamInfo<Forward::ParamType> &info) {
  return std::string(elementTypeName(std::get<0>(info.param))) + "_" +
         std::to_string(std::get<1>(info.param)) + (std::get<2>(info.param) ? "_pairs" : "");
}

INSTANTIATE_TEST_SUITE_P(Host, Forward,
                         testing::Combine(testing::Values(ElementType::f32, ElementType::f16,
                                                          ElementType::bf16),
                                          testing::Values(40, 64, 72, 128), testing::Values(false)),
                         nameOf);

INSTANTIATE_TEST_SUITE_P(HostPairs, Forward,
                         testing::Combine(testing::Values(ElementType::bf16),
                                          testing::Values(40, 64, 72, 128), testing::Values(true)),
                         nameOf);

// Checks the instruction on every CPU: the code is compiled but not run.
TEST(ForwardPairs, AreOneInstruction) {
  VectorUnit unit{.width = 16, .fma = true, .f16c = true, .registers = 32, .bf16Pairs = true};
  auto has = [&](const std::string &choices, int d, const std::string &bits) {
    std::optional<std::string> text =
        llvmText(causalForwardCore(ElementType::bf16, 64, 64, d, d, choices), unit);
    return text && text->find("@llvm.x86.avx512bf16.dpbf16ps." + bits + "(") != std::string::npos;
  };
  EXPECT_FALSE(has("", 64, "512"));
  EXPECT_TRUE(has(", product_pairs = true", 64, "512"));
  EXPECT_FALSE(has(", product_pairs = true", 64, "256"));
  EXPECT_TRUE(has(", product_pairs = true", 40, "256")) << "O has vectors of 8";
}
