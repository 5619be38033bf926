//===- CandidatesTest.cpp - What a tuner is given to try ------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace tesela;

namespace {

KernelSpecification specificationFor(int sm, int headDim, const std::string &overrides = "") {
  KernelSpecification specification;
  specification.headDimQk = specification.headDimV = headDim;
  if (sm > 0)
    specification.target = {Target::Kind::cuda, sm};
  else
    specification.inputType = ElementType::f32;
  specification.schedule = overrides;
  return specification;
}

std::vector<Schedule> schedulesFor(const KernelSpecification &specification, int64_t sharing = 1,
                                   const VariantTraits &variant = {}) {
  Result<std::vector<Schedule>> schedules = legalSchedules(specification, variant, sharing);
  EXPECT_TRUE(schedules.ok()) << schedules.error().message();
  return schedules.ok() ? *schedules : std::vector<Schedule>();
}

// A record's text must mean the same schedule if another version's heuristic chooses something
// else.
TEST(Candidates, PinnedTextsGiveTheirScheduleBack) {
  for (int sm : {0, 80, 86, 90, 120})
    for (int headDim : {64, 128, 256})
      for (bool isMasked : {false, true}) {
        VariantTraits variant{.isMasked = isMasked};
        KernelSpecification specification = specificationFor(sm, headDim);
        for (const Schedule &schedule : schedulesFor(specification, 4, variant)) {
          KernelSpecification pinned = specification;
          pinned.schedule = schedule.pinnedText();
          // Another heuristic: the one for few queries and keys with another kind of mask.
          pinned.expectedLength = 512;
          pinned.expectedQueries = 1;
          Result<Schedule> again = chooseSchedule(
              pinned, {.isMasked = !isMasked, .hasScore = true, .hasReductions = true});
          ASSERT_TRUE(again.ok()) << pinned.schedule << ": " << again.error().message();
          EXPECT_EQ(again->pinnedText(), pinned.schedule) << "sm " << sm << ", D " << headDim;
          EXPECT_EQ(again->text(), schedule.text());
        }
      }
}

TEST(Candidates, TheHeuristicIsFirstAndNoneIsThereTwice) {
  for (int sm : {0, 80, 90}) {
    KernelSpecification specification = specificationFor(sm, 128);
    std::vector<Schedule> schedules = schedulesFor(specification);
    ASSERT_GE(schedules.size(), 30u) << "sm " << sm;
    EXPECT_EQ(schedules[0].text(), chooseSchedule(specification)->text());
    std::set<std::string> texts;
    for (const Schedule &schedule : schedules)
      EXPECT_TRUE(texts.insert(schedule.pinnedText()).second) << schedule.pinnedText();
  }
}

// Every extent of the tables must be in some candidate, so that the tables have no unused rows.
TEST(Candidates, ChoicesVary) {
  auto count = [](const std::vector<Schedule> &schedules, auto Schedule::*field) {
    std::set<std::decay_t<decltype(Schedule().*field)>> seen;
    for (const Schedule &schedule : schedules)
      seen.insert(schedule.*field);
    return seen.size();
  };
  std::vector<Schedule> roles = schedulesFor(specificationFor(90, 64), 8, {.isMasked = true});
  EXPECT_EQ(count(roles, &Schedule::consumers), 3u);
  EXPECT_GE(count(roles, &Schedule::blockN), 8u);
  EXPECT_EQ(count(roles, &Schedule::stages), 3u);
  EXPECT_EQ(count(roles, &Schedule::reference), 3u);
  EXPECT_EQ(count(roles, &Schedule::heads), 4u) << "1, 2, 4, 8 of the 8 that share keys";
  EXPECT_GE(count(roles, &Schedule::groupKeys), 6u);
  for (auto flag : {&Schedule::overlap, &Schedule::turns, &Schedule::persistent,
                    &Schedule::outputBuffer, &Schedule::lastKeysFirst})
    EXPECT_EQ(count(roles, flag), 2u);
  EXPECT_EQ(count(roles, &Schedule::queryStages), 2u);

  std::vector<Schedule> multiply = schedulesFor(specificationFor(80, 64));
  EXPECT_EQ(count(multiply, &Schedule::warps), 2u);
  EXPECT_EQ(count(multiply, &Schedule::qInRegisters), 2u);
  EXPECT_EQ(count(multiply, &Schedule::stages), 3u);

  std::vector<Schedule> host = schedulesFor(specificationFor(0, 64));
  EXPECT_EQ(count(host, &Schedule::blockM), 7u);
  EXPECT_EQ(count(host, &Schedule::blockN), 4u);
  EXPECT_GE(count(host, &Schedule::productRows), 2u);
}

// With and without roles. Each text must give the same schedule with any version's heuristic.
TEST(Candidates, OfGradients) {
  for (int sm : {0, 80, 90}) {
    KernelSpecification specification = specificationFor(sm, 128);
    specification.algorithm = backwardAlgorithm;
    std::vector<Schedule> schedules = schedulesFor(specification, /*sharing=*/4);
    ASSERT_GE(schedules.size(), 20u) << "sm " << sm;
    std::set<int64_t> consumers, stages, split;
    for (const Schedule &schedule : schedules) {
      consumers.insert(schedule.consumers);
      if (schedule.splitOutputs)
        split.insert(schedule.consumers);
      stages.insert(schedule.stages);
      EXPECT_EQ(schedule.heads, 1);
      KernelSpecification pinned = specification;
      pinned.schedule = schedule.pinnedText();
      Result<Schedule> again = chooseSchedule(pinned);
      ASSERT_TRUE(again.ok()) << pinned.schedule << ": " << again.error().message();
      EXPECT_EQ(again->text(), schedule.text());
    }
    EXPECT_EQ(consumers.size(), sm == 90 ? 4u : 1u);
    EXPECT_EQ(split.size(), sm == 0 ? 0u : consumers.size());
    EXPECT_EQ(stages.size(), sm == 0 ? 1u : 3u);
  }
}

TEST(Candidates, GivenChoicesAreKept) {
  for (const Schedule &schedule :
       schedulesFor(specificationFor(90, 128, "block_n = 64, reference = lazy"))) {
    EXPECT_EQ(schedule.blockN, 64);
    EXPECT_EQ(schedule.reference, ScheduleReference::lazy);
  }
  for (const Schedule &schedule : schedulesFor(specificationFor(0, 128, "block_m = 32")))
    EXPECT_EQ(schedule.blockM, 32);
}

TEST(Candidates, WhatTheHeuristicCannotChooseIsAnError) {
  Result<std::vector<Schedule>> schedules =
      legalSchedules(specificationFor(80, 128, "consumers = 2"), {}, 1);
  ASSERT_FALSE(schedules.ok());
  EXPECT_NE(schedules.error().message().find("consumers must be 0 on sm_80"), std::string::npos);
}

} // namespace
