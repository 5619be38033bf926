//===- ScheduleTest.cpp - Which schedules are chosen and which refused ----===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Schedule.h"
#include "schedule/Workers.h"
#include "targets/host/HostSchedule.h"
#include "targets/host/VectorUnit.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

using namespace tesela;

namespace {

KernelSpecification specificationFor(const std::string &target, int headDim,
                                     const std::string &overrides = "") {
  KernelSpecification specification;
  specification.headDimQk = specification.headDimV = headDim;
  if (target != "host")
    specification.target = {Target::Kind::cuda, std::stoi(target.substr(3))};
  specification.schedule = overrides;
  return specification;
}

std::string chosen(const std::string &target, int headDim, const std::string &overrides = "") {
  Result<Schedule> schedule = chooseSchedule(specificationFor(target, headDim, overrides));
  return schedule.ok() ? schedule->text() : schedule.error().message();
}

/// What sm_90 runs; a failure of the test where it is refused.
Schedule chosenForLength(int headDimQk, int headDimV, int64_t length,
                         const VariantTraits &variant = {}) {
  KernelSpecification specification = specificationFor("sm_90", headDimQk);
  specification.headDimV = headDimV;
  specification.expectedLength = length;
  Result<Schedule> schedule = chooseSchedule(specification, variant);
  EXPECT_TRUE(schedule.ok()) << schedule.error().message();
  return schedule.ok() ? *schedule : Schedule();
}

TEST(Schedule, HeuristicFitsEveryChip) {
  for (const char *target : {"sm_80", "sm_86", "sm_87", "sm_89", "sm_100", "sm_103", "sm_120"}) {
    EXPECT_EQ(chosen(target, 64), "block_m = 128, block_n = 64, stages = 2, warps = 4, "
                                  "q_in_registers = true")
        << target;
    EXPECT_EQ(chosen(target, 128), "block_m = 128, block_n = 64, stages = 2, warps = 4, "
                                   "q_in_registers = false, reference = lazy")
        << target;
  }
}

TEST(Schedule, WarpgroupsHaveRolesOnSm90) {
  EXPECT_EQ(chosen("sm_90", 64),
            "block_m = 192, block_n = 128, stages = 4, warps = 12, q_in_registers = false, "
            "consumers = 3, reference = recompute, overlap = true, persistent = true, "
            "output_buffer = true, query_stages = 2");
  EXPECT_EQ(chosen("sm_90", 128),
            "block_m = 192, block_n = 80, stages = 2, warps = 12, q_in_registers = false, "
            "consumers = 3, reference = recompute, overlap = true, persistent = true, "
            "output_buffer = true, query_stages = 2");
  // The rest follows the number of consumers.
  EXPECT_EQ(chosen("sm_90", 128,
                   "consumers = 1, block_n = 64, reference = follow, overlap = false, "
                   "persistent = false, output_buffer = false, group_keys = 1000"),
            "block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, "
            "consumers = 1, group_keys = 1000");
  EXPECT_EQ(chosen("sm_90", 128, "consumers = 0"), chosen("sm_80", 128));
}

// Two thread blocks of few rows hide each other's waits, where a multiprocessor has room for them.
TEST(Schedule, WidestHeadsShareAMultiprocessor) {
  for (const char *target : {"sm_100", "sm_103"})
    EXPECT_EQ(chosen(target, 256),
              "block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false")
        << target;
  for (const char *target : {"sm_80", "sm_87"})
    EXPECT_EQ(chosen(target, 256),
              "block_m = 128, block_n = 32, stages = 2, warps = 8, q_in_registers = false")
        << target;
  for (const char *target : {"sm_86", "sm_89", "sm_120"})
    EXPECT_EQ(chosen(target, 256),
              "block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false")
        << target;
  Result<Schedule> ofBias =
      chooseSchedule(specificationFor("sm_100", 256), {.hasScore = true, .hasCaptures = true});
  ASSERT_TRUE(ofBias.ok());
  EXPECT_EQ(ofBias->blockM, 128);
  EXPECT_EQ(chosen("sm_100", 192),
            "block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false");
}

// Three consumers reuse each key more, two waste less of short and of masked rows of blocks.
TEST(Schedule, ConsumersFollowTheExpectedLength) {
  struct {
    int headDim;
    bool isMasked;
    int64_t longestOfTwo;
  } cases[] = {{64, false, 0}, {64, true, 2047}, {128, false, 2047}, {128, true, 8191}};
  for (auto [headDim, isMasked, longestOfTwo] : cases) {
    SCOPED_TRACE(testing::Message() << headDim << (isMasked ? ", masked" : ", all"));
    VariantTraits variant{.isMasked = isMasked};
    EXPECT_EQ(chosenForLength(headDim, headDim, 0, variant).consumers, 3);
    EXPECT_EQ(chosenForLength(headDim, headDim, longestOfTwo + 1, variant).consumers, 3);
    if (longestOfTwo > 0) {
      EXPECT_EQ(chosenForLength(headDim, headDim, longestOfTwo, variant).consumers, 2);
      EXPECT_EQ(chosenForLength(headDim, headDim, 1, variant).consumers, 2);
    }
  }
}

// Several runs of keys and tests of blocks take registers that three consumers do not have.
TEST(Schedule, ScatteredTilesHaveTwoConsumers) {
  for (int headDim : {64, 128})
    EXPECT_EQ(
        chosenForLength(headDim, headDim, 0, {.isMasked = true, .isScattered = true}).consumers, 2);
}

// Beside their tiles consumers hold what masks read.
TEST(Schedule, TestedTilesAreNarrow) {
  VariantTraits tested{
      .isMasked = true, .hasCaptures = true, .isScattered = true, .isTested = true};
  for (auto [headDim, blockN] : {std::pair(64, 128), {128, 128}, {192, 64}, {256, 48}}) {
    Schedule schedule = chosenForLength(headDim, headDim, 0, tested);
    EXPECT_EQ(schedule.blockN, blockN) << headDim;
    EXPECT_EQ(schedule.reference,
              headDim == 256 ? ScheduleReference::lazy : ScheduleReference::recompute)
        << headDim;
  }
  tested.testsMuch = true;
  for (auto [headDim, blockN] : {std::pair(64, 96), {128, 96}, {192, 64}, {256, 32}}) {
    Schedule schedule = chosenForLength(headDim, headDim, 0, tested);
    EXPECT_EQ(schedule.blockN, blockN) << headDim;
    EXPECT_EQ(schedule.reference, ScheduleReference::lazy) << headDim;
  }
  tested.readsBooleans = true;
  for (auto [headDim, blockN] : {std::pair(64, 80), {128, 80}, {192, 64}, {256, 32}})
    EXPECT_EQ(chosenForLength(headDim, headDim, 0, tested).blockN, blockN) << headDim;
}

// As do the rounds of a reduction, beside which no product of another block has its registers.
TEST(Schedule, ReductionsHaveTwoConsumersWithoutOverlap) {
  for (auto [headDim, blockN] : {std::pair(64, 128), {128, 128}, {192, 80}, {256, 48}}) {
    Schedule schedule =
        chosenForLength(headDim, headDim, 0, {.hasScore = true, .hasReductions = true});
    EXPECT_EQ(schedule.blockN, blockN) << headDim;
    EXPECT_EQ(schedule.consumers, 2) << headDim;
    EXPECT_FALSE(schedule.overlap || schedule.turns) << headDim;
  }
}

// Tiles by chance keep little of a wide block.
TEST(Schedule, TestedReductionsAreNarrow) {
  for (int headDim : {64, 128}) {
    Schedule schedule = chosenForLength(headDim, headDim, 0,
                                        {.isMasked = true,
                                         .hasCaptures = true,
                                         .isScattered = true,
                                         .isTested = true,
                                         .hasReductions = true});
    EXPECT_EQ(schedule.blockN, 64) << headDim;
    EXPECT_EQ(schedule.consumers, 2) << headDim;
  }
}

// 16 bytes of a row are eight columns of four lanes.
TEST(Schedule, HalvesOfPairsHaveTwoConsumers) {
  VariantTraits variant{.hasScore = true, .hasCaptures = true};
  EXPECT_EQ(chosenForLength(128, 128, 0, variant).consumers, 3);
  variant.readsHalves = true;
  for (int headDim : {64, 128}) {
    Schedule schedule = chosenForLength(headDim, headDim, 0, variant);
    EXPECT_EQ(schedule.consumers, 2) << headDim;
    EXPECT_EQ(schedule.blockN, 128) << headDim;
  }
}

/// What `target` runs for launches of `queries` queries and many keys.
Schedule chosenForQueries(const std::string &target, int headDim, int64_t queries) {
  KernelSpecification specification = specificationFor(target, headDim);
  specification.expectedQueries = queries;
  Result<Schedule> schedule = chooseSchedule(specification, {.isMasked = true});
  EXPECT_TRUE(schedule.ok()) << schedule.error().message();
  return schedule.ok() ? *schedule : Schedule();
}

// The rows that few queries would leave empty are other heads'.
TEST(Schedule, FewQueriesShareTheirRows) {
  for (const char *target : {"sm_80", "sm_90"})
    for (int headDim : {64, 128}) {
      SCOPED_TRACE(testing::Message() << target << ", " << headDim);
      for (auto [queries, heads] : {std::pair(1, 64), {2, 32}, {3, 16}, {4, 16}, {9, 4}, {32, 2}}) {
        Schedule schedule = chosenForQueries(target, headDim, queries);
        EXPECT_EQ(schedule.blockM, 64) << queries;
        EXPECT_EQ(schedule.heads, heads) << queries;
      }
      for (auto [queries, heads] : {std::pair(0, 1), {33, 2}, {64, 2}, {65, 1}, {1000, 1}}) {
        Schedule schedule = chosenForQueries(target, headDim, queries);
        EXPECT_GE(schedule.blockM, 128) << queries;
        EXPECT_EQ(schedule.heads, heads) << queries;
      }
    }
  EXPECT_EQ(chosenForQueries("sm_90", 128, 1).consumers, 1);
  EXPECT_EQ(chosenForQueries("sm_90", 256, 1).consumers, 1);
  // Of 192 rows a chunk of 512 would leave a third of the last ones empty.
  EXPECT_EQ(chosenForQueries("sm_90", 128, 512).consumers, 2);
  EXPECT_EQ(chosenForQueries("sm_90", 128, 513).consumers, 3);
  EXPECT_TRUE(chosenForQueries("sm_90", 128, 1).text().find(", heads = 64") != std::string::npos);
  // More rows have room for more heads.
  EXPECT_TRUE(chosen("sm_90", 128, "consumers = 2, heads = 64").find(", heads = 64") !=
              std::string::npos);
}

// Keys in parts: 16 rows that read the same keys are one warp's, where there is work for four a
// multiprocessor and their number of queries, heads and masks were measured.
TEST(Schedule, FewQueriesInPartsAreOneWarps) {
  struct Case {
    int64_t warps, queries = 1;
    int headDim = 128;
    std::vector<std::string> more;
    int workers = 528;
  } const cases[] = {{1},
                     {1, 4},
                     {1, 1, 96},
                     {4, 5},
                     {4, 1, 64},
                     {4, 1, 256},
                     {4, 1, 128, {"prefix=shared"}},
                     {4, 1, 128, {}, 396},
                     {1, 1, 64, {"cache=e4m3"}}};
  for (const Case &each : cases) {
    SCOPED_TRACE(
        fmt::format("{} queries, D {}, {} workers", each.queries, each.headDim, each.workers));
    KernelSpecification specification = specificationFor("sm_90", each.headDim);
    specification.algorithm = partsAlgorithm;
    specification.expectedQueries = each.queries;
    specification.bindings = each.more;
    specification.bindings.push_back(fmt::format("workers={}", each.workers));
    Result<Schedule> schedule = chooseSchedule(specification, {});
    ASSERT_TRUE(schedule.ok()) << schedule.error().message();
    EXPECT_EQ(schedule->warps, each.warps) << schedule->text();
    EXPECT_EQ(schedule->consumers > 0, each.warps > 1) << schedule->text();
  }
}

// Four thread blocks of one warp run at once on a multiprocessor, eight where keys have 8 bits, and
// two of more warps; several sequences have twice as many shares, if they are not equal.
TEST(Schedule, WorkersFollowWhatRunsAtOnce) {
  struct Case {
    SharedKeys launch;
    int64_t times; ///< the multiprocessors
    int headDim = 128;
    bool isNarrow = false;
  };
  auto launch = [](int64_t batch, int64_t queries, int64_t keys) {
    return SharedKeys{132, batch, 32, 8, queries, keys};
  };
  const Case cases[] = {
      {launch(1, 1, 131072), 2},
      {launch(16, 1, 8192), 8},
      {launch(128, 1, 4096), 8},
      {launch(16, 5, 8192), 4},     // too many rows for one warp
      {launch(16, 1, 8192), 4, 64}, // not measured
      {launch(2, 1, 8192), 3},      // too few for one warp
      {launch(1, 64, 32768), 1},
      {launch(4, 64, 32768), 2},
      {launch(64, 1, 8192), 2, 576},
      {launch(1, 1, 131072), 8, 128, true},
      {launch(64, 1, 8192), 8, 128, true},
      {launch(128, 1, 4096), 4, 128, true},
      {launch(1, 1, 8192), 2, 128, true},
      {SharedKeys{114, 128, 32, 8, 1, 4096}, 4, 128, true}, // cards with fewer multiprocessors
      {SharedKeys{114, 2, 32, 8, 1, 7000}, 3},
  };
  for (const Case &each : cases) {
    SCOPED_TRACE(fmt::format("B {}, {} queries, {} keys, D {}", each.launch.batch,
                             each.launch.queries, each.launch.keys, each.headDim));
    KernelSpecification specification = specificationFor("sm_90", each.headDim);
    specification.algorithm = partsAlgorithm;
    if (each.isNarrow)
      specification.bindings = {"cache=e4m3"};
    int64_t workers = workersFor(specification, each.launch);
    EXPECT_EQ(workers, each.times * each.launch.processors);
    // And it is one warp's where that was meant.
    specification.expectedQueries = each.launch.queries;
    specification.bindings.push_back(fmt::format("workers={}", workers));
    bool isOneWarps =
        each.launch.queries <= 4 && each.headDim == 128 && workers >= 4 * each.launch.processors;
    EXPECT_EQ(suitsOneWarp(specification, {}), isOneWarps);
  }
  EXPECT_EQ(workersFor(specificationFor("host", 128), launch(16, 1, 8192)), 132);
  EXPECT_EQ(sharesOfEqual(specificationFor("host", 128)), 1);
}

TEST(Schedule, FollowsTheVariant) {
  // Keys and values of 32 MiB, 512 bytes each here.
  EXPECT_EQ(chosenForLength(128, 128, 0, {.isMasked = true}).groupKeys, 65536);
  EXPECT_EQ(chosenForLength(128, 128, 0).groupKeys, 0);
  // What captured tensors decide is few and unequal: as many heads as there may be.
  VariantTraits tested{.isMasked = true, .isScattered = true, .isTested = true};
  EXPECT_EQ(chosenForLength(128, 128, 0, tested).groupKeys, 65536);
  tested.hasCaptures = true;
  EXPECT_EQ(chosenForLength(128, 128, 0, tested).groupKeys, 1 << 20);
  // Recomputing a score of captured tensors takes more registers than it saves time.
  EXPECT_EQ(chosenForLength(128, 128, 0, {.hasScore = true}).reference,
            ScheduleReference::recompute);
  EXPECT_EQ(chosenForLength(64, 64, 0, {.hasScore = true}).reference, ScheduleReference::lazy);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.hasScore = true, .hasCaptures = true}).reference,
            ScheduleReference::lazy);
  // Captured tensors take registers; two consumers have enough.
  EXPECT_EQ(chosenForLength(64, 64, 0, {.isMasked = true, .hasCaptures = true}).blockN, 112);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.isMasked = true, .hasCaptures = true}).blockN, 80);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.hasScore = true, .hasCaptures = true}).blockN, 80);
  EXPECT_EQ(chosenForLength(128, 128, 1024, {.hasScore = true, .hasCaptures = true}).blockN, 128);
}

