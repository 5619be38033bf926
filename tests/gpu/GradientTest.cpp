//===- GradientTest.cpp - Gradients, and split keys, by the public API ----===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/backward.mlir and forward_split.mlir with combine.mlir: compiled by name, launched with
// tensors by name, through the pipeline of all kernels, against formulas in double precision.
// tests/targets/host holds the gradients to the rule; here it is the summaries of captured tensors,
// the plan of three launches and its workspace that are new.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

using namespace tesela;

namespace {

constexpr int B = 2, H = 4, Hkv = 2, Sq = 150, Sk = 201, D = 48;

struct Pair {
  int h, q, k;
};

struct Attention {
  const char *name, *text;
  std::function<bool(const Pair &, const std::vector<int32_t> &documents)> keeps;
  std::function<double(const Pair &, double s)> score, slope;
};

bool all(const Pair &, const std::vector<int32_t> &) { return true; }
double same(const Pair &, double s) { return s; }
double one(const Pair &, double) { return 1; }
constexpr float slopes[H] = {0.5f, 0.25f, 0.125f, 0.0625f};

const Attention variants[] = {
    {"full", "attention full() {}", all, same, one},
    {"causal", "attention causal() { mask = q >= k }",
     [](const Pair &p, const std::vector<int32_t> &) { return p.q >= p.k; }, same, one},
    {"window", "attention window(window: i32 = 40) { mask = q >= k && q - k < window }",
     [](const Pair &p, const std::vector<int32_t> &) { return p.q >= p.k && p.q - p.k < 40; }, same,
     one},
    {"documents", "attention documents(doc: i32[Sk]) { mask = q >= k && doc[q] == doc[k] }",
     [](const Pair &p, const std::vector<int32_t> &documents) {
       return p.q >= p.k && documents[p.q] == documents[p.k];
     },
     same, one},
    {"alibi", "attention alibi(slope: f32[H]) { score = s + slope[h] * (k - q) }", all,
     [](const Pair &p, double s) { return s + slopes[p.h] * (p.k - p.q); }, one},
    {"softcap", "attention softcap(cap: f32 = 2.0) { score = cap * tanh(s / cap) }", all,
     [](const Pair &, double s) { return 2 * std::tanh(s / 2); },
     [](const Pair &, double s) { return 1 - std::pow(std::tanh(s / 2), 2); }},
};

/// Scores of `alibi` reach 100, of which f32 leaves 8e-6: as much as P's relative error.
constexpr double tolerance = 1e-4;

/// A tensor, and its values in double.
struct Values {
  TestTensor memory;
  std::vector<double> values;

  Values(const Context &context, int heads, int length, int dim = D)
      : memory(context, Tensor::bhsd(nullptr, ElementType::f32, B, heads, length, dim)),
        values(size_t(B) * heads * length * dim) {}
  void randomize(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    auto *data = static_cast<float *>(memory.host().data);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = data[i] = normal(random);
    ASSERT_TRUE(memory.upload().ok());
  }
  void set(const std::vector<double> &from) {
    values = from;
    auto *data = static_cast<float *>(memory.host().data);
    for (size_t i = 0; i < values.size(); ++i)
      data[i] = float(values[i]);
    ASSERT_TRUE(memory.upload().ok());
  }
  void expectNear(const std::vector<double> &expected, const char *name) {
    ASSERT_TRUE(memory.download().ok());
    auto *data = static_cast<const float *>(memory.host().data);
    for (size_t i = 0; i < expected.size(); ++i)
      if (std::isinf(expected[i]))
        ASSERT_EQ(data[i], float(expected[i])) << name << ", element " << i;
      else
        ASSERT_NEAR(data[i], expected[i], tolerance * (1 + std::abs(expected[i])))
            << name << ", element " << i;
  }
};

class Algorithms : public testing::TestWithParam<int> {
protected:
  const Context *context = nullptr;
  const Attention &variant = variants[GetParam()];
  std::vector<int32_t> documents;
  double scale = 1 / std::sqrt(double(D));

