//===- ScheduleTest.cpp - Which schedules are chosen -----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ChosenSchedule.h"

#include "targets/host/HostSchedule.h"
#include "targets/host/VectorUnit.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

using namespace tesela;

namespace {

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

// Queries of wide heads stay in registers as far as there is room: three panels of 64 columns, but
// not all of q, and none where a mask or a score needs the registers.
TEST(Schedule, WideHeadsKeepSomeQueriesInRegisters) {
  auto panels = [](int headDimQk, int headDimV, const VariantTraits &variant) {
    return chosenForLength(headDimQk, headDimV, 0, variant).queryPanels;
  };
  EXPECT_EQ(panels(576, 512, {.isMasked = true}), 3);
  EXPECT_EQ(panels(320, 320, {}), 3);
  EXPECT_EQ(panels(128, 512, {}), 1);
  EXPECT_EQ(panels(64, 512, {}), 0);
  EXPECT_EQ(panels(256, 256, {}), 0);
  EXPECT_EQ(panels(576, 512, {.isMasked = true, .isTested = true}), 0);
  EXPECT_EQ(panels(576, 512, {.hasScore = true}), 0);
  EXPECT_EQ(panels(576, 512, {.isMasked = true, .hasReductions = true}), 0);
  KernelSpecification specification = specificationFor("sm_90", 576, "query_panels = 4");
  specification.headDimV = 512;
  specification.bindings = {"values=keys"};
  Result<Schedule> schedule = chooseSchedule(specification, {});
  ASSERT_FALSE(schedule.ok());
  EXPECT_EQ(schedule.error().message(),
            "schedule: query_panels must be at most 3 here, not 4: a panel has 64 of the 576 "
            "columns of q, of which some stay in shared memory, and takes 16 of a thread's "
            "registers");
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
  // The other choices follow from the number of consumers.
  EXPECT_EQ(chosen("sm_90", 128,
                   "consumers = 1, block_n = 64, reference = follow, overlap = false, "
                   "persistent = false, output_buffer = false, group_keys = 1000"),
            "block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, "
            "consumers = 1, group_keys = 1000");
  EXPECT_EQ(chosen("sm_90", 128, "consumers = 0"), chosen("sm_80", 128));
}

// Two thread blocks with few rows hide each other's waits, if a multiprocessor has room for both.
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

// Three consumers reuse each key more often. Two waste less of short and of masked rows of blocks.
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

// Several runs of keys and tests of blocks need registers that three consumers do not have.
TEST(Schedule, ScatteredTilesHaveTwoConsumers) {
  for (int headDim : {64, 128})
    EXPECT_EQ(
        chosenForLength(headDim, headDim, 0, {.isMasked = true, .isScattered = true}).consumers, 2);
}

// Besides their tiles, consumers hold the values that masks read.
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

// So do the iterations of a reduction. They leave no registers for a product of another block.
TEST(Schedule, ReductionsHaveTwoConsumersWithoutOverlap) {
  for (auto [headDim, blockN] : {std::pair(64, 128), {128, 128}, {192, 80}, {256, 48}}) {
    Schedule schedule =
        chosenForLength(headDim, headDim, 0, {.hasScore = true, .hasReductions = true});
    EXPECT_EQ(schedule.blockN, blockN) << headDim;
    EXPECT_EQ(schedule.consumers, 2) << headDim;
    EXPECT_FALSE(schedule.overlap || schedule.turns) << headDim;
  }
}

// With random tiles, only few pairs of a wide block are kept.
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

TEST(Schedule, FollowsTheVariant) {
  // Keys and values of 32 MiB; here each takes 512 bytes.
  EXPECT_EQ(chosenForLength(128, 128, 0, {.isMasked = true}).groupKeys, 65536);
  EXPECT_EQ(chosenForLength(128, 128, 0).groupKeys, 0);
  // If captured tensors decide, tiles are few and unequal, so a group has as many heads as allowed.
  VariantTraits tested{.isMasked = true, .isScattered = true, .isTested = true};
  EXPECT_EQ(chosenForLength(128, 128, 0, tested).groupKeys, 65536);
  tested.hasCaptures = true;
  EXPECT_EQ(chosenForLength(128, 128, 0, tested).groupKeys, 1 << 20);
  // Recomputing a score with captured tensors needs more registers than its time gains.
  EXPECT_EQ(chosenForLength(128, 128, 0, {.hasScore = true}).reference,
            ScheduleReference::recompute);
  EXPECT_EQ(chosenForLength(64, 64, 0, {.hasScore = true}).reference, ScheduleReference::lazy);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.hasScore = true, .hasCaptures = true}).reference,
            ScheduleReference::lazy);
  // Captured tensors need registers; two consumers have enough.
  EXPECT_EQ(chosenForLength(64, 64, 0, {.isMasked = true, .hasCaptures = true}).blockN, 112);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.isMasked = true, .hasCaptures = true}).blockN, 80);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.hasScore = true, .hasCaptures = true}).blockN, 80);
  EXPECT_EQ(chosenForLength(128, 128, 1024, {.hasScore = true, .hasCaptures = true}).blockN, 128);
}