// Where items are short, and both fit.
TEST(Schedule, QueriesOfTheNextItemAreLoadedAheadWhereItPays) {
  EXPECT_EQ(chosenForLength(128, 128, 0).queryStages, 2);
  EXPECT_EQ(chosenForLength(64, 64, 0, {.isMasked = true}).queryStages, 2);
  EXPECT_EQ(chosenForLength(128, 128, 2048, {.isMasked = true}).queryStages, 2);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.isMasked = true}).queryStages, 1);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.isMasked = true, .isScattered = true, .isTested = true})
                .queryStages,
            2);
  EXPECT_EQ(chosenForLength(256, 256, 0).queryStages, 1);
  // Overrides of other choices leave it no room, or no next item.
  for (const char *others : {"stages = 3", "output_buffer = false", "persistent = false"})
    EXPECT_EQ(chosen("sm_90", 128, others).find("query_stages"), std::string::npos) << others;
}

TEST(Schedule, WarpgroupsTakeTurnsWhereItPays) {
  EXPECT_FALSE(chosenForLength(64, 64, 0).turns);
  EXPECT_TRUE(chosenForLength(64, 64, 2048).turns);
  EXPECT_TRUE(chosenForLength(64, 64, 0, {.isMasked = true}).turns);
  EXPECT_FALSE(chosenForLength(64, 64, 1024, {.isMasked = true}).turns); // two consumers
  EXPECT_FALSE(chosenForLength(128, 128, 0, {.isMasked = true}).turns);
  EXPECT_TRUE(chosenForLength(128, 128, 0, {.hasScore = true, .hasCaptures = true}).turns);
}

