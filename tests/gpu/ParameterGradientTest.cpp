//===- ParameterGradientTest.cpp - Gradients of parameters ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/backward_parameters.mlir by the public API, on the host and on a GPU, compared with
// sums in double precision of derivatives that this file writes out.
//
//===----------------------------------------------------------------------===//
#include "AlgorithmCase.h"
#include "DropoutRule.h"

#include "check/Elements.h"
#include "tesela/KernelTensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

using namespace tesela;

namespace {

constexpr int B = 2, H = queryHeads, Hkv = keyHeads, Sq = 150, Sk = 202;

/// With oddKeys, rows of a gradient begin at odd elements. With evenKeys, they begin at multiples
/// of 16 bytes, and all blocks of keys are full.
constexpr int oddKeys = 201, evenKeys = 512;

/// The place of a pair, or of a row, and the values of the parameters (one value for a scalar).
struct PairPlace {
  int b, h, q, k;
};
using Parameters = std::map<std::string, std::vector<double>>;

/// What a pair, or a row, adds to a gradient: the index of the parameter's element, and the
/// derivative.
struct Read {
  std::string name;
  int64_t element;
  double derivative;
};
using Reads = std::vector<Read>;

struct Captured {
  std::string name;
  ElementType type;
  std::vector<int64_t> extents; ///< empty: a scalar
};

struct Case {
  const char *name, *text;
  std::vector<Captured> parameters;
  std::function<bool(const PairPlace &)> keeps;
  std::function<double(const Parameters &, const PairPlace &, double s)> score;
  std::function<Reads(const Parameters &, const PairPlace &, double s)> reads;
  std::function<double(const Parameters &, const PairPlace &)> sink = nullptr;
  std::function<Reads(const Parameters &, const PairPlace &)> sinkReads = nullptr;
  int keys = Sk;
};

bool all(const PairPlace &) { return true; }
bool causal(const PairPlace &p) { return p.q >= p.k; }
constexpr ElementType f32 = ElementType::f32, bf16 = ElementType::bf16, f16 = ElementType::f16;

/// T5's buckets for both directions, up to a distance of 128.
int bucketOf(int distance) {
  int size = std::abs(distance),
      far = 8 + int(std::log(std::max(size, 1) / 8.0) / std::log(16.0) * 8);
  return (distance > 0 ? 16 : 0) + (size < 8 ? size : std::min(far, 15));
}

/// A bias for pairs with `evenKeys` keys. `first`: the index of its other axes, whose extents are
/// `extents`.
Case biased(const char *name, const char *text, ElementType type, std::vector<int64_t> extents,
            std::function<int64_t(const PairPlace &)> first,
            std::function<bool(const PairPlace &)> keeps) {
  extents.push_back(Sq), extents.push_back(evenKeys);
  auto elementOf = [first](const PairPlace &p) { return (first(p) * Sq + p.q) * evenKeys + p.k; };
  return {name,
          text,
          {{"bias", type, extents}},
          std::move(keeps),
          [elementOf](const Parameters &t, const PairPlace &p, double s) {
            return s + t.at("bias")[elementOf(p)];
          },
          [elementOf](const Parameters &, const PairPlace &p, double) {
            return Reads{{"bias", elementOf(p), 1}};
          },
          nullptr,
          nullptr,
          evenKeys};
}

const std::vector<Case> cases = {
    {"slope",
     "attention slopes(slope: f32[H]) { mask = q >= k\n score = s + slope[h] * (k - q) }",
     {{"slope", f32, {H}}},
     causal,
     [](const Parameters &t, const PairPlace &p, double s) {
       return s + t.at("slope")[p.h] * (p.k - p.q);
     },
     [](const Parameters &, const PairPlace &p, double) {
       return Reads{{"slope", p.h, double(p.k - p.q)}};
     }},
    {"distances",
     "attention distances(table: f32[H, N]) { score = s + table[h, k - q + Sq - 1] }",
     {{"table", f32, {H, Sq + Sk - 1}}},
     all,
     [](const Parameters &t, const PairPlace &p, double s) {
       return s + t.at("table")[p.h * (Sq + Sk - 1) + p.k - p.q + Sq - 1];
     },
     [](const Parameters &, const PairPlace &p, double) {
       return Reads{{"table", p.h * (Sq + Sk - 1) + p.k - p.q + Sq - 1, 1}};
     }},
    {"buckets",
     "attention buckets(table: bf16[H, 32]) {\n"
     "  let size = abs(k - q)\n"
     "  let far  = min(8 + int(log(max(size, 1) / 8.0) / log(16.0) * 8), 15)\n"
     "  exact score = s + table[h, (k > q ? 16 : 0) + (size < 8 ? size : far)]\n}",
     {{"table", bf16, {H, 32}}},
     all,
     [](const Parameters &t, const PairPlace &p, double s) {
       return s + t.at("table")[p.h * 32 + bucketOf(p.k - p.q)];
     },
     [](const Parameters &, const PairPlace &p, double) {
       return Reads{{"table", p.h * 32 + bucketOf(p.k - p.q), 1}};
     }},
    {"bias",
     "attention biased(bias: f32[H, Sq, Sk]) { mask = q >= k\n score = s + bias[h, q, k] }",
     {{"bias", f32, {H, Sq, Sk}}},
     causal,
     [](const Parameters &t, const PairPlace &p, double s) {
       return s + t.at("bias")[(int64_t(p.h) * Sq + p.q) * Sk + p.k];
     },
     [](const Parameters &, const PairPlace &p, double) {
       return Reads{{"bias", (int64_t(p.h) * Sq + p.q) * Sk + p.k, 1}};
     }},
    {"bias_of_pairs",
     "attention biased(bias: bf16[Sq, Sk]) { score = s * bias[q, k] }",
     {{"bias", bf16, {Sq, oddKeys}}},
     all,
     [](const Parameters &t, const PairPlace &p, double s) {
       return s * t.at("bias")[int64_t(p.q) * oddKeys + p.k];
     },
     [](const Parameters &, const PairPlace &p, double s) {
       return Reads{{"bias", int64_t(p.q) * oddKeys + p.k, s}};
     },
     nullptr,
     nullptr,
     oddKeys},
    // The loop runs over one range of blocks of keys, over two, over all, and over other ranges for
    // each batch.
    biased(
        "bias_in_window",
        "attention biased(bias: bf16[H, Sq, Sk]) {\n"
        "  mask = q + 200 >= k && k >= q + 30\n score = s + bias[h, q, k]\n}",
        bf16, {H}, [](const PairPlace &p) { return p.h; },
        [](const PairPlace &p) { return p.q + 200 >= p.k && p.k >= p.q + 30; }),
    biased(
        "bias_beside_sinks",
        "attention biased(bias: f16[Sq, Sk]) {\n"
        "  mask = k < 20 || (k >= q + 300 && k < q + 330)\n score = s + bias[q, k]\n}",
        f16, {}, [](const PairPlace &) { return 0; },
        [](const PairPlace &p) { return p.k < 20 || (p.k >= p.q + 300 && p.k < p.q + 330); }),
    biased(
        "bias_of_batches",
        "attention biased(bias: f32[B, H, Sq, Sk]) { score = s + bias[b, h, q, k] }", f32, {B, H},
        [](const PairPlace &p) { return p.b * H + p.h; }, all),
    biased(
        "bias_of_groups",
        "attention biased(bias: bf16[Hkv, Sq, Sk]) { score = s + bias[hkv, q, k] }", bf16, {Hkv},
        [](const PairPlace &p) { return p.h / (H / Hkv); }, all),
    biased(
        "bias_with_lengths",
        "attention biased(bias: bf16[H, Sq, Sk]) {\n"
        "  mask = k < 100 + 250 * b\n score = s + bias[h, q, k]\n}",
        bf16, {H}, [](const PairPlace &p) { return p.h; },
        [](const PairPlace &p) { return p.k < 100 + 250 * p.b; }),
    {"scalars_and_keys",
     "attention mixed(cap: f32, gate: f32[B, Sk]) {\n"
     "  score = cap * tanh(s / cap) - gate[b, k]\n}",
     {{"cap", f32, {}}, {"gate", f32, {B, Sk}}},
     all,
     [](const Parameters &t, const PairPlace &p, double s) {
       double cap = t.at("cap")[0];
       return cap * std::tanh(s / cap) - t.at("gate")[p.b * Sk + p.k];
     },
     [](const Parameters &t, const PairPlace &p, double s) {
       double cap = t.at("cap")[0], y = std::tanh(s / cap);
       return Reads{{"cap", 0, y - (1 - y * y) * s / cap}, {"gate", p.b * Sk + p.k, -1}};
     }},
    {"sink",
     "attention sinks(z: bf16[H], w: f32) { mask = q >= k + 30\n score = s * w\n sink = z[h] * w }",
     {{"z", bf16, {H}}, {"w", f32, {}}},
     [](const PairPlace &p) { return p.q >= p.k + 30; },
     [](const Parameters &t, const PairPlace &, double s) { return s * t.at("w")[0]; },
     [](const Parameters &, const PairPlace &, double s) {
       return Reads{{"w", 0, s}};
     },
     [](const Parameters &t, const PairPlace &p) { return t.at("z")[p.h] * t.at("w")[0]; },
     [](const Parameters &t, const PairPlace &p) {
       return Reads{{"z", p.h, t.at("w")[0]}, {"w", 0, t.at("z")[p.h]}};
     }},
};

Tensor contiguous(ElementType type, const std::vector<int64_t> &extents) {
  Tensor tensor;
  tensor.type = type;
  tensor.rank = int(extents.size());
  int64_t stride = 1;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    tensor.extents[axis] = extents[axis];
    tensor.strides[axis] = stride;
    stride *= extents[axis];
  }
  return tensor;
}

