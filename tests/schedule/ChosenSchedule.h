//===- ChosenSchedule.h - What is chosen for a target and a head dimension ===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_SCHEDULE_CHOSENSCHEDULE_H
#define TESELA_TESTS_SCHEDULE_CHOSENSCHEDULE_H

#include "schedule/Schedule.h"

#include <gtest/gtest.h>

namespace tesela {

inline KernelSpecification specificationFor(const std::string &target, int headDim,
                                            const std::string &overrides = "") {
  KernelSpecification specification;
  specification.headDimQk = specification.headDimV = headDim;
  if (target != "host")
    specification.target = {Target::Kind::cuda, std::stoi(target.substr(3))};
  specification.schedule = overrides;
  return specification;
}

inline std::string chosen(const std::string &target, int headDim,
                          const std::string &overrides = "") {
  Result<Schedule> schedule = chooseSchedule(specificationFor(target, headDim, overrides));
  return schedule.ok() ? schedule->text() : schedule.error().message();
}

/// The schedule that sm_90 gets. A refusal fails the test.
inline Schedule chosenForLength(int headDimQk, int headDimV, int64_t length,
                                const VariantTraits &variant = {}) {
  KernelSpecification specification = specificationFor("sm_90", headDimQk);
  specification.headDimV = headDimV;
  specification.expectedLength = length;
  Result<Schedule> schedule = chooseSchedule(specification, variant);
  EXPECT_TRUE(schedule.ok()) << schedule.error().message();
  return schedule.ok() ? *schedule : Schedule();
}

/// The schedule that `target` gets for launches with `queries` queries and many keys.
inline Schedule chosenForQueries(const std::string &target, int headDim, int64_t queries) {
  KernelSpecification specification = specificationFor(target, headDim);
  specification.expectedQueries = queries;
  Result<Schedule> schedule = chooseSchedule(specification, {.isMasked = true});
  EXPECT_TRUE(schedule.ok()) << schedule.error().message();
  return schedule.ok() ? *schedule : Schedule();
}

} // namespace tesela

#endif // TESELA_TESTS_SCHEDULE_CHOSENSCHEDULE_H
