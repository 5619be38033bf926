//===- GradientTest.cpp - Gradients, and split keys, by the public API ----===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/backward.mlir, backward_fused.mlir, and forward_split.mlir with combine.mlir: compiled
// by name, launched with tensors by name, through the pipeline of all kernels, against formulas in
// double precision. On the host, and on a GPU with mma.sync and with wgmma.
//
//===----------------------------------------------------------------------===//
#include "AlgorithmCase.h"
#include "DropoutRule.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace tesela;

namespace {

constexpr int B = 2, H = queryHeads, Hkv = keyHeads, Sq = 150, Sk = 201;

class Algorithms : public AlgorithmCase {
protected:
  std::vector<Sequence> sequences;

  Algorithms() {
    for (int b = 0; b < B; ++b) {
      auto row = [b](int row) { return RowPlace{b, row}; };
      sequences.push_back({Sq, Sk, 0, row, row});
    }
  }

  struct Gradients {
    test::GradientReference dq, dk, dv;
  };
  /// Compiles and launches attention, and checks O and L.
  void expectForward();
  /// Compiles and launches `algorithm`, and checks dq, dk and dv.
  void expectGradients(const std::string &algorithm, const std::string &schedule);
  /// What of them `base` computes goes where.
  void differentiate(const Values &q, const Values &k, const Values &v, const Values &o,
                     const Values &dO, const Values &lse, bool base, Gradients &result);
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
  forEachPair(
      sequences, q, k, [&](const Sequence &each, int i, int j, const Pair &p, double exact) {
        size_t row = q.at(each.query(i), p.h), key = k.at(each.key(j), p.h / (H / Hkv));
        double s = inFloat(exact), score = variant.score(p, s), slope = variant.slope(p, s);
        double P = std::exp(inFloat(score) - lse.values[row / D]), dP = 0, delta = 0, size = 0;
        double errorOfP = P * (1 + std::abs(score)); // an error of the score is one of P
        double kept = weight(each.query(i).batch, p);
        for (int x = 0; x < D; ++x) {
          double given = dO.values[row + x];
          dP += kept * given * v.values[key + x];
          delta += given * o.values[row + x];
          size += kept * std::abs(given * v.values[key + x]) + std::abs(given * o.values[row + x]);
          dv[key + x] += kept * round(P) * given;
          if (!base)
            result.dv.sizes[key + x] += kept * errorOfP * std::abs(given);
        }
        double ds = round(P * (dP - inFloat(delta)) * slope);
        size *= scale * errorOfP * std::abs(slope);
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

void Algorithms::expectForward() {
  ElementType type = place.type;
  Values q(*context, type, B, H, Sq, D), k(*context, type, B, Hkv, Sk, D),
      v(*context, type, B, Hkv, Sk, D), o(*context, type, B, H, Sq, D),
      lse(*context, ElementType::f32, B, H, Sq, 1);
  q.randomize(1), k.randomize(2), v.randomize(3);
  test::GradientReference reference;
  std::vector<double> sums, baseSums;
  reference.exact = forward(sequences, q, k, v, /*base=*/false, sums, &reference.sizes);
  reference.base = forward(sequences, q, k, v, /*base=*/true, baseSums);
  std::optional<Kernel> kernel = compile("forward", variant.text);
  ASSERT_TRUE(kernel && o.memory.poison().ok() && lse.memory.poison().ok());
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
  arguments.scalars = scalars;
  addCaptures(arguments, Sk);
  launch(*kernel, arguments);
  // Of a row with few keys the honest kernel's error may be nothing, by chance.
  expectNear("o", o.type, o.download(), reference, /*rows=*/30);
  expectLse(lse.download(), sums);
}

void Algorithms::expectGradients(const std::string &algorithm, const std::string &schedule) {
  ElementType type = place.type;
  Values q(*context, type, B, H, Sq, D), k(*context, type, B, Hkv, Sk, D),
      v(*context, type, B, Hkv, Sk, D), o(*context, type, B, H, Sq, D),
      dO(*context, type, B, H, Sq, D), lse(*context, ElementType::f32, B, H, Sq, 1),
      dq(*context, type, B, H, Sq, D), dk(*context, type, B, Hkv, Sk, D),
      dv(*context, type, B, Hkv, Sk, D);
  q.randomize(1), k.randomize(2), v.randomize(3), dO.randomize(4);
  std::vector<double> sums;
  o.set(forward(sequences, q, k, v, /*base=*/false, sums));
  lse.set(sums);
  std::optional<Kernel> kernel = compile(algorithm, variant.text, {}, schedule);
  ASSERT_TRUE(kernel);
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
  arguments.tensors = {{"do", dO.memory.device()},
                       {"dq", dq.memory.device()},
                       {"dk", dk.memory.device()},
                       {"dv", dv.memory.device()}};
  arguments.scalars = scalars;
  addCaptures(arguments, Sk);
  Gradients reference;
  for (bool base : {false, true})
    differentiate(q, k, v, o, dO, lse, base, reference);
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (Values *result : {&dq, &dk, &dv})
      ASSERT_TRUE(result->memory.poison().ok());
    launch(*kernel, arguments);
    expectNear("dq", dq.type, dq.download(), reference.dq);
    expectNear("dk", dk.type, dk.download(), reference.dk);
    expectNear("dv", dv.type, dv.download(), reference.dv);
  }
}

TEST_P(Algorithms, Backward) { expectGradients("backward", place.schedule); }

// Its tiles of dQ have a row for each query of a block: with warpgroups 64 for each of them. What
// does not fit in the registers of two of them fits in those of one.
TEST_P(Algorithms, BackwardFused) {
  std::string schedule = place.schedule;
  if (schedule == "consumers = 2")
    schedule = D > 64 ? "consumers = 1, block_m = 64, block_n = 64, stages = 1"
                      : "consumers = 2, block_m = 128, block_n = 128, stages = 1";
  else if (schedule == "consumers = 0")
    schedule += ", block_m = 64, block_n = 64, warps = 4, stages = 1";
  expectGradients("backward_fused", schedule);
}

// O and the gradients with the pairs that the launch drops left out of the products.
TEST_P(Algorithms, Dropout) {
  constexpr double p = 0.2;
  constexpr uint64_t seed = 77, offset = 5;
  dropout = true;
  scalars = dropoutScalars(p, seed, offset);
  weight = [](int b, const Pair &pair) {
    bool dropped =
        isDropped(p, seed, offset, uint32_t(b * H + pair.h), uint32_t(pair.q), uint32_t(pair.k));
    return dropped ? 0 : 1 / (1 - double(float(p)));
  };
  expectForward();
  expectGradients("backward", place.schedule);
}

TEST_P(Algorithms, SplitKeys) {
  ElementType type = place.type;
  Values q(*context, type, B, H, Sq, D), k(*context, type, B, Hkv, Sk, D),
      v(*context, type, B, Hkv, Sk, D), o(*context, ElementType::f32, B, H, Sq, D),
      lse(*context, ElementType::f32, B, H, Sq, 1);
  q.randomize(1), k.randomize(2), v.randomize(3);
  test::GradientReference reference;
  std::vector<double> sums, baseSums;
  reference.exact = forward(sequences, q, k, v, /*base=*/false, sums, &reference.sizes);
  reference.base = forward(sequences, q, k, v, /*base=*/true, baseSums);
  std::optional<Kernel> combine = compile("combine", "", {"output=f32"});
  ASSERT_TRUE(combine);
  for (int parts : {1, 3, 128}) {
    SCOPED_TRACE(std::to_string(parts) + " parts");
    std::optional<Kernel> split =
        compile("forward_split", variant.text, {"parts=" + std::to_string(parts)});
    ASSERT_TRUE(split);
    Values oParts(*context, ElementType::f32, parts * B, H, Sq, D),
        lseParts(*context, ElementType::f32, parts * B, H, Sq, 1);
    for (Values *result : {&oParts, &lseParts, &o, &lse})
      ASSERT_TRUE(result->memory.poison().ok());
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device();
    arguments.tensors = {{"o_parts", oParts.memory.device()}, {"lse_parts", lseParts.rows()}};
    captures.clear();
    addCaptures(arguments, Sk);
    launch(*split, arguments);
    LaunchArguments joined;
    joined.o = o.memory.device(), joined.lse = lse.rows();
    joined.tensors = arguments.tensors;
    joined.scalars = {{"parts", double(parts)}};
    launch(*combine, joined);
    // Of a row with few keys the honest kernel's error may be nothing, by chance.
    expectNear("o", o.type, o.download(), reference, /*rows=*/30);
    expectLse(lse.download(), sums);
  }
}

INSTANTIATE_TEST_SUITE_P(Host, Algorithms,
                         testing::Combine(testing::ValuesIn(hostPlaces),
                                          testing::Range(0, int(attentions.size()))),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, Algorithms,
                         testing::Combine(testing::ValuesIn(gpuPlaces),
                                          testing::Range(0, int(attentions.size()))),
                         nameOfCase);

} // namespace