TEST(Schedule, RangesThatArePartialOnBothSidesGoFromTheLastKeys) {
  EXPECT_TRUE(chosenForLength(128, 128, 0, {.isMasked = true, .isScattered = true}).lastKeysFirst);
  EXPECT_FALSE(chosenForLength(128, 128, 0, {.isMasked = true}).lastKeysFirst);
  EXPECT_TRUE(
      chosenForLength(128, 128, 0, {.isMasked = true, .isScattered = true, .isTested = true})
          .lastKeysFirst);
}

// Items begin beside the end of the one before where they are short and the registers suffice.
TEST(Schedule, ShortItemsOverlap) {
  const VariantTraits causal{.isMasked = true}, window{.isMasked = true, .isScattered = true};
  EXPECT_EQ(chosenForLength(128, 128, 0).queryStages, 2);
  EXPECT_EQ(chosenForLength(128, 128, 0, causal).queryStages, 1);
  EXPECT_EQ(chosenForLength(128, 128, 1024, causal).queryStages, 2);
  EXPECT_EQ(chosenForLength(128, 128, 0, window).queryStages, 2);
  VariantTraits longMask{
      .isMasked = true, .isScattered = true, .isTested = true, .testsMuch = true};
  EXPECT_EQ(chosenForLength(128, 128, 0, longMask).queryStages, 1);
  const VariantTraits bias{.hasScore = true, .hasCaptures = true};
  EXPECT_EQ(chosenForLength(128, 128, 0, bias).queryStages, 1);
  EXPECT_EQ(chosenForLength(128, 128, 512, bias).queryStages, 2);
  EXPECT_EQ(chosenForLength(64, 256, 0, bias).queryStages, 1);
}

