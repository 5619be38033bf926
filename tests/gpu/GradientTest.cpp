//===- GradientTest.cpp - Gradients, and split keys, by the public API ----===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/backward.mlir and forward_split.mlir with combine.mlir: compiled by name, launched with
// tensors by name, through the pipeline of all kernels, against formulas in double precision. On
// the host, and on a GPU with mma.sync and with wgmma.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include "../GradientRule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <tuple>

using namespace tesela;

namespace {

constexpr int B = 2, H = 4, Hkv = 2, Sq = 150, Sk = 201;

/// Where a kernel runs, and how.
struct Place {
  const char *name, *device, *schedule;
  ElementType type;
  int dim;
};

constexpr const char *mma = "consumers = 0", *roles = "consumers = 2";

const Place hostPlaces[] = {{"f32_d48", "host", "", ElementType::f32, 48},
                            {"bf16_d64", "host", "", ElementType::bf16, 64}},
            gpuPlaces[] = {{"mma_bf16_d64", "cuda", mma, ElementType::bf16, 64},
                           {"mma_f16_d40", "cuda", mma, ElementType::f16, 40},
                           {"mma_bf16_d128", "cuda", mma, ElementType::bf16, 128},
                           {"mma_f16_d256", "cuda", mma, ElementType::f16, 256},
                           {"roles_bf16_d64", "cuda", roles, ElementType::bf16, 64},
                           {"roles_f16_d40", "cuda", roles, ElementType::f16, 40},
                           {"roles_bf16_d128", "cuda", roles, ElementType::bf16, 128}};

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

double roundedTo(ElementType type, double value) {
  float number = float(value);
  return type == ElementType::bf16  ? bf16ToFloat(floatToBf16(number))
         : type == ElementType::f16 ? f16ToFloat(floatToF16(number))
                                    : number;
}

/// A tensor, and its values as its type holds them.
struct Values {
  ElementType type;
  TestTensor memory;
  std::vector<double> values;

  Values(const Context &context, ElementType type, int heads, int length, int dim, int batches = B)
      : type(type), memory(context, Tensor::bhsd(nullptr, type, batches, heads, length, dim)),
        values(size_t(batches) * heads * length * dim) {}

  void set(const std::vector<double> &from) {
    void *data = memory.host().data;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = roundedTo(type, from[i]);
      float number = float(values[i]);
      if (type == ElementType::f32)
        static_cast<float *>(data)[i] = number;
      else
        static_cast<uint16_t *>(data)[i] =
            type == ElementType::bf16 ? floatToBf16(number) : floatToF16(number);
    }
    ASSERT_TRUE(memory.upload().ok());
  }
  void randomize(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::vector<double> numbers(values.size());
    for (double &number : numbers)
      number = normal(random);
    set(numbers);
  }
  std::vector<float> download() {
    EXPECT_TRUE(memory.download().ok() && memory.guardIsIntact());
    const void *data = memory.host().data;
    std::vector<float> result(values.size());
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = type == ElementType::f32    ? static_cast<const float *>(data)[i]
                  : type == ElementType::bf16 ? bf16ToFloat(static_cast<const uint16_t *>(data)[i])
                                              : f16ToFloat(static_cast<const uint16_t *>(data)[i]);
    return result;
  }
  /// A view of rank 3, of one element a row.
  Tensor rows() {
    Tensor tensor = memory.device();
    tensor.rank = 3;
    return tensor;
  }
};

class Algorithms : public testing::TestWithParam<std::tuple<Place, int>> {
protected:
  const Context *context = nullptr;
  const Place &place = std::get<0>(GetParam());
  const Attention &variant = variants[std::get<1>(GetParam())];
  const int D = place.dim;
  const double scale = double(float(1 / std::sqrt(double(D))));
  std::vector<int32_t> documents;
  std::vector<TestTensor> captures;

  void SetUp() override {
    std::string reason;
    context = testContext(place.device, reason, /*verify=*/false);
    if (!context && std::string(place.device) != "host")
      GTEST_SKIP() << reason;
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
    options.inputType = place.type;
    options.headDimQk = options.headDimV = D;
    options.schedule = place.schedule;
    Result<Kernel> kernel = context->compile(options);
    EXPECT_TRUE(kernel.ok()) << (kernel ? "" : kernel.error().message());
    return kernel ? std::optional<Kernel>(*kernel) : std::nullopt;
  }

  void launch(const Kernel &kernel, const LaunchArguments &arguments) {
    Status launched = kernel.launch(arguments);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    ASSERT_TRUE(context->synchronize().ok());
  }

  void addCapture(LaunchArguments &arguments, const char *name, ElementType type, const void *data,
                  int extent) {
    Tensor tensor;
    tensor.type = type;
    tensor.rank = 1;
    tensor.strides[0] = 1;
    tensor.extents[0] = extent;
    TestTensor &memory = captures.emplace_back(*context, tensor);
    std::memcpy(memory.host().data, data, size_t(extent) * 4);
    ASSERT_TRUE(memory.upload().ok());
    arguments.captures.push_back({name, memory.device()});
  }

