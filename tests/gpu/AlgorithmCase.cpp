//===- AlgorithmCase.cpp - Templates of attention, checked ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "AlgorithmCase.h"

#include "check/Elements.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace tesela {

namespace {
constexpr const char *mma = "consumers = 0", *roles = "consumers = 2";
constexpr float slopes[queryHeads] = {0.5f, 0.25f, 0.125f, 0.0625f};

bool all(const Pair &, const std::vector<int32_t> &) { return true; }
double same(const Pair &, double s) { return s; }
double one(const Pair &, double) { return 1; }
} // namespace

const std::vector<Place> hostPlaces = {{"f32_d48", "host", "", ElementType::f32, 48},
                                       {"bf16_d64", "host", "", ElementType::bf16, 64}};
const std::vector<Place> gpuPlaces = {{"mma_bf16_d64", "cuda", mma, ElementType::bf16, 64},
                                      {"mma_f16_d40", "cuda", mma, ElementType::f16, 40},
                                      {"mma_bf16_d128", "cuda", mma, ElementType::bf16, 128},
                                      {"mma_f16_d256", "cuda", mma, ElementType::f16, 256},
                                      {"roles_bf16_d64", "cuda", roles, ElementType::bf16, 64},
                                      {"roles_f16_d40", "cuda", roles, ElementType::f16, 40},
                                      {"roles_bf16_d128", "cuda", roles, ElementType::bf16, 128}};

const std::vector<Attention> attentions = {
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

void PrintTo(const Place &place, std::ostream *stream) { *stream << place.name; }

double roundedTo(ElementType type, double value) { return roundTo(type, float(value)); }

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Rows of 8-bit elements begin at multiples of 16 bytes, because a GPU requires that.
static Tensor viewOf(ElementType type, int batches, int heads, int length, int dim, bool bshd) {
  int columns = type == ElementType::e4m3 ? (dim + 15) / 16 * 16 : dim;
  Tensor view =
      (bshd ? Tensor::bshd : Tensor::bhsd)(nullptr, type, batches, heads, length, columns);
  view.extents[3] = dim;
  return view;
}

Values::Values(const Context &context, ElementType type, int batches, int heads, int length,
               int dim, bool bshd)
    : type(type), batches(batches), heads(heads), length(length), dim(dim),
      memory(context, viewOf(type, batches, heads, length, dim, bshd)),
      values(size_t(batches) * heads * length * dim) {}

int64_t Values::offsetOf(size_t index) const {
  const Tensor tensor = memory.device();
  int64_t offset = 0;
  for (int axis = 3; axis >= 0; --axis) {
    offset += int64_t(index % tensor.extents[axis]) * tensor.strides[axis];
    index /= tensor.extents[axis];
  }
  return offset;
}

void Values::set(const std::vector<double> &from) {
  void *data = memory.host().data;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = roundedTo(type, from[i]);
    storeFloat(data, type, offsetOf(i), float(values[i]));
  }
  ASSERT_TRUE(memory.upload().ok());
}

void Values::randomize(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> numbers(values.size());
  for (double &number : numbers)
    number = normal(random);
  set(numbers);
}

std::vector<float> Values::download() {
  EXPECT_TRUE(memory.download().ok() && memory.guardIsIntact());
  const void *data = memory.host().data;
  std::vector<float> result(values.size());
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = loadFloat(data, type, offsetOf(i));
  return result;
}

Tensor Values::rows() const {
  Tensor tensor = memory.device();
  tensor.rank = 3;
  return tensor;
}

//===----------------------------------------------------------------------===//
// AlgorithmCase
//===----------------------------------------------------------------------===//

AlgorithmCase::AlgorithmCase() : scale(double(float(1 / std::sqrt(double(D))))) {
  for (int position = 0; position < 1024; ++position)
    documents.push_back(position / 37);
}

void AlgorithmCase::SetUp() {
  std::string reason;
  context = testContext(place.device, reason, /*verify=*/false);
  if (!context && std::string(place.device) != "host")
    GTEST_SKIP() << reason;
  ASSERT_TRUE(context) << reason;
}

std::optional<Kernel> AlgorithmCase::compile(const std::string &algorithm, const std::string &text,
                                             const std::vector<std::string> &bindings,
                                             std::optional<std::string> schedule) {
  KernelOptions options;
  options.algorithm = algorithm;
  options.bindings = bindings;
  options.variantText = text;
  options.inputType = place.type;
  options.headDimQk = D;
  options.headDimV = valueDim;
  options.schedule = schedule.value_or(place.schedule);
  options.dropout = dropout;
  Result<Kernel> kernel = context->compile(options);
  EXPECT_TRUE(kernel.ok()) << (kernel ? "" : kernel.error().message());
  return kernel ? std::optional<Kernel>(*kernel) : std::nullopt;
}

void AlgorithmCase::launch(const Kernel &kernel, const LaunchArguments &arguments) {
  Status launched = kernel.launch(arguments);
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  ASSERT_TRUE(context->synchronize().ok());
}

TestTensor &AlgorithmCase::addVector(ElementType type, const void *data, int extent) {
  TestTensor &memory = captures.emplace_back(*context, Tensor::contiguous(nullptr, type, {extent}));
  std::memcpy(memory.host().data, data, size_t(extent) * 4);
  EXPECT_TRUE(memory.upload().ok());
  return memory;
}