// A score that is computed as masks are leaves three consumers fewer registers.
TEST(Schedule, ExactScoresHaveNarrowTiles) {
  EXPECT_EQ(chosenForLength(128, 128, 0, {.hasScore = true}).blockN, 80);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.hasScore = true, .hasExactScore = true}).blockN, 64);
}

// Each is within the chip's shared memory and registers, or chooseSchedule would refuse it.
TEST(Schedule, AllHeadsFitSm90) {
  for (int headDimQk = 8; headDimQk <= 256; headDimQk += 8)
    for (int headDimV = 8; headDimV <= 256; headDimV += 8)
      for (int64_t length : {0, 512})
        for (bool isMasked : {false, true})
          for (bool hasScore : {false, true}) {
            SCOPED_TRACE(testing::Message() << headDimQk << " and " << headDimV);
            Schedule schedule =
                chosenForLength(headDimQk, headDimV, length,
                                {.isMasked = isMasked, .hasScore = hasScore, .hasCaptures = true});
            EXPECT_GE(schedule.blockN, 48);
            if (headDimV > 128) {
              EXPECT_EQ(schedule.consumers, 2);
            }
          }
}

TEST(Schedule, AllHeadsFitEveryChip) {
  for (const char *target : {"sm_80", "sm_86", "sm_89", "sm_100", "sm_120"})
    for (int headDimQk = 8; headDimQk <= 256; headDimQk += 8)
      for (int headDimV = 8; headDimV <= 256; headDimV += 8)
        for (int64_t queries : {0, 1}) {
          SCOPED_TRACE(testing::Message()
                       << target << ", " << headDimQk << " and " << headDimV << ", " << queries);
          KernelSpecification specification = specificationFor(target, headDimQk);
          specification.headDimV = headDimV;
          specification.expectedQueries = queries;
          Result<Schedule> schedule = chooseSchedule(specification);
          ASSERT_TRUE(schedule.ok()) << schedule.error().message();
          EXPECT_GE(schedule->blockN, 16);
        }
}