  /// The variant's captured tensors.
  void addCaptures(LaunchArguments &arguments) {
    std::string text = variant.text;
    if (text.find("doc:") != std::string::npos)
      addCapture(arguments, "doc", ElementType::i32, documents.data(), Sk);
    else if (text.find("slope:") != std::string::npos)
      addCapture(arguments, "slope", ElementType::f32, slopes, H);
  }

  static size_t at(int b, int heads, int h, int length, int i, int dim) {
    return ((size_t(b) * heads + h) * length + i) * dim;
  }

  /// Calls `visit` for each pair that is kept, with q · k times the scale.
  void forEachPair(const Values &q, const Values &k,
                   const std::function<void(int b, const Pair &, double s)> &visit) {
    for (int b = 0; b < B; ++b)
      for (Pair p{0, 0, 0}; p.h < H; ++p.h)
        for (p.q = 0; p.q < Sq; ++p.q)
          for (p.k = 0; p.k < Sk; ++p.k) {
            if (!variant.keeps(p, documents))
              continue;
            double s = 0;
            for (int x = 0; x < D; ++x)
              s += q.values[at(b, H, p.h, Sq, p.q, D) + x] *
                   k.values[at(b, Hkv, p.h / (H / Hkv), Sk, p.k, D) + x];
            visit(b, p, s * scale);
          }
  }

  /// O, and L in `lse`. `base`: with the score in f32, and P rounded before the product.
  std::vector<double> forward(const Values &q, const Values &k, const Values &v, bool base,
                              std::vector<double> &lse, std::vector<double> *sizes = nullptr) {
    std::vector<double> o(size_t(B) * H * Sq * D, 0), sums(size_t(B) * H * Sq, 0);
    std::vector<double> largest(sums.size(), -std::numeric_limits<double>::infinity());
    forEachPair(q, k, [&](int b, const Pair &p, double s) {
      double &known = largest[at(b, H, p.h, Sq, p.q, 1)];
      known = std::max(known, variant.score(p, s));
    });
    if (sizes)
      sizes->assign(o.size(), 0);
    forEachPair(q, k, [&](int b, const Pair &p, double s) {
      size_t row = at(b, H, p.h, Sq, p.q, D);
      double score = variant.score(p, s);
      double P = std::exp((base ? double(float(score)) : score) - largest[row / D]);
      size_t key = at(b, Hkv, p.h / (H / Hkv), Sk, p.k, D);
      sums[row / D] += P;
      double rounded = base ? roundedTo(place.type, P) : P;
      for (int x = 0; x < D; ++x) {
        o[row + x] += rounded * v.values[key + x];
        if (sizes)
          (*sizes)[row + x] += P * (1 + std::abs(score)) * std::abs(v.values[key + x]);
      }
    });
    lse.assign(sums.size(), -std::numeric_limits<double>::infinity());
    for (size_t row = 0; row < sums.size(); ++row) {
      if (sums[row] == 0)
        continue;
      lse[row] = largest[row] + std::log(sums[row]);
      for (int x = 0; x < D; ++x) {
        o[row * D + x] /= sums[row];
        if (sizes)
          (*sizes)[row * D + x] /= sums[row];
      }
    }
    return o;
  }

  struct Gradients {
    test::GradientReference dq, dk, dv;
  };
  /// What of them `base` computes goes where.
  void differentiate(const Values &q, const Values &k, const Values &v, const Values &o,
                     const Values &dO, const Values &lse, bool base, Gradients &result);

  void expectNear(const char *name, Values &out, const test::GradientReference &reference,
                  int rows = 1) {
    std::string fault =
        test::gradientFault(out.download(), reference, size_t(rows) * D,
                            [&](double value) { return roundedTo(out.type, value); });
    EXPECT_EQ(fault, "") << name;
  }
};

void Algorithms::differentiate(const Values &q, const Values &k, const Values &v, const Values &o,
                               const Values &dO, const Values &lse, bool base, Gradients &result) {
  auto of = [&](test::GradientReference &each, size_t size) -> std::vector<double> & {
    std::vector<double> &values = base ? each.base : each.exact;
    values.assign(size, 0);
    if (!base)
      each.sizes.assign(size, 0);
    return values;
  };
  std::vector<double> &dq = of(result.dq, q.values.size()), &dk = of(result.dk, k.values.size()),
                      &dv = of(result.dv, v.values.size());
  auto round = [&](double value) { return base ? roundedTo(place.type, value) : value; };
  auto inFloat = [&](double value) { return base ? double(float(value)) : value; };
  forEachPair(q, k, [&](int b, const Pair &p, double exact) {
    size_t row = at(b, H, p.h, Sq, p.q, D), key = at(b, Hkv, p.h / (H / Hkv), Sk, p.k, D);
    double s = inFloat(exact), score = variant.score(p, s), slope = variant.slope(p, s);
    double P = std::exp(inFloat(score) - lse.values[row / D]), dP = 0, delta = 0, size = 0;
    double weight = P * (1 + std::abs(score)); // an error of the score is one of P
    for (int x = 0; x < D; ++x) {
      double given = dO.values[row + x];
      dP += given * v.values[key + x];
      delta += given * o.values[row + x];
      size += std::abs(given * v.values[key + x]) + std::abs(given * o.values[row + x]);
      dv[key + x] += round(P) * given;
      if (!base)
        result.dv.sizes[key + x] += weight * std::abs(given);
    }
    double ds = round(P * (dP - inFloat(delta)) * slope);
    size *= scale * weight * std::abs(slope);
    for (int x = 0; x < D; ++x) {
      dq[row + x] += scale * ds * k.values[key + x];
      dk[key + x] += scale * ds * q.values[row + x];
      if (!base) {
        result.dq.sizes[row + x] += size * std::abs(k.values[key + x]);
        result.dk.sizes[key + x] += size * std::abs(q.values[row + x]);
      }
    }
  });
}