  void SetUp() override {
    std::string reason;
    context = testContext("host", reason, /*verify=*/false);
    ASSERT_TRUE(context) << reason;
    for (int i = 0; i < Sk; ++i)
      documents.push_back(i / 37);
  }

  std::optional<Kernel> compile(const std::string &algorithm, const std::string &text,
                                const std::vector<std::string> &bindings = {}) {
    KernelOptions options;
    options.algorithm = algorithm;
    options.bindings = bindings;
    options.variantText = text;
    options.inputType = ElementType::f32;
    options.headDimQk = options.headDimV = D;
    Result<Kernel> kernel = context->compile(options);
    EXPECT_TRUE(kernel.ok()) << (kernel ? "" : kernel.error().message());
    return kernel ? std::optional<Kernel>(*kernel) : std::nullopt;
  }

  /// The variant's captured tensors.
  void addCaptures(LaunchArguments &arguments) {
    Tensor tensor;
    tensor.rank = 1;
    tensor.strides[0] = 1;
    if (std::string(variant.text).find("doc:") != std::string::npos) {
      tensor.data = documents.data();
      tensor.type = ElementType::i32;
      tensor.extents[0] = Sk;
      arguments.captures.push_back({"doc", tensor});
    } else if (std::string(variant.text).find("slope:") != std::string::npos) {
      tensor.data = const_cast<float *>(slopes);
      tensor.type = ElementType::f32;
      tensor.extents[0] = H;
      arguments.captures.push_back({"slope", tensor});
    }
  }

  static size_t at(int b, int heads, int h, int length, int i, int dim = D) {
    return ((size_t(b) * heads + h) * length + i) * dim;
  }

  /// Calls `visit` for each pair that is kept, with the score before and behind the variant's.
  void forEachPair(const Values &q, const Values &k,
                   const std::function<void(int b, const Pair &, double s, double score)> &visit) {
    for (int b = 0; b < B; ++b)
      for (Pair p{0, 0, 0}; p.h < H; ++p.h)
        for (p.q = 0; p.q < Sq; ++p.q)
          for (p.k = 0; p.k < Sk; ++p.k) {
            if (!variant.keeps(p, documents))
              continue;
            double s = 0;
            for (int x = 0; x < D; ++x)
              s += q.values[at(b, H, p.h, Sq, p.q) + x] *
                   k.values[at(b, Hkv, p.h / (H / Hkv), Sk, p.k) + x];
            s *= scale;
            visit(b, p, s, variant.score(p, s));
          }
  }