TEST(Schedule, CountsThreads) {
  EXPECT_EQ((Schedule{.warps = 4}).threads(), 128);
  EXPECT_EQ((Schedule{.warps = 12, .consumers = 3}).threads(), 512);
}

TEST(Schedule, OverridesReplaceSingleChoices) {
  EXPECT_EQ(chosen("sm_80", 64, "block_m=64 , stages = 3"),
            "block_m = 64, block_n = 64, stages = 3, warps = 4, q_in_registers = true");
  EXPECT_EQ(
      chosen("sm_80", 64, "q_in_registers = false, warps = 8, block_n = 32, reference = lazy"),
      "block_m = 128, block_n = 32, stages = 2, warps = 8, q_in_registers = false, "
      "reference = lazy");
  EXPECT_EQ(chosen("host", 64,
                   "block_m = 8, block_n = 16, lanes = 4, product_rows = 3, product_vectors = 2"),
            "block_m = 8, block_n = 16, stages = 1, warps = 1, q_in_registers = false, lanes = 4, "
            "product_rows = 3, product_vectors = 2");
}

TEST(Schedule, CountsSharedMemory) {
  Schedule schedule{.blockM = 128, .blockN = 64, .stages = 2, .warps = 4};
  // 2 bytes · (128 · 128 + 2 · 64 · (128 + 128)); 272 for each warp that finds blocks.
  EXPECT_EQ(sharedBytes(schedule, specificationFor("sm_80", 128)), 98304 + 4 * 272);
  // And two barriers of 8 bytes for each part of the queries and each stage of keys and values; one
  // warp finds blocks, and tells of them through channels of 2 and 32 stages, and with the keys.
  schedule.consumers = 2;
  int64_t finding = 272 + (2 + 32) * (16 + 16) + 2 * 16;
  EXPECT_EQ(sharedBytes(schedule, specificationFor("sm_90", 128)),
            98304 + 16 * (2 + 2 + 2) + finding);
  // The output's own buffer; the two stages of work items, with two barriers and 16 bytes each; the
  // last item.
  schedule.outputBuffer = schedule.persistent = true;
  EXPECT_EQ(sharedBytes(schedule, specificationFor("sm_90", 128)),
            98304 + 96 + 2 * 128 * 128 + 2 * (2 * 8 + 16) + 16 + finding);
  // A second buffer of queries, and its barriers.
  schedule.queryStages = 2;
  EXPECT_EQ(sharedBytes(schedule, specificationFor("sm_90", 128)),
            98304 + 96 + 2 * (2 * 128 * 128 + 16) + 2 * (2 * 8 + 16) + 16 + finding);
}

// Whether products of pairs of bf16 are worth it is a fact of the CPU, not of its features.
TEST(Schedule, PairsOfBf16AreTheCpusChoice) {
  const std::set<std::string> features = {"avx512f", "avx512dq", "avx512vl", "avx512bw",
                                          "avx512bf16"};
  auto arePairs = [&](const char *cpu, ElementType type, const std::set<std::string> &has) {
    return hostChoices(type, 0, false, vectorUnitOf(cpu, has)).productPairs;
  };
  for (const char *cpu : {"znver4", "znver5"})
    EXPECT_TRUE(arePairs(cpu, ElementType::bf16, features)) << cpu;
  for (const char *cpu : {"cooperlake", "sapphirerapids", "graniterapids", "not a cpu"})
    EXPECT_FALSE(arePairs(cpu, ElementType::bf16, features)) << cpu;
  EXPECT_FALSE(arePairs("znver4", ElementType::f16, features));
  EXPECT_FALSE(arePairs("znver4", ElementType::bf16, {"avx2", "fma", "f16c"}))
      << "a masked feature";
}

