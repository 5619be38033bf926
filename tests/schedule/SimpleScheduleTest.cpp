//===- SimpleScheduleTest.cpp - The kernel that is there soonest ----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/SimpleSchedule.h"

#include "ChosenSchedule.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

TEST(SimpleSchedule, EveryChipTakesIt) {
  for (const char *target : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"})
    for (int headDim = 8; headDim <= 256; headDim += 8)
      for (int64_t queries : {0, 1, 8, 64, 2048})
        for (const char *algorithm : {forwardAlgorithm, partsAlgorithm})
          for (const std::vector<std::string> &bindings :
               {std::vector<std::string>{}, {"queries=ragged", "keys=paged", "page=16"}})
            for (const VariantTraits &traits :
                 {VariantTraits{},
                  {.isMasked = true},
                  {.isMasked = true, .hasCaptures = true, .isScattered = true, .isTested = true},
                  {.hasScore = true, .hasReductions = true}}) {
              KernelSpecification specification = specificationFor(target, headDim);
              specification.expectedQueries = queries;
              specification.algorithm = algorithm;
              specification.bindings = bindings;
              specification.schedule = simpleSchedule(specification);
              ASSERT_NE(specification.schedule, "");
              Result<Schedule> schedule = chooseSchedule(specification, traits);
              ASSERT_TRUE(schedule.ok())
                  << target << " " << headDim << ": " << schedule.error().message();
              EXPECT_EQ(schedule->consumers, 0);
            }
}

TEST(SimpleSchedule, WhereThereIsNone) {
  EXPECT_EQ(simpleSchedule(specificationFor("host", 64)), "");
  EXPECT_EQ(simpleSchedule(specificationFor("sm_90", 320)), "");
  KernelSpecification gradients = specificationFor("sm_90", 64);
  gradients.algorithm = backwardAlgorithm;
  EXPECT_EQ(simpleSchedule(gradients), "");
}

} // namespace