  void forward(const Values &q, const Values &k, const Values &v, std::vector<double> &o,
               std::vector<double> &lse) {
    o.assign(size_t(B) * H * Sq * D, 0);
    std::vector<double> sums(size_t(B) * H * Sq, 0);
    lse.assign(sums.size(), -std::numeric_limits<double>::infinity());
    forEachPair(q, k, [&](int b, const Pair &p, double, double score) {
      sums[at(b, H, p.h, Sq, p.q, 1)] += std::exp(score);
      for (int x = 0; x < D; ++x)
        o[at(b, H, p.h, Sq, p.q) + x] +=
            std::exp(score) * v.values[at(b, Hkv, p.h / (H / Hkv), Sk, p.k) + x];
    });
    for (size_t row = 0; row < sums.size(); ++row)
      if (sums[row] > 0) {
        lse[row] = std::log(sums[row]);
        for (int x = 0; x < D; ++x)
          o[row * D + x] /= sums[row];
      }
  }
};

TEST_P(Algorithms, Backward) {
  Values q(*context, H, Sq), k(*context, Hkv, Sk), v(*context, Hkv, Sk), o(*context, H, Sq),
      dO(*context, H, Sq), lse(*context, H, Sq, 1), dq(*context, H, Sq), dk(*context, Hkv, Sk),
      dv(*context, Hkv, Sk);
  q.randomize(1), k.randomize(2), v.randomize(3), dO.randomize(4);
  std::vector<double> output, sums;
  forward(q, k, v, output, sums);
  o.set(output), lse.set(sums);
  for (Values *result : {&dq, &dk, &dv})
    ASSERT_TRUE(result->memory.poison().ok());

  std::optional<Kernel> kernel = compile("backward", variant.text);
  ASSERT_TRUE(kernel);
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device();
  arguments.lse = lse.memory.device();
  arguments.lse.rank = 3;
  arguments.tensors = {{"do", dO.memory.device()},
                       {"dq", dq.memory.device()},
                       {"dk", dk.memory.device()},
                       {"dv", dv.memory.device()}};
  addCaptures(arguments);
  Status launched = kernel->launch(arguments);
  ASSERT_TRUE(launched.ok()) << launched.error().message();

  std::vector<double> ofQ(q.values.size()), ofK(k.values.size()), ofV(v.values.size());
  forEachPair(q, k, [&](int b, const Pair &p, double s, double score) {
    size_t row = at(b, H, p.h, Sq, p.q), key = at(b, Hkv, p.h / (H / Hkv), Sk, p.k);
    double P = std::exp(score - sums[row / D]), dP = 0, delta = 0;
    for (int x = 0; x < D; ++x) {
      dP += dO.values[row + x] * v.values[key + x];
      delta += dO.values[row + x] * output[row + x];
      ofV[key + x] += P * dO.values[row + x];
    }
    double ds = P * (dP - delta) * variant.slope(p, s) * scale;
    for (int x = 0; x < D; ++x) {
      ofQ[row + x] += ds * k.values[key + x];
      ofK[key + x] += ds * q.values[row + x];
    }
  });
  dq.expectNear(ofQ, "dq"), dk.expectNear(ofK, "dk"), dv.expectNear(ofV, "dv");
}

TEST_P(Algorithms, SplitKeys) {
  Values q(*context, H, Sq), k(*context, Hkv, Sk), v(*context, Hkv, Sk), o(*context, H, Sq),
      lse(*context, H, Sq, 1);
  q.randomize(1), k.randomize(2), v.randomize(3);
  std::vector<double> output, sums;
  forward(q, k, v, output, sums);
  std::optional<Kernel> combine = compile("combine", "", {"output=f32"});
  ASSERT_TRUE(combine);
  for (int parts : {1, 3, 128}) {
    SCOPED_TRACE(std::to_string(parts) + " parts");
    std::optional<Kernel> split =
        compile("forward_split", variant.text, {"parts=" + std::to_string(parts)});
    ASSERT_TRUE(split);
    TestTensor oParts(*context, Tensor::bhsd(nullptr, ElementType::f32, parts * B, H, Sq, D));
    TestTensor lseParts(*context, Tensor::bhsd(nullptr, ElementType::f32, parts * B, H, Sq, 1));
    ASSERT_TRUE(oParts.poison().ok() && lseParts.poison().ok() && o.memory.poison().ok() &&
                lse.memory.poison().ok());
    Tensor partialLse = lseParts.device();
    partialLse.rank = 3;
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device();
    arguments.tensors = {{"o_parts", oParts.device()}, {"lse_parts", partialLse}};
    addCaptures(arguments);
    Status launched = split->launch(arguments);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    LaunchArguments joined;
    joined.o = o.memory.device(), joined.lse = lse.memory.device();
    joined.lse.rank = 3;
    joined.tensors = arguments.tensors;
    joined.scalars = {{"parts", double(parts)}};
    launched = combine->launch(joined);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    o.expectNear(output, "o"), lse.expectNear(sums, "lse");
  }
}

INSTANTIATE_TEST_SUITE_P(Host, Algorithms, testing::Range(0, int(std::size(variants))),
                         [](const auto &info) { return std::string(variants[info.param].name); });

} // namespace