using Parameter = std::tuple<Place, int>;

class ParameterGradients : public testing::TestWithParam<Parameter> {
protected:
  const Place &place = std::get<0>(GetParam());
  const Case &variant = cases[std::get<1>(GetParam())];
  const int D = place.dim;
  const double scale = double(float(1 / std::sqrt(double(D))));
  const Context *context = nullptr;
  Parameters parameters;
  std::vector<ScalarArgument> dropout; ///< of the launch; empty: without dropout
  /// The factor of a pair's P in products: 0 if dropout drops the pair, 1 without dropout.
  std::function<double(const PairPlace &)> weight = [](const PairPlace &) { return 1.0; };

  void SetUp() override {
    std::string reason;
    context = testContext(place.device, reason, /*verify=*/false);
    if (!context && std::string(place.device) != "host")
      GTEST_SKIP() << reason;
    ASSERT_TRUE(context) << reason;
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    for (const Captured &each : variant.parameters) {
      int64_t count = 1;
      for (int64_t extent : each.extents)
        count *= extent;
      for (int64_t i = 0; i < count; ++i)
        parameters[each.name].push_back(
            each.extents.empty() ? 1.5 : roundedTo(each.type, normal(random) / 4));
    }
  }

  void forEachPair(const Values &q, const Values &k,
                   const std::function<void(const PairPlace &, double s)> &visit) const {
    for (int b = 0; b < B; ++b)
      for (int h = 0; h < H; ++h)
        for (int i = 0; i < Sq; ++i)
          for (int j = 0; j < variant.keys; ++j) {
            PairPlace at{b, h, i, j};
            if (!variant.keeps(at))
              continue;
            size_t row = q.at({b, i}, h), key = k.at({b, j}, h / (H / Hkv));
            double s = 0;
            for (int x = 0; x < D; ++x)
              s += q.values[row + x] * k.values[key + x];
            visit(at, s * scale);
          }
  }

