//===- DropoutTest.cpp - Every kernel drops the same pairs ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Checks each single pair that kernels drop, forward and backward: on the host, and on a GPU with
// mma.sync and with wgmma. Queries are zeros, so P is the same for all pairs. Values (or gradients)
// are unit vectors, so each element of a result belongs to one pair.
//
//===----------------------------------------------------------------------===//
#include "AlgorithmCase.h"
#include "DropoutRule.h"

#include <cmath>

using namespace tesela;

namespace {

constexpr int B = 2, H = queryHeads, Hkv = keyHeads, Sq = 150, Sk = 201;
constexpr double probability = 0.3;
constexpr uint64_t seed = 0x123456789ABCDEF0, offset = 0x1200000034;

class DropoutPairs : public AlgorithmCase {
protected:
  DropoutPairs() { dropout = true; }

  static bool drops(int b, int h, int q, int k) {
    return isDropped(probability, seed, offset, uint32_t(b * H + h), uint32_t(q), uint32_t(k));
  }

  /// Sets row `first` + d to the unit vector d, for heads with has(head). All other rows are 0.
  void setUnits(Values &values, int first, const std::function<bool(int head)> &has) {
    std::vector<double> units(values.values.size(), 0);
    for (int b = 0; b < values.batches; ++b)
      for (int h = 0; h < values.heads; ++h)
        for (int d = 0; d < D && first + d < values.length && has(h); ++d)
          units[values.at({b, first + d}, h) + d] = 1;
    values.set(units);
  }

  void expectForward(const std::string &schedule) {
    SCOPED_TRACE(schedule);
    ElementType type = place.type;
    Values q(*context, type, B, H, Sq, D), k(*context, type, B, Hkv, Sk, D),
        v(*context, type, B, Hkv, Sk, D), o(*context, type, B, H, Sq, D);
    q.set(q.values), k.randomize(2);
    std::optional<Kernel> kernel = compile("forward", variant.text, {}, schedule);
    ASSERT_TRUE(kernel);
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device(), arguments.o = o.memory.device();
    arguments.scalars = dropoutScalars(probability, seed, offset);
    for (int first = 0; first < Sk; first += D) {
      setUnits(v, first, [](int) { return true; });
      ASSERT_TRUE(o.memory.poison().ok());
      launch(*kernel, arguments);
      std::vector<float> out = o.download();
      for (int b = 0; b < B; ++b)
        for (int h = 0; h < H; ++h)
          for (int i = 0; i < Sq; ++i)
            for (int d = 0; d < D && first + d < Sk; ++d) {
              Pair pair{h, i, first + d};
              bool kept = variant.keeps(pair, documents) && !drops(b, h, i, first + d);
              ASSERT_EQ(out[o.at({b, i}, h) + d] != 0, kept)
                  << b << " " << h << " " << i << " " << first + d;
            }
    }
  }

  /// Checks dV, with a gradient only in one of the two heads that share a key head.
  void expectBackward(const std::string &algorithm, const std::string &schedule) {
    SCOPED_TRACE(algorithm + ": " + schedule);
    ElementType type = place.type;
    Values q(*context, type, B, H, Sq, D), k(*context, type, B, Hkv, Sk, D),
        v(*context, type, B, Hkv, Sk, D), o(*context, type, B, H, Sq, D),
        dO(*context, type, B, H, Sq, D), lse(*context, ElementType::f32, B, H, Sq, 1),
        dq(*context, type, B, H, Sq, D), dk(*context, type, B, Hkv, Sk, D),
        dv(*context, type, B, Hkv, Sk, D);
    q.set(q.values), k.randomize(2), v.randomize(3), o.set(o.values);
    lse.set(std::vector<double>(lse.values.size(), 0));
    std::optional<Kernel> kernel = compile(algorithm, variant.text, {}, schedule);
    ASSERT_TRUE(kernel);
    LaunchArguments arguments;
    arguments.q = q.memory.device(), arguments.k = k.memory.device();
    arguments.v = v.memory.device(), arguments.o = o.memory.device(), arguments.lse = lse.rows();
    arguments.tensors = {{"do", dO.memory.device()},
                         {"dq", dq.memory.device()},
                         {"dk", dk.memory.device()},
                         {"dv", dv.memory.device()}};
    arguments.scalars = dropoutScalars(probability, seed, offset);
    for (int shared = 0; shared < H / Hkv; ++shared)
      for (int first = 0; first < Sq; first += D) {
        setUnits(dO, first, [&](int h) { return h % (H / Hkv) == shared; });
        ASSERT_TRUE(dv.memory.poison().ok());
        launch(*kernel, arguments);
        std::vector<float> out = dv.download();
        for (int b = 0; b < B; ++b)
          for (int hkv = 0; hkv < Hkv; ++hkv)
            for (int j = 0; j < Sk; ++j)
              for (int d = 0; d < D && first + d < Sq; ++d) {
                int h = hkv * (H / Hkv) + shared;
                bool kept =
                    variant.keeps({h, first + d, j}, documents) && !drops(b, h, first + d, j);
                ASSERT_EQ(out[dv.at({b, j}, hkv) + d] != 0, kept)
                    << b << " " << h << " " << first + d << " " << j;
              }
      }
  }

