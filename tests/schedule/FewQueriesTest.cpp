//===- FewQueriesTest.cpp - Rows, shares and workers of few queries --------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ChosenSchedule.h"

#include "schedule/Workers.h"

#include <fmt/format.h>

using namespace tesela;

namespace {

// If few queries would leave rows of a tile empty, other heads use these rows.
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
  // With 192 rows, a chunk of 512 queries would leave a third of the last block's rows empty.
  EXPECT_EQ(chosenForQueries("sm_90", 128, 512).consumers, 2);
  EXPECT_EQ(chosenForQueries("sm_90", 128, 513).consumers, 3);
  EXPECT_TRUE(chosenForQueries("sm_90", 128, 1).text().find(", heads = 64") != std::string::npos);
  // More rows have room for more heads.
  EXPECT_TRUE(chosen("sm_90", 128, "consumers = 2, heads = 64").find(", heads = 64") !=
              std::string::npos);
}

// Keys in parts: one warp computes the 16 rows that read the same keys, if there is work for four
// warps on each multiprocessor, and if these numbers of queries and heads and this mask were
// measured.
TEST(Schedule, FewQueriesInPartsAreOneWarps) {
  struct Case {
    int64_t warps, queries = 1;
    int headDim = 128;
    std::vector<std::string> more = {};
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

// A multiprocessor runs four thread blocks of one warp at once, eight if keys have 8 bits, and two
// thread blocks of more warps. Several sequences of different lengths get twice as many shares.
TEST(Schedule, WorkersFollowWhatRunsAtOnce) {
  struct Case {
    SharedKeys launch;
    int64_t times; ///< workers over multiprocessors
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
    // And the number of workers selects one warp, where that was meant.
    specification.expectedQueries = each.launch.queries;
    specification.bindings.push_back(fmt::format("workers={}", workers));
    bool isOneWarps =
        each.launch.queries <= 4 && each.headDim == 128 && workers >= 4 * each.launch.processors;
    EXPECT_EQ(suitsOneWarp(specification, {}), isOneWarps);
  }
  EXPECT_EQ(workersFor(specificationFor("host", 128), launch(16, 1, 8192)), 132);
  EXPECT_EQ(sharesOfEqual(specificationFor("host", 128)), 1);
}

} // namespace