// Large blocks read keys less often; of short or scattered runs they compute more in vain.
TEST(Schedule, BlocksOfTheHostFollowTheRunsOfKeys) {
  VariantTraits window = {.isMasked = true, .isScattered = true};
  for (auto [length, queries, variant, extent] : {std::tuple(4096, 0, VariantTraits(), 128),
                                                  {4096, 2049, {}, 128},
                                                  {4096, 2048, {}, 64},
                                                  {8192, 40, {}, 64},
                                                  {4095, 4095, {}, 64},
                                                  {0, 0, {}, 64},
                                                  {4096, 4096, window, 64}}) {
    SCOPED_TRACE(testing::Message() << queries << " x " << length);
    KernelSpecification specification = specificationFor("host", 128);
    specification.expectedLength = length;
    specification.expectedQueries = queries;
    Result<Schedule> schedule = chooseSchedule(specification, variant);
    ASSERT_TRUE(schedule.ok()) << schedule.error().message();
    EXPECT_EQ(schedule->blockM, extent);
    EXPECT_EQ(schedule->blockN, extent);
    EXPECT_EQ(schedule->heads, 1);
  }
}

// A row without a query costs as much as any other.
TEST(Schedule, FewQueriesHaveFewRowsOnTheHost) {
  for (auto [queries, rows, heads] : {std::tuple(1, 8, 8),
                                      {2, 8, 4},
                                      {3, 8, 2},
                                      {4, 8, 2},
                                      {5, 16, 2},
                                      {16, 32, 2},
                                      {32, 64, 2}}) {
    Schedule schedule = chosenForQueries("host", 128, queries);
    EXPECT_EQ(schedule.blockM, rows) << queries;
    EXPECT_EQ(schedule.blockN, 64) << queries;
    EXPECT_EQ(schedule.heads, heads) << queries;
  }
  EXPECT_EQ(chosenForQueries("host", 128, 33).heads, 1);
}

TEST(Schedule, VectorsOfTheHost) {
  VectorUnit unit = hostVectorUnit();
  EXPECT_EQ(
      chosen("host", 64, "product_rows = 8, product_vectors = 4"),
      fmt::format("schedule: products of 8 rows and 4 vectors take 37 registers, this CPU has "
                  "{}; take smaller product_rows or product_vectors",
                  unit.registers));
  for (int lanes : {32, 3})
    EXPECT_EQ(chosen("host", 64, fmt::format("lanes = {}", lanes)),
              fmt::format("schedule: lanes is a power of two up to {}, which this CPU's vectors "
                          "have, not {}",
                          unit.width, lanes));
  // What is chosen is accepted, and named.
  EXPECT_NE(chosen("host", 64).find(fmt::format("lanes = {}", unit.width)), std::string::npos);
}

TEST(Schedule, PairsAreOfBf16) {
  KernelSpecification specification = specificationFor("host", 64, "product_pairs = true");
  specification.inputType = ElementType::f32;
  Result<Schedule> schedule = chooseSchedule(specification);
  ASSERT_FALSE(schedule.ok());
  EXPECT_EQ(schedule.error().message(),
            "schedule: product_pairs takes bf16 inputs, not f32; leave it out");
}

struct Refusal {
  const char *name, *target;
  int headDim;
  const char *overrides, *message;
};
void PrintTo(const Refusal &refusal, std::ostream *stream) { *stream << refusal.name; }

class ScheduleRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(ScheduleRefusal, SaysWhatToChange) {
  const Refusal &refusal = GetParam();
  Result<Schedule> schedule =
      chooseSchedule(specificationFor(refusal.target, refusal.headDim, refusal.overrides));
  ASSERT_FALSE(schedule.ok()) << schedule->text();
  EXPECT_EQ(schedule.error().message(), refusal.message);
  EXPECT_FALSE(schedule.error().isDefect());
}

