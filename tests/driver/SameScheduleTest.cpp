//===- SameScheduleTest.cpp - Lengths only decide the schedule ------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel that comes with the library has the keys of all specifications that choose its schedule
// (tools/ship-kernels). So all of these specifications must give the same code.
//
//===----------------------------------------------------------------------===//
#include "driver/ChosenKernel.h"
#include "tesela/compiler/Compile.h"

#include <gtest/gtest.h>

#include <map>

using namespace tesela;

namespace {

KernelSpecification causal(int64_t queries, int64_t keys, const std::string &schedule = "") {
  KernelSpecification specification;
  specification.variantText = "attention causal() { mask = q >= k }";
  specification.target = *Target::parse("sm_90");
  specification.expectedQueries = queries;
  specification.expectedLength = keys;
  specification.schedule = schedule;
  return specification;
}

TEST(SameSchedule, IsTheSameKernel) {
  std::map<std::string, std::string> artifacts; // schedule -> artifact
  int same = 0;
  auto add = [&](const KernelSpecification &specification) {
    Result<ChosenKernel> chosen = chooseKernel(specification);
    ASSERT_TRUE(chosen.ok());
    Result<Artifact> artifact = compile(specification);
    ASSERT_TRUE(artifact.ok());
    auto [known, isNew] = artifacts.emplace(chosen->schedule.text(), artifact->serialize());
    same += !isNew;
    EXPECT_EQ(known->second, artifact->serialize()) << known->first;
  };
  for (auto [queries, keys] : {std::pair<int64_t, int64_t>{0, 0},
                               {0, 1024},
                               {2048, 1024},
                               {0, 4096},
                               {4096, 4096},
                               {0, 8192},
                               {16384, 16384},
                               {1, 0}})
    add(causal(queries, keys));
  // The schedule is given as text, like a measured one.
  Result<ChosenKernel> chosen = chooseKernel(causal(0, 8192));
  ASSERT_TRUE(chosen.ok());
  add(causal(0, 0, chosen->schedule.text()));
  EXPECT_GT(artifacts.size(), 1u);
  EXPECT_GE(same, 3);
}

} // namespace
