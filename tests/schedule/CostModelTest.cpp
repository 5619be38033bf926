//===- CostModelTest.cpp - Orders that were measured ----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/CostModel.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace tesela;

namespace {

/// A launch as in docs/method.md: batch times length is 16384, heads times D is 2048.
struct Case {
  int headDim;
  bool isCausal;
  int32_t length;
  int sm = 90;
};

CostedLaunch launchOf(const Case &each) {
  int32_t heads = 2048 / each.headDim;
  return {.headDimQk = each.headDim,
          .headDimV = each.headDim,
          .isMasked = each.isCausal,
          .extents = {std::max(16384 / each.length, 1), heads, heads, each.length, each.length}};
}

/// The numbers of full and partial tiles in every row of blocks.
std::vector<RowTiles> rowsOf(const Case &each, const Schedule &schedule) {
  std::vector<RowTiles> rows;
  int64_t m = rowPositions(schedule), n = schedule.blockN;
  for (int64_t first = 0; first < each.length; first += m) {
    int64_t all = (each.length + n - 1) / n;
    int64_t reached = each.isCausal ? std::min(all, (first + m + n - 1) / n) : all;
    int64_t full = each.isCausal ? std::min(reached, (first + 1) / n) : each.length / n;
    rows.push_back({full, reached - full});
  }
  return rows;
}

/// The time in ms that the model predicts for the heuristic's schedule with `overrides`.
double predicted(const Case &each, const std::string &overrides) {
  KernelSpecification specification;
  specification.headDimQk = specification.headDimV = each.headDim;
  specification.target = {Target::Kind::cuda, each.sm};
  specification.expectedLength = each.length;
  specification.schedule = overrides;
  Result<Schedule> schedule = chooseSchedule(specification, {.isMasked = each.isCausal});
  EXPECT_TRUE(schedule.ok()) << schedule.error().message();
  if (!schedule.ok())
    return 0;
  GpuMachine machine{*chipFacts(each.sm), *chipSpeeds(each.sm),
                     sharedBytes(*schedule, specification)};
  return predictedMilliseconds(*schedule, launchOf(each), rowsOf(each, *schedule), machine);
}

struct Order {
  Case launch;
  const char *faster, *slower;
};

// Pairs of measurements (docs/log/2026-11-21-forward-sm90.md and 2026-11-23-forward-mma-sync.md)
// that differ by more than the spread of a run.
TEST(CostModel, OrdersOfTheH200AreKept) {
  const Order orders[] = {
      // Roles are twice as fast as the path of sm_80.
      {{128, false, 4096}, "", "consumers = 0"},
      {{64, true, 4096}, "", "consumers = 0"},
      {{256, false, 4096}, "", "consumers = 0"},
      // Consumers: three for long launches, two for short and masked ones.
      {{128, false, 8192}, "consumers = 3", "consumers = 2"},
      {{64, false, 4096}, "consumers = 3", "consumers = 2"},
      {{64, true, 8192}, "consumers = 3", "consumers = 2"},
      {{128, true, 512}, "consumers = 2", "consumers = 3"},
      {{64, true, 512}, "consumers = 2", "consumers = 3"},
      // Blocks: 192 × 128 at D 64; wide blocks with two consumers at D 128 causal.
      {{64, false, 1024}, "consumers = 3, block_n = 128", "consumers = 3, block_n = 96"},
      {{128, true, 2048}, "consumers = 2, block_n = 128", "consumers = 2, block_n = 64"},
      {{128, true, 2048}, "consumers = 2, block_n = 128", "consumers = 2, block_n = 96"},
      // References, overlap, persistence, query stages, turns and stages.
      {{128, false, 4096}, "reference = lazy", "reference = follow"},
      {{128, false, 4096}, "reference = recompute", "reference = lazy"},
      {{128, false, 2048}, "", "overlap = false, turns = false"},
      {{128, false, 2048}, "", "persistent = false, query_stages = 1"},
      {{64, false, 512}, "query_stages = 2", "query_stages = 1"},
      {{64, true, 2048}, "turns = true", "turns = false"},
      {{64, false, 16384}, "stages = 2", "stages = 1"},
      // Groups: for long masked launches, not for full ones.
      {{128, true, 16384}, "group_keys = 65536", "group_keys = 0"},
      {{128, false, 512}, "group_keys = 0", "group_keys = 65536"},
      // The path of sm_80: blocks of 128 × 64 with 4 warps.
      {{128, false, 4096}, "consumers = 0", "consumers = 0, block_m = 64, block_n = 64"},
      {{64, false, 4096}, "consumers = 0", "consumers = 0, block_m = 64, block_n = 64"},
      {{128, false, 4096}, "consumers = 0", "consumers = 0, warps = 8"},
      {{128, false, 4096}, "consumers = 0", "consumers = 0, block_n = 32"},
      {{128, false, 4096}, "consumers = 0", "consumers = 0, stages = 3"},
  };
  for (const Order &order : orders) {
    double faster = predicted(order.launch, order.faster);
    double slower = predicted(order.launch, order.slower);
    EXPECT_LT(faster, slower) << "D " << order.launch.headDim
                              << (order.launch.isCausal ? " causal " : " full ")
                              << order.launch.length << ": '" << order.faster << "' against '"
                              << order.slower << "'";
  }
}

// Predictions must be right to a factor, so that a budget can be planned with them.
TEST(CostModel, LevelsOfTheH200) {
  struct {
    Case launch;
    double teraflops;
  } cases[] = {{{64, false, 4096}, 589}, {{128, false, 4096}, 786}, {{256, false, 4096}, 803},
               {{64, true, 4096}, 515},  {{128, true, 4096}, 708},  {{128, false, 512}, 561},
               {{128, true, 512}, 371},  {{128, true, 16384}, 810}};
  for (auto [launch, teraflops] : cases) {
    double operations = 4.0 * 16384 * 2048 * launch.length / (launch.isCausal ? 2 : 1);
    double modelled = operations / predicted(launch, "") * 1e-9;
    EXPECT_NEAR(modelled / teraflops, 1.0, 0.3) << "D " << launch.headDim << ", " << launch.length;
  }
}

TEST(CostModel, EveryChipHasSpeeds) {
  for (int sm : {80, 86, 87, 89, 90, 100, 103, 120})
    EXPECT_TRUE(chipFacts(sm).ok() && chipSpeeds(sm).ok()) << sm;
  EXPECT_FALSE(chipSpeeds(70).ok());
}

double predictedOnHost(const Schedule &schedule, int headDim, int32_t length, int threads = 1) {
  CostedLaunch launch{.headDimQk = headDim,
                      .headDimV = headDim,
                      .elementBytes = 4,
                      .extents = {1, 2, 2, length, length}};
  std::vector<RowTiles> rows(1, {(length + schedule.blockN - 1) / schedule.blockN, 0});
  return predictedMilliseconds(schedule, launch, rows, threads);
}

Schedule hostSchedule(int64_t blockM, int64_t blockN, int64_t rows, int64_t vectors,
                      int64_t vectorLength = 8) {
  Schedule schedule;
  schedule.blockM = blockM;
  schedule.blockN = blockN;
  schedule.productRows = rows;
  schedule.productVectors = vectors;
  schedule.vectorLength = vectorLength;
  return schedule;
}

// docs/decisions/host-target.md: 6 × 2 is better than 4 × 2 on AVX2. Very small blocks load too
// often.
TEST(CostModel, OrdersOfTheHostAreKept) {
  for (int headDim : {64, 128}) {
    double best = predictedOnHost(hostSchedule(64, 64, 6, 2), headDim, 1024);
    EXPECT_LT(best, predictedOnHost(hostSchedule(64, 64, 4, 2), headDim, 1024));
    EXPECT_LT(best, predictedOnHost(hostSchedule(16, 64, 6, 2), headDim, 1024));
    EXPECT_LT(predictedOnHost(hostSchedule(64, 64, 6, 4, 16), headDim, 1024), best);
  }
  // With few queries, a large block computes the missing rows in vain.
  EXPECT_LT(predictedOnHost(hostSchedule(16, 64, 6, 2), 64, 16),
            predictedOnHost(hostSchedule(128, 64, 6, 2), 64, 16));
}

TEST(CostModel, WorkersThatHaveNothingToDoAreCounted) {
  EXPECT_DOUBLE_EQ(makespan({1}, 4, 4), 1);
  EXPECT_DOUBLE_EQ(makespan({1}, 5, 4), 2);
  EXPECT_DOUBLE_EQ(makespan({}, 0, 4), 0);
  // The longest item first: 3 + 1 and 2 + 2.
  EXPECT_DOUBLE_EQ(makespan({1, 2, 2, 3}, 4, 2), 4);
  EXPECT_NEAR(makespan({1, 3}, 2000, 2), 2000, 2);
}

} // namespace