INSTANTIATE_TEST_SUITE_P(
    All, ScheduleRefusal,
    testing::Values(
        Refusal{"Name", "sm_80", 64, "block_k = 64",
                "schedule: 'block_k' is no choice of a schedule; the choices are block_m, block_n, "
                "stages, warps, q_in_registers, consumers, reference, overlap, turns, "
                "persistent, output_buffer, group_keys, heads, query_stages, late_stages, "
                "split_outputs, last_keys_first, lanes, product_rows, product_vectors and "
                "product_pairs"},
        Refusal{"Bool", "sm_80", 64, "q_in_registers = 1",
                "schedule: q_in_registers is true or false, not '1'"},
        Refusal{"Reference", "sm_90", 64, "reference = eager",
                "schedule: reference is follow, lazy or recompute, not 'eager'"},
        Refusal{"GroupKeys", "sm_90", 64, "group_keys = -1",
                "schedule: group_keys is a whole number from 0 to 2147483647, not '-1'"},
        Refusal{"Text", "sm_80", 64, "stages = two",
                "schedule: stages is a whole number from 1 to 4096, not 'two'"},
        Refusal{"NoValue", "sm_80", 64, "stages",
                "schedule: stages is a whole number from 1 to 4096, not ''"},
        Refusal{"TooSmall", "host", 64, "block_n = 0",
                "schedule: block_n is a whole number from 1 to 4096, not '0'"},
        Refusal{"NoConsumers", "sm_90", 64, "consumers = -1",
                "schedule: consumers is a whole number from 0 to 4096, not '-1'"},
        Refusal{"TooLarge", "sm_80", 64, "block_m = 4097",
                "schedule: block_m is a whole number from 1 to 4096, not '4097'"},
        Refusal{"Warps", "sm_80", 64, "warps = 2", "schedule: warps is 1, 4 or 8, not 2"},
        Refusal{"Strips", "sm_80", 64, "block_m = 96",
                "schedule: block_m is a multiple of 16 · warps = 64, not 96: each warp takes whole "
                "strips of 16 rows"},
        Refusal{"Columns", "sm_80", 64, "block_n = 40",
                "schedule: block_n is a multiple of 16, not 40"},
        Refusal{"Copies", "sm_80", 64, "warps = 8, block_n = 48",
                "schedule: block_m and block_n are multiples of 32 here (the rows that 256 threads "
                "copy at once), not 128 and 48"},
        Refusal{"SharedMemory", "sm_86", 128, "stages = 3",
                "schedule: needs 132160 bytes of shared memory, sm_86 gives a thread block 101376; "
                "take a smaller block_m, block_n or fewer stages"},
        Refusal{"Roles", "sm_80", 64, "consumers = 2",
                "schedule: consumers is 0 on sm_80: only sm_90 has warpgroup products"},
        Refusal{
            "Consumers", "sm_90", 64, "consumers = 4",
            "schedule: consumers is 1, 2 or 3, not 4: a thread block's registers serve no more"},
        Refusal{"RowsOfConsumers", "sm_90", 128, "block_m = 128",
                "schedule: 3 consumers take block_m = 192 (64 rows each) and warps = 12, not 128 "
                "and 12"},
        Refusal{"WarpsOfConsumers", "sm_90", 128, "warps = 4",
                "schedule: 3 consumers take block_m = 192 (64 rows each) and warps = 12, not 192 "
                "and 4"},
        Refusal{
            "RegistersOfConsumers", "sm_90", 128, "block_n = 96",
            "schedule: keeps 136 values in the registers of a thread, of which 128 can hold tiles "
            "with 3 consumers; take fewer consumers or a smaller block_n"},
        Refusal{"ColumnsOfConsumers", "sm_90", 64, "block_n = 72",
                "schedule: block_n is a multiple of 16 up to 256, not 72"},
        Refusal{"MoreColumnsThanAProduct", "sm_90", 64, "block_n = 272",
                "schedule: block_n is a multiple of 16 up to 256, not 272"},
        Refusal{"QueriesOfConsumers", "sm_90", 64, "q_in_registers = true",
                "schedule: q_in_registers is false with consumers: their products read it from "
                "shared memory"},
        Refusal{"SharedMemoryOfRoles", "sm_90", 128, "stages = 5",
                "schedule: needs 304832 bytes of shared memory, sm_90 gives a thread block 232448; "
                "take a smaller block_m, block_n or fewer stages"},
        Refusal{"Registers", "sm_80", 128, "block_n = 112",
                "schedule: keeps 240 values in the registers of a thread, of which 224 can hold "
                "tiles; take more warps, a smaller block_m or block_n, or q_in_registers = false"},
        Refusal{
            "Host", "host", 64, "block_m = 12",
            "schedule: on the host block_m is a multiple of 8 and block_n of 16, not 12 and 64"},
        Refusal{"VectorsOfTheGpu", "sm_90", 64, "lanes = 8",
                "schedule: lanes, product_rows, product_vectors and product_pairs are choices of "
                "the host; leave them out on a GPU"},
        Refusal{"WarpsOfTheHost", "host", 64, "stages = 3, warps = 4, q_in_registers = true",
                "schedule: stages is a choice of GPU targets: on the host it is 1, not 3; leave it "
                "out"},
        Refusal{"NothingBetweenCommas", "host", 64, "block_m = 64,, block_n = 32",
                "schedule: 'block_m = 64,, block_n = 32' has a comma without a choice beside it; "
                "write name = value, with commas between"},
        Refusal{"NothingAfterTheComma", "sm_80", 64, "block_m = 64, ",
                "schedule: 'block_m = 64, ' has a comma without a choice beside it; write name = "
                "value, with commas between"},
        Refusal{"Twice", "host", 64, "block_m = 64, block_m = 32",
                "schedule: block_m is given twice; leave one out"},
        Refusal{"RolesOfTheHost", "host", 64, "consumers = 2",
                "schedule: consumers is a choice of GPU targets: on the host it is 0, not 2; leave "
                "it out"},
        Refusal{"ReferenceOfTheHost", "host", 64, "reference = lazy",
                "schedule: reference is a choice of GPU targets: on the host it is follow, not "
                "lazy; leave it out"},
        Refusal{
            "TurnsWithoutOverlap", "sm_90", 64, "turns = true, overlap = false",
            "schedule: turns need overlap = true and consumers = 2 or 3: they order the products "
            "that overlap starts"},
        Refusal{"OverlapWithoutRoles", "sm_80", 64, "overlap = true",
                "schedule: overlap, turns, persistent, output_buffer, query_stages and late_stages "
                "need consumers; take consumers = 2 or 3 on sm_90, or leave them out"},
        Refusal{"PersistentWithoutRoles", "sm_90", 64, "consumers = 0, persistent = true",
                "schedule: overlap, turns, persistent, output_buffer, query_stages and late_stages "
                "need consumers; take consumers = 2 or 3 on sm_90, or leave them out"},
        Refusal{
            "QueryStages", "sm_90", 64, "query_stages = 3",
            "schedule: query_stages is 1, or 2 with persistent = true and output_buffer = true, "
            "not 3: only the next work item's queries are loaded ahead"},
        Refusal{
            "QueryStagesOfOneItem", "sm_90", 64, "query_stages = 2, persistent = false",
            "schedule: query_stages is 1, or 2 with persistent = true and output_buffer = true, "
            "not 2: only the next work item's queries are loaded ahead"},
        Refusal{"SplitOutputsOfAttention", "sm_90", 64, "split_outputs = true",
                "schedule: split_outputs is of gradients: attention has one output, and its "
                "log-sum comes with that; leave it out"},
        Refusal{"Heads", "sm_90", 64, "heads = 12",
                "schedule: heads is a power of two up to 64 that divides block_m = 192, not 12: so "
                "many query heads share the rows of a block"},
        Refusal{
            "TooManyHeads", "sm_80", 64, "heads = 128",
            "schedule: heads is a power of two up to 64 that divides block_m = 128, not 128: so "
            "many query heads share the rows of a block"},
        Refusal{"HeadsOfTheHost", "host", 64, "block_m = 8, heads = 16",
                "schedule: heads is a power of two up to 64 that divides block_m = 8, not 16: so "
                "many query heads share the rows of a block"},
        Refusal{"NoHeads", "sm_90", 64, "heads = 0",
                "schedule: heads is a whole number from 1 to 4096, not '0'"},
        Refusal{"Chip", "sm_75", 64, "",
                "sm_75 is not a target of Tesela, which knows sm_80, sm_86, sm_87, sm_89, sm_90, "
                "sm_100, sm_103, sm_120; choose one of these or 'host'"}),
    [](const auto &info) { return std::string(info.param.name); });