TEST_P(Algorithms, Backward) {
  ElementType type = place.type;
  Values q(*context, type, H, Sq, D), k(*context, type, Hkv, Sk, D), v(*context, type, Hkv, Sk, D),
      o(*context, type, H, Sq, D), dO(*context, type, H, Sq, D),
      lse(*context, ElementType::f32, H, Sq, 1), dq(*context, type, H, Sq, D),
      dk(*context, type, Hkv, Sk, D), dv(*context, type, Hkv, Sk, D);
  q.randomize(1), k.randomize(2), v.randomize(3), dO.randomize(4);
  std::vector<double> sums;
  o.set(forward(q, k, v, /*base=*/false, sums));
  lse.set(sums);
  std::optional<Kernel> kernel = compile("backward", variant.text);
  ASSERT_TRUE(kernel);
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
  arguments.tensors = {{"do", dO.memory.device()},
                       {"dq", dq.memory.device()},
                       {"dk", dk.memory.device()},
                       {"dv", dv.memory.device()}};
  addCaptures(arguments);
  Gradients reference;
  for (bool base : {false, true})
    differentiate(q, k, v, o, dO, lse, base, reference);
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (Values *result : {&dq, &dk, &dv})
      ASSERT_TRUE(result->memory.poison().ok());
    launch(*kernel, arguments);
    expectNear("dq", dq, reference.dq);
    expectNear("dk", dk, reference.dk);
    expectNear("dv", dv, reference.dv);
  }
}

TEST_P(Algorithms, SplitKeys) {
  ElementType type = place.type;
  Values q(*context, type, H, Sq, D), k(*context, type, Hkv, Sk, D), v(*context, type, Hkv, Sk, D),
      o(*context, ElementType::f32, H, Sq, D), lse(*context, ElementType::f32, H, Sq, 1);
  q.randomize(1), k.randomize(2), v.randomize(3);
  test::GradientReference reference;
  std::vector<double> sums, baseSums;
  reference.exact = forward(q, k, v, /*base=*/false, sums, &reference.sizes);
  reference.base = forward(q, k, v, /*base=*/true, baseSums);
  std::optional<Kernel> combine = compile("combine", "", {"output=f32"});
  ASSERT_TRUE(combine);
  for (int parts : {1, 3, 128}) {
    SCOPED_TRACE(std::to_string(parts) + " parts");
    std::optional<Kernel> split =
        compile("forward_split", variant.text, {"parts=" + std::to_string(parts)});
    ASSERT_TRUE(split);
    Values oParts(*context, ElementType::f32, H, Sq, D, parts * B),
        lseParts(*context, ElementType::f32, H, Sq, 1, parts * B);
    for (Values *result : {&oParts, &lseParts, &o, &lse})
      ASSERT_TRUE(result->memory.poison().ok());
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device();
    arguments.tensors = {{"o_parts", oParts.memory.device()}, {"lse_parts", lseParts.rows()}};
    captures.clear();
    addCaptures(arguments);
    launch(*split, arguments);
    LaunchArguments joined;
    joined.o = o.memory.device(), joined.lse = lse.rows();
    joined.tensors = arguments.tensors;
    joined.scalars = {{"parts", double(parts)}};
    launch(*combine, joined);
    // Of a row with few keys the honest kernel's error may be nothing, by chance.
    expectNear("o", o, reference, /*rows=*/30);
    std::vector<float> combined = lse.download();
    for (size_t row = 0; row < sums.size(); ++row)
      if (std::isinf(sums[row]))
        ASSERT_EQ(combined[row], float(sums[row])) << "row " << row;
      else
        ASSERT_NEAR(combined[row], sums[row], 1e-3) << "row " << row;
  }
}

std::string nameOfCase(const testing::TestParamInfo<std::tuple<Place, int>> &info) {
  return std::string(std::get<0>(info.param).name) + "_" + variants[std::get<1>(info.param)].name;
}

void PrintTo(const Place &place, std::ostream *stream) { *stream << place.name; }

INSTANTIATE_TEST_SUITE_P(Host, Algorithms,
                         testing::Combine(testing::ValuesIn(hostPlaces),
                                          testing::Range(0, int(std::size(variants)))),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, Algorithms,
                         testing::Combine(testing::ValuesIn(gpuPlaces),
                                          testing::Range(0, int(std::size(variants)))),
                         nameOfCase);

} // namespace