  void expectRule();
};

void ParameterGradients::expectRule() {
  ElementType type = place.type;
  Values q(*context, type, B, H, Sq, D), k(*context, type, B, Hkv, variant.keys, D),
      v(*context, type, B, Hkv, variant.keys, D), o(*context, type, B, H, Sq, D),
      dO(*context, type, B, H, Sq, D), lse(*context, f32, B, H, Sq, 1);
  q.randomize(1), k.randomize(2), v.randomize(3), dO.randomize(4);

  // The forward pass. No subtraction of a maximum: all scores are close to 0.
  std::vector<double> sums(size_t(B) * H * Sq, 0), output(q.values.size(), 0);
  auto rowOf = [](const PairPlace &p) { return (size_t(p.b) * H + p.h) * Sq + p.q; };
  auto keyOf = [&](const PairPlace &p) { return v.at({p.b, p.k}, p.h / (H / Hkv)); };
  forEachPair(q, k, [&](const PairPlace &p, double s) {
    double power = std::exp(variant.score(parameters, p, s));
    sums[rowOf(p)] += power;
    for (int x = 0; x < D; ++x)
      output[rowOf(p) * D + x] += weight(p) * power * v.values[keyOf(p) + x];
  });
  std::vector<double> logarithms(sums.size());
  for (size_t row = 0; row < sums.size(); ++row) {
    PairPlace at{int(row / Sq / H), int(row / Sq % H), int(row % Sq), 0};
    if (variant.sink)
      sums[row] += std::exp(variant.sink(parameters, at));
    logarithms[row] = std::log(sums[row]);
    for (int x = 0; x < D; ++x)
      output[row * D + x] = sums[row] > 0 ? output[row * D + x] / sums[row] : 0;
  }
  o.set(output), lse.set(logarithms);

  // The sums of the derivatives, and those of their magnitudes.
  Parameters exact, sizes;
  for (const auto &[name, values] : parameters)
    exact[name].assign(values.size(), 0), sizes[name].assign(values.size(), 0);
  std::vector<double> delta(sums.size(), 0), sizeOfDelta(sums.size(), 0);
  for (size_t i = 0; i < output.size(); ++i) {
    delta[i / D] += output[i] * dO.values[i];
    sizeOfDelta[i / D] += std::abs(output[i] * dO.values[i]);
  }
  auto add = [&](const Reads &reads, double gradient, double size) {
    for (const Read &read : reads) {
      exact[read.name][read.element] += gradient * read.derivative;
      sizes[read.name][read.element] += std::abs(size * read.derivative);
    }
  };
  forEachPair(q, k, [&](const PairPlace &p, double s) {
    double P = std::exp(variant.score(parameters, p, s) - logarithms[rowOf(p)]), dP = 0, size = 0;
    for (int x = 0; x < D; ++x) {
      double term = weight(p) * dO.values[rowOf(p) * D + x] * v.values[keyOf(p) + x];
      dP += term, size += std::abs(term);
    }
    add(variant.reads(parameters, p, s), P * (dP - delta[rowOf(p)]),
        P * (size + sizeOfDelta[rowOf(p)]));
  });
  for (size_t row = 0; variant.sink && row < sums.size(); ++row) {
    PairPlace at{int(row / Sq / H), int(row / Sq % H), int(row % Sq), 0};
    double share = std::exp(variant.sink(parameters, at) - logarithms[row]);
    add(variant.sinkReads(parameters, at), -share * delta[row], share * sizeOfDelta[row]);
  }

  KernelOptions options;
  options.algorithm = "backward_parameters";
  options.variantText = variant.text;
  options.inputType = type;
  options.headDimQk = options.headDimV = D;
  options.schedule = place.schedule;
  options.dropout = !dropout.empty();
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
  arguments.tensors = {{"do", dO.memory.device()}};
  arguments.scalars = dropout;
  std::vector<TestTensor> captures, gradients;
  captures.reserve(variant.parameters.size()), gradients.reserve(variant.parameters.size());
  for (const Captured &each : variant.parameters) {
    const std::vector<double> &values = parameters[each.name];
    std::vector<int64_t> shape = each.extents.empty() ? std::vector<int64_t>{1} : each.extents;
    Result<ElementType> ofGradient = tensorType(*kernel, "d_" + each.name);
    ASSERT_TRUE(ofGradient.ok()) << ofGradient.error().message();
    gradients.emplace_back(*context, contiguous(*ofGradient, shape));
    arguments.tensors.push_back({"d_" + each.name, gradients.back().device()});
    if (each.extents.empty()) {
      arguments.scalars.push_back({each.name, values[0]});
      continue;
    }
    captures.emplace_back(*context, contiguous(each.type, shape));
    for (size_t i = 0; i < values.size(); ++i)
      storeFloat(captures.back().host().data, each.type, int64_t(i), float(values[i]));
    ASSERT_TRUE(captures.back().upload().ok());
    arguments.captures.push_back({each.name, captures.back().device()});
  }

  // O, from which D is computed, is rounded. A GPU's exponentials are approximations.
  double unit = type == f32 ? 0x1p-20 : type == ElementType::f16 ? 0x1p-11 : 0x1p-9;
  std::vector<std::vector<char>> first;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (TestTensor &each : gradients)
      ASSERT_TRUE(each.poison().ok());
    Status launched = kernel->launch(arguments);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    ASSERT_TRUE(context->synchronize().ok());
    for (size_t i = 0; i < gradients.size(); ++i) {
      const std::string &name = variant.parameters[i].name;
      ASSERT_TRUE(gradients[i].download().ok() && gradients[i].guardIsIntact()) << name;
      const Tensor &given = gradients[i].host();
      double rounding = given.type == f32 ? 0 : given.type == f16 ? 0x1p-11 : 0x1p-8;
      double least = given.type == f16 ? 0x1p-25 : 1e-30;
      for (size_t element = 0; element < exact[name].size(); ++element) {
        double limit =
            unit * sizes[name][element] + rounding * std::abs(exact[name][element]) + least;
        EXPECT_NEAR(loadFloat(given.data, given.type, int64_t(element)), exact[name][element],
                    limit)
            << name << " " << element;
        if (HasFailure())
          return;
      }
      const char *bytes = static_cast<const char *>(given.data);
      if (repeat == 0)
        first.emplace_back(bytes, bytes + exact[name].size() * elementSize(given.type));
      else
        EXPECT_EQ(std::memcmp(bytes, first[i].data(), first[i].size()), 0)
            << name << " has other bits in another launch";
    }
  }
}

TEST_P(ParameterGradients, HoldsTheRule) { expectRule(); }

TEST_P(ParameterGradients, HoldsTheRuleWithDropout) {
  constexpr double p = 0.2;
  constexpr uint64_t seed = 78, offset = 6;
  dropout = dropoutScalars(p, seed, offset);
  weight = [](const PairPlace &at) {
    bool dropped =
        isDropped(p, seed, offset, uint32_t(at.b * H + at.h), uint32_t(at.q), uint32_t(at.k));
    return dropped ? 0 : 1 / (1 - double(float(p)));
  };
  expectRule();
}

std::string nameOf(const testing::TestParamInfo<Parameter> &info) {
  return std::string(cases[std::get<1>(info.param)].name) + "_" + std::get<0>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Host, ParameterGradients,
                         testing::Combine(testing::ValuesIn(hostPlaces),
                                          testing::Range(0, int(cases.size()))),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Gpu, ParameterGradients,
                         testing::Combine(testing::ValuesIn(gpuPlaces),
                                          testing::Range(0, int(cases.size()))),
                         nameOf);

} // namespace