NamedTensor AlgorithmCase::integers(const char *name, const std::vector<int32_t> &values,
                                    int64_t rows) {
  Tensor tensor = addVector(ElementType::i32, values.data(), int(values.size())).device();
  if (rows > 0) {
    tensor.rank = 2;
    tensor.extents = {rows, tensor.extents[0] / rows};
    tensor.strides = {tensor.extents[1], 1};
  }
  return {name, tensor};
}

void AlgorithmCase::addCaptures(LaunchArguments &arguments, int keys) {
  std::string text = variant.text;
  if (text.find("doc:") != std::string::npos)
    arguments.captures = {{"doc", addVector(ElementType::i32, documents.data(), keys).device()}};
  else if (text.find("slope:") != std::string::npos)
    arguments.captures = {{"slope", addVector(ElementType::f32, slopes, queryHeads).device()}};
}

void AlgorithmCase::forEachPair(
    const std::vector<Sequence> &sequences, const Values &q, const Values &k,
    const std::function<void(const Sequence &, int, int, const Pair &, double)> &visit) {
  for (const Sequence &sequence : sequences)
    for (int h = 0; h < queryHeads; ++h)
      for (int i = 0; i < sequence.queries; ++i)
        for (int j = 0; j < sequence.keys; ++j) {
          Pair pair{h, sequence.offset + i, j};
          if (!variant.keeps(pair, documents))
            continue;
          size_t row = q.at(sequence.query(i), h);
          size_t key = k.at(sequence.key(j), h / (queryHeads / keyHeads));
          double s = 0;
          for (int x = 0; x < D; ++x)
            s += q.values[row + x] * k.values[key + x];
          visit(sequence, i, j, pair, s * scale);
        }
}

std::vector<double> AlgorithmCase::forward(const std::vector<Sequence> &sequences, const Values &q,
                                           const Values &k, const Values &v, bool base,
                                           std::vector<double> &lse, std::vector<double> *sizes) {
  const int Dv = v.dim;
  std::vector<double> sums(q.values.size() / D, 0), o(sums.size() * Dv, 0);
  std::vector<double> largest(sums.size(), -std::numeric_limits<double>::infinity());
  forEachPair(sequences, q, k, [&](const Sequence &sequence, int i, int, const Pair &p, double s) {
    double &known = largest[q.at(sequence.query(i), p.h) / D];
    known = std::max(known, variant.score(p, s));
  });
  if (sizes)
    sizes->assign(o.size(), 0);
  forEachPair(sequences, q, k,
              [&](const Sequence &sequence, int i, int j, const Pair &p, double s) {
                size_t row = q.at(sequence.query(i), p.h) / D;
                double score = variant.score(p, s);
                double P = std::exp((base ? double(float(score)) : score) - largest[row]);
                size_t key = v.at(sequence.key(j), p.h / (queryHeads / keyHeads));
                sums[row] += P;
                double weight = this->weight(sequence.query(i).batch, p);
                double rounded = weight * (base ? roundedTo(place.type, P) : P);
                for (int x = 0; x < Dv; ++x) {
                  o[row * Dv + x] += rounded * v.values[key + x];
                  if (sizes)
                    (*sizes)[row * Dv + x] +=
                        weight * P * (1 + std::abs(score)) * std::abs(v.values[key + x]);
                }
              });
  lse.assign(sums.size(), -std::numeric_limits<double>::infinity());
  for (size_t row = 0; row < sums.size(); ++row) {
    if (sums[row] == 0)
      continue;
    lse[row] = largest[row] + std::log(sums[row]);
    for (int x = 0; x < Dv; ++x) {
      o[row * Dv + x] /= sums[row];
      if (sizes)
        (*sizes)[row * Dv + x] /= sums[row];
    }
  }
  return o;
}

void AlgorithmCase::expectNear(const char *name, ElementType type, const std::vector<float> &out,
                               const test::GradientReference &reference, int rows) {
  std::string fault = test::gradientFault(out, reference, size_t(rows) * D,
                                          [&](double value) { return roundedTo(type, value); });
  EXPECT_EQ(fault, "") << name;
}

void AlgorithmCase::expectLse(const std::vector<float> &actual,
                              const std::vector<double> &expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t row = 0; row < expected.size(); ++row)
    if (std::isinf(expected[row]))
      ASSERT_EQ(actual[row], float(expected[row])) << "row " << row;
    else
      ASSERT_NEAR(actual[row], expected[row], 1e-3) << "row " << row;
}

void AlgorithmCase::expectOwnRows(Values &o, Values &lse, const std::vector<bool> &isOwned,
                                  const test::GradientReference &reference,
                                  const std::vector<double> &sums) {
  std::vector<float> outO = o.download(), outLse = lse.download();
  const size_t width = outO.size() / isOwned.size();
  for (size_t row = 0; row < isOwned.size(); ++row) {
    if (isOwned[row])
      continue;
    ASSERT_TRUE(std::isnan(outLse[row])) << "lse is written in row " << row;
    outLse[row] = float(sums[row]);
    for (size_t x = 0; x < width; ++x) {
      ASSERT_TRUE(std::isnan(outO[row * width + x])) << "o is written in row " << row;
      outO[row * width + x] = 0;
    }
  }
  // For a row with few keys the honest kernel's error may be 0 by chance, so many rows share a
  // norm.
  expectNear("o", o.type, outO, reference, /*rows=*/30);
  expectLse(outLse, sums);
}

std::string nameOfCase(const testing::TestParamInfo<AlgorithmParameter> &info) {
  return std::string(std::get<0>(info.param).name) + "_" + attentions[std::get<1>(info.param)].name;
}

} // namespace tesela
