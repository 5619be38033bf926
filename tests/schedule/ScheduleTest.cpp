//===- ScheduleTest.cpp - Which schedules are chosen and which refused ----===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Schedule.h"

#include <gtest/gtest.h>

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

TEST(Schedule, HeuristicFitsEveryChip) {
  for (const char *target : {"sm_80", "sm_86", "sm_87", "sm_89", "sm_100", "sm_103", "sm_120"}) {
    EXPECT_EQ(chosen(target, 64), "block_m = 128, block_n = 64, stages = 2, warps = 4, "
                                  "q_in_registers = true, lazy_rescale = true")
        << target;
    EXPECT_EQ(chosen(target, 128), "block_m = 128, block_n = 64, stages = 2, warps = 4, "
                                   "q_in_registers = false, lazy_rescale = true")
        << target;
  }
}

TEST(Schedule, WarpgroupsHaveRolesOnSm90) {
  EXPECT_EQ(chosen("sm_90", 64), "block_m = 192, block_n = 96, stages = 2, warps = 12, "
                                 "q_in_registers = false, consumers = 3, lazy_rescale = true");
  EXPECT_EQ(chosen("sm_90", 128), "block_m = 192, block_n = 80, stages = 2, warps = 12, "
                                  "q_in_registers = false, consumers = 3, lazy_rescale = true");
  // The rest follows the number of consumers.
  EXPECT_EQ(chosen("sm_90", 128, "consumers = 1, block_n = 128, lazy_rescale = false"),
            "block_m = 64, block_n = 128, stages = 2, warps = 4, q_in_registers = false, "
            "consumers = 1");
  EXPECT_EQ(chosen("sm_90", 128, "consumers = 0"), chosen("sm_80", 128));
}

TEST(Schedule, CountsThreads) {
  EXPECT_EQ((Schedule{.warps = 4}).threads(), 128);
  EXPECT_EQ((Schedule{.warps = 12, .consumers = 3}).threads(), 512);
}

TEST(Schedule, OverridesReplaceSingleChoices) {
  EXPECT_EQ(chosen("sm_80", 64, "block_m=64 , stages = 3"),
            "block_m = 64, block_n = 64, stages = 3, warps = 4, q_in_registers = true, "
            "lazy_rescale = true");
  EXPECT_EQ(
      chosen("sm_80", 64, "q_in_registers = false, warps = 8, block_n = 32, lazy_rescale = false"),
      "block_m = 128, block_n = 32, stages = 2, warps = 8, q_in_registers = false");
  EXPECT_EQ(chosen("host", 64, "block_m = 8, block_n = 16"),
            "block_m = 8, block_n = 16, stages = 1, warps = 1, q_in_registers = false");
}

TEST(Schedule, CountsSharedMemory) {
  Schedule schedule{.blockM = 128, .blockN = 64, .stages = 2, .warps = 4};
  // 2 bytes · (128 · 128 + 2 · 64 · (128 + 128))
  EXPECT_EQ(sharedBytes(schedule, specificationFor("sm_80", 128)), 98304);
  // And two barriers of 8 bytes for each of 1 + 2 + 2 stages.
  schedule.consumers = 2;
  EXPECT_EQ(sharedBytes(schedule, specificationFor("sm_90", 128)), 98304 + 80);
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
                "stages, warps, q_in_registers, consumers and lazy_rescale"},
        Refusal{"Bool", "sm_80", 64, "q_in_registers = 1",
                "schedule: q_in_registers is true or false, not '1'"},
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
        Refusal{"Warps", "sm_80", 64, "warps = 2", "schedule: warps is 4 or 8, not 2"},
        Refusal{"Strips", "sm_80", 64, "block_m = 96",
                "schedule: block_m is a multiple of 16 · warps = 64, not 96: each warp takes whole "
                "strips of 16 rows"},
        Refusal{"Columns", "sm_80", 64, "block_n = 40",
                "schedule: block_n is a multiple of 16, not 40"},
        Refusal{"Copies", "sm_80", 64, "warps = 8, block_n = 48",
                "schedule: block_m and block_n are multiples of 32 here (the rows that 256 threads "
                "copy at once), not 128 and 48"},
        Refusal{"SharedMemory", "sm_86", 128, "stages = 3",
                "schedule: needs 131072 bytes of shared memory, sm_86 gives a thread block 101376; "
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
            "RegistersOfConsumers", "sm_90", 128, "block_n = 144",
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
                "schedule: needs 254128 bytes of shared memory, sm_90 gives a thread block 232448; "
                "take a smaller block_m, block_n or fewer stages"},
        Refusal{"Registers", "sm_80", 128, "block_n = 112",
                "schedule: keeps 240 values in the registers of a thread, of which 224 can hold "
                "tiles; take more warps, a smaller block_m or block_n, or q_in_registers = false"},
        Refusal{
            "Host", "host", 64, "block_m = 12",
            "schedule: on the host block_m is a multiple of 8 and block_n of 16, not 12 and 64"},
        Refusal{
            "RolesOfTheHost", "host", 64, "consumers = 2",
            "schedule: consumers and lazy_rescale are choices of GPU targets; leave them out on "
            "the host"},
        Refusal{"Chip", "sm_75", 64, "",
                "sm_75 is not a target of Tesela, which knows sm_80, sm_86, sm_87, sm_89, sm_90, "
                "sm_100, sm_103, sm_120; choose one of these or 'host'"}),
    [](const auto &info) { return std::string(info.param.name); });

// What the refusals' limits still allow.
TEST(Schedule, LimitsThemselvesAreAllowed) {
  EXPECT_EQ(chosen("sm_80", 128, "block_n = 96, lazy_rescale = false"),
            "block_m = 128, block_n = 96, stages = 2, warps = 4, q_in_registers = false");
  EXPECT_EQ(chosen("sm_80", 64, "warps = 8, block_n = 96, lazy_rescale = false"),
            "block_m = 128, block_n = 96, stages = 2, warps = 8, q_in_registers = true");
}

} // namespace