  std::vector<std::string> schedulesOfForward() const {
    std::string own = place.schedule;
    if (own == "consumers = 0")
      return {own, own + ", block_m = 64, block_n = 32, warps = 4",
              own + ", block_m = 128, block_n = 64, warps = 8"};
    if (own == "consumers = 2")
      return {own, "consumers = 1, block_n = 80", "consumers = 2, block_n = 96, overlap = false"};
    return {own, "block_m = 8, block_n = 16", "block_m = 24, block_n = 48",
            "block_m = 128, block_n = 112"};
  }
};

TEST_P(DropoutPairs, Forward) {
  for (const std::string &schedule : schedulesOfForward())
    expectForward(schedule);
}

TEST_P(DropoutPairs, Backward) {
  expectBackward("backward", place.schedule);
  if (std::string(place.device) == "host")
    for (const char *schedule : {"block_m = 8, block_n = 16", "block_m = 48, block_n = 80"})
      expectBackward("backward", schedule);
}

TEST_P(DropoutPairs, BackwardFused) {
  std::string schedule = place.schedule;
  if (schedule == "consumers = 2")
    schedule = D > 64 ? "consumers = 1, block_m = 64, block_n = 64, stages = 1"
                      : "consumers = 2, block_m = 128, block_n = 128, stages = 1";
  else if (schedule == "consumers = 0")
    schedule += ", block_m = 64, block_n = 64, warps = 4, stages = 1";
  expectBackward("backward_fused", schedule);
}

// Nothing is dropped with probability 0, everything with 1.
TEST_P(DropoutPairs, EndsOfTheProbability) {
  ElementType type = place.type;
  Values q(*context, type, B, H, Sq, D), k(*context, type, B, Hkv, Sk, D),
      v(*context, type, B, Hkv, Sk, D), o(*context, type, B, H, Sq, D),
      plain(*context, type, B, H, Sq, D), lse(*context, ElementType::f32, B, H, Sq, 1);
  q.randomize(1), k.randomize(2), v.randomize(3);
  std::optional<Kernel> kernel = compile("forward", variant.text);
  dropout = false;
  std::optional<Kernel> without = compile("forward", variant.text);
  ASSERT_TRUE(kernel && without);
  LaunchArguments arguments;
  arguments.q = q.memory.device(), arguments.k = k.memory.device();
  arguments.v = v.memory.device(), arguments.o = plain.memory.device(), arguments.lse = lse.rows();
  ASSERT_TRUE(plain.memory.poison().ok() && lse.memory.poison().ok());
  launch(*without, arguments);
  std::vector<float> expected = plain.download(), sums = lse.download();
  arguments.o = o.memory.device();
  for (double p : {0.0, 1.0}) {
    ASSERT_TRUE(o.memory.poison().ok() && lse.memory.poison().ok());
    arguments.scalars = dropoutScalars(p, seed, offset);
    launch(*kernel, arguments);
    std::vector<float> out = o.download();
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], p == 0 ? expected[i] : 0) << i;
    EXPECT_EQ(lse.download(), sums) << p;
  }
  for (double p : {-0.1, 1.5, std::nan("")}) {
    arguments.scalars = dropoutScalars(p, seed, offset);
    Status refused = kernel->launch(arguments);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message().find("it must lie in [0, 1]"), std::string::npos)
        << refused.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(Host, DropoutPairs,
                         testing::Combine(testing::ValuesIn(hostPlaces), testing::Range(0, 3)),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Gpu, DropoutPairs,
                         testing::Combine(testing::ValuesIn(gpuPlaces), testing::Range(0, 3)),
                         nameOfCase);

} // namespace