// Each row of the table goes through the text and back, and a schedule is its choices.
TEST(Schedule, EachChoiceIsReadAsItIsWritten) {
  Schedule base;
  ASSERT_EQ(base.set("block_m", "64"), "");
  ASSERT_EQ(base.set("block_n", "32"), "");
  for (const ScheduleField &field : scheduleFields()) {
    Schedule changed = base, again;
    const char *value = std::holds_alternative<int64_t Schedule::*>(field.member) ? "3"
                        : std::holds_alternative<bool Schedule::*>(field.member)  ? "true"
                                                                                  : "recompute";
    ASSERT_EQ(changed.set(field.name, value), "") << field.name.str();
    EXPECT_FALSE(changed == base) << field.name.str();
    EXPECT_NE(hash_value(changed), hash_value(base)) << field.name.str();
    EXPECT_NE(changed.text().find(field.name.str() + " = " + value), std::string::npos);
    ASSERT_TRUE(overrideSchedule(again, changed.text()).ok());
    EXPECT_TRUE(again == changed) << changed.text();
  }
  EXPECT_EQ(namesOf(ScheduleScope::roles),
            "overlap, turns, persistent, output_buffer, query_stages and late_stages");
}

// What is printed names choices that a target does not have, with their only value.
TEST(Schedule, WhatIsPrintedIsAccepted) {
  for (const char *target : {"host", "sm_80", "sm_90"}) {
    std::string printed = chosen(target, 64);
    EXPECT_EQ(chosen(target, 64, printed), printed) << target;
  }
  EXPECT_EQ(chosen("host", 64, " "), chosen("host", 64));
}

TEST(Schedule, OneOfTwoOverridesHolds) {
  EXPECT_EQ(mergedOverrides("stages = 2, warps = 4", ""), "stages = 2, warps = 4");
  EXPECT_EQ(mergedOverrides("", "stages = 3"), "stages = 3");
  EXPECT_EQ(mergedOverrides("stages = 2,warps = 4", " stages= 3"), " stages= 3,warps = 4");
}

// What the refusals' limits still allow.
TEST(Schedule, LimitsThemselvesAreAllowed) {
  EXPECT_TRUE(chosen("sm_90", 128, "block_n = 80").starts_with("block_m")); // 124 of 128 registers
  EXPECT_EQ(chosen("sm_80", 128, "block_n = 96, reference = follow"),
            "block_m = 128, block_n = 96, stages = 2, warps = 4, q_in_registers = false");
  EXPECT_EQ(chosen("sm_80", 64, "warps = 8, block_n = 96, reference = follow"),
            "block_m = 128, block_n = 96, stages = 2, warps = 8, q_in_registers = true");
}

} // namespace