// For short work items, if both buffers fit.
TEST(Schedule, QueriesOfTheNextItemAreLoadedAheadWhereItPays) {
  EXPECT_EQ(chosenForLength(128, 128, 0).queryStages, 2);
  EXPECT_EQ(chosenForLength(64, 64, 0, {.isMasked = true}).queryStages, 2);
  EXPECT_EQ(chosenForLength(128, 128, 2048, {.isMasked = true}).queryStages, 2);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.isMasked = true}).queryStages, 1);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.isMasked = true, .isScattered = true, .isTested = true})
                .queryStages,
            2);
  EXPECT_EQ(chosenForLength(256, 256, 0).queryStages, 1);
  // Some overrides leave no room for a second buffer, or no next item.
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

// An item begins beside the end of the previous one, if items are short and registers suffice.
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

// A score that is computed exactly, like a mask, leaves three consumers fewer registers.
TEST(Schedule, ExactScoresHaveNarrowTiles) {
  EXPECT_EQ(chosenForLength(128, 128, 0, {.hasScore = true}).blockN, 80);
  EXPECT_EQ(chosenForLength(128, 128, 0, {.hasScore = true, .hasExactScore = true}).blockN, 64);
}

// Each schedule fits the chip's shared memory and registers, because chooseSchedule checks that.
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
  // Without product_pairs, which some CPUs have by default.
  EXPECT_EQ(
      chosen("host", 64,
             "block_m = 8, block_n = 16, vector_length = 4, product_rows = 3, product_vectors = 2, "
             "product_pairs = false"),
      "block_m = 8, block_n = 16, stages = 1, warps = 1, q_in_registers = false, vector_length = "
      "4, "
      "product_rows = 3, product_vectors = 2");
}

TEST(Schedule, CountsSharedMemory) {
  Schedule schedule{.blockM = 128, .blockN = 64, .stages = 2, .warps = 4};
  // 2 bytes · (128 · 128 + 2 · 64 · (128 + 128)), and 272 for each warp that finds blocks.
  EXPECT_EQ(sharedBytes(schedule, specificationFor("sm_80", 128)), 98304 + 4 * 272);
  // Also two barriers of 8 bytes for each part of the queries and for each stage of keys and
  // values. One warp finds blocks. It sends them through channels of 2 and 32 stages, and with the
  // keys.
  schedule.consumers = 2;
  int64_t finding = 272 + (2 + 32) * (16 + 16) + 2 * 16;
  EXPECT_EQ(sharedBytes(schedule, specificationFor("sm_90", 128)),
            98304 + 16 * (2 + 2 + 2) + finding);
  // The output's buffer; the two stages of work items, with two barriers and 16 bytes each; the
  // last item.
  schedule.outputBuffer = schedule.persistent = true;
  EXPECT_EQ(sharedBytes(schedule, specificationFor("sm_90", 128)),
            98304 + 96 + 2 * 128 * 128 + 2 * (2 * 8 + 16) + 16 + finding);
  // A second buffer of queries, with its barriers.
  schedule.queryStages = 2;
  EXPECT_EQ(sharedBytes(schedule, specificationFor("sm_90", 128)),
            98304 + 96 + 2 * (2 * 128 * 128 + 16) + 2 * (2 * 8 + 16) + 16 + finding);
}

// Whether products of pairs of bf16 pay depends on the CPU model, not on its features.
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

// Large blocks read keys less often. For short or scattered runs they compute more in vain.
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

// A row without a query costs as much as any other row.
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
      fmt::format("schedule: products of 8 rows and 4 vectors take 37 registers, but this CPU has "
                  "{}; take smaller product_rows or product_vectors",
                  unit.registers));
  for (int length : {32, 3})
    EXPECT_EQ(chosen("host", 64, fmt::format("vector_length = {}", length)),
              fmt::format("schedule: vector_length must be a power of two up to {}, the length of "
                          "this CPU's vectors, not {}",
                          unit.width, length));
  // The chosen schedule is accepted, and printed with its values.
  EXPECT_NE(chosen("host", 64).find(fmt::format("vector_length = {}", unit.width)),
            std::string::npos);
}

TEST(Schedule, PairsAreOfBf16) {
  KernelSpecification specification = specificationFor("host", 64, "product_pairs = true");
  specification.inputType = ElementType::f32;
  Result<Schedule> schedule = chooseSchedule(specification);
  ASSERT_FALSE(schedule.ok());
  EXPECT_EQ(schedule.error().message(),
            "schedule: product_pairs needs bf16 inputs, not f32; leave it out");
}

// Each row of the table can be written as text and read again, and a schedule equals its choices.
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
            "overlap, turns, persistent, output_buffer, query_stages, query_panels, "
            "late_stages, late_crossed and add_in_turn");
}

// A printed schedule also names choices that the target does not have, with their only value.
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

// The largest values that the refusals' limits allow.
TEST(Schedule, LimitsThemselvesAreAllowed) {
  EXPECT_TRUE(chosen("sm_90", 128, "block_n = 80").starts_with("block_m")); // 124 of 128 registers
  EXPECT_EQ(chosen("sm_80", 128, "block_n = 96, reference = follow"),
            "block_m = 128, block_n = 96, stages = 2, warps = 4, q_in_registers = false");
  EXPECT_EQ(chosen("sm_80", 64, "warps = 8, block_n = 96, reference = follow"),
            "block_m = 128, block_n = 96, stages = 2, warps = 8, q_in_registers = true");
}

} // namespace
