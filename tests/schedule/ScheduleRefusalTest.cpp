//===- ScheduleRefusalTest.cpp - Which schedules are refused ---------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ChosenSchedule.h"

using namespace tesela;

namespace {

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

// Additions in turn: each consumer has a warp that adds for it, and work items must start in order.
// Crossed buffers: two tensors share two stages.
TEST(ScheduleOfGradients, NeedsWhatItsAdditionsAndBuffersNeed) {
  constexpr const char *two = "consumers = 2, block_m = 128, warps = 8, add_in_turn = true",
                       *three = "consumers = 3, block_m = 192, warps = 12, add_in_turn = true";
  auto chosen = [](const std::string &schedule) {
    KernelSpecification specification = specificationFor("sm_90", 64, schedule);
    specification.algorithm = fusedBackwardAlgorithm;
    return chooseSchedule(specification);
  };
  EXPECT_TRUE(chosen(two).ok());
  for (auto [schedule, reason] :
       {std::pair(std::string(two) + ", persistent = false", "add_in_turn needs persistent = true"),
        {three, "add_in_turn needs 1 or 2 consumers, not 3"},
        {std::string(two) + ", split_outputs = true",
         "add_in_turn and split_outputs exclude each other"},
        {"consumers = 2, late_crossed = true, stages = 1", "late_crossed needs stages = 2, not 1"},
        {"consumers = 2, late_crossed = true, late_stages = 1",
         "late_crossed gives the buffers of late_stages two stages, not 1"}}) {
    Result<Schedule> refused = chosen(schedule);
    ASSERT_FALSE(refused.ok()) << refused->text();
    EXPECT_NE(refused.error().message().find(reason), std::string::npos)
        << refused.error().message();
  }
}

// Two products of a block read one buffer, which must not be refilled before both are done.
TEST(ScheduleOfValuesOfKeys, DoesNotOverlap) {
  for (int headDim : {64, 128, 256}) {
    KernelSpecification specification = specificationFor("sm_90", headDim, "");
    specification.bindings = {"values=keys"};
    Result<Schedule> chosen = chooseSchedule(specification);
    ASSERT_TRUE(chosen.ok()) << chosen.error().message();
    EXPECT_GT(chosen->consumers, 0);
    EXPECT_FALSE(chosen->overlap);
    specification.schedule = "overlap = true";
    chosen = chooseSchedule(specification);
    ASSERT_FALSE(chosen.ok()) << chosen->text();
    EXPECT_NE(chosen.error().message().find("overlap must be false with values=keys"),
              std::string::npos)
        << chosen.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ScheduleRefusal,
    testing::Values(
        Refusal{
            "Name", "sm_80", 64, "block_k = 64",
            "schedule: 'block_k' is not a field of a schedule; the fields are block_m, block_n, "
            "stages, warps, q_in_registers, consumers, reference, overlap, turns, "
            "persistent, output_buffer, group_keys, heads, query_stages, query_panels, "
            "late_stages, late_crossed, add_in_turn, "
            "split_outputs, last_keys_first, vector_length, product_rows, product_vectors and "
            "product_pairs"},
        Refusal{"Bool", "sm_80", 64, "q_in_registers = 1",
                "schedule: q_in_registers must be true or false, not '1'"},
        Refusal{"Reference", "sm_90", 64, "reference = eager",
                "schedule: reference must be follow, lazy or recompute, not 'eager'"},
        Refusal{"GroupKeys", "sm_90", 64, "group_keys = -1",
                "schedule: group_keys must be a whole number from 0 to 2147483647, not '-1'"},
        Refusal{"Text", "sm_80", 64, "stages = two",
                "schedule: stages must be a whole number from 1 to 4096, not 'two'"},
        Refusal{"NoValue", "sm_80", 64, "stages",
                "schedule: 'stages' must have the form name = value, with a comma before the next "
                "name, for example block_m = 64, block_n = 64"},
        Refusal{"TooSmall", "host", 64, "block_n = 0",
                "schedule: block_n must be a whole number from 1 to 4096, not '0'"},
        Refusal{"NoConsumers", "sm_90", 64, "consumers = -1",
                "schedule: consumers must be a whole number from 0 to 4096, not '-1'"},
        Refusal{"TooLarge", "sm_80", 64, "block_m = 4097",
                "schedule: block_m must be a whole number from 1 to 4096, not '4097'"},
        Refusal{"Warps", "sm_80", 64, "warps = 2", "schedule: warps must be 1, 4 or 8, not 2"},
        Refusal{"Strips", "sm_80", 64, "block_m = 96",
                "schedule: block_m must be a multiple of 16 · warps = 64, not 96: each warp "
                "computes whole strips of 16 rows"},
        Refusal{"Columns", "sm_80", 64, "block_n = 40",
                "schedule: block_n must be a multiple of 16, not 40"},
        Refusal{"Copies", "sm_80", 64, "warps = 8, block_n = 48",
                "schedule: block_m and block_n must be multiples of 32 (the rows that 256 threads "
                "copy at once), not 128 and 48"},
        Refusal{
            "SharedMemory", "sm_86", 128, "stages = 3",
            "schedule: the kernel needs 132160 bytes of shared memory, and a thread block of "
            "sm_86 has at most 101376; use a smaller block_m, a smaller block_n or fewer stages"},
        Refusal{"Roles", "sm_80", 64, "consumers = 2",
                "schedule: consumers must be 0 on sm_80: only sm_90 has matrix instructions of a "
                "warpgroup (wgmma)"},
        Refusal{"Consumers", "sm_90", 64, "consumers = 4",
                "schedule: consumers must be 1, 2 or 3, not 4: a thread block has no registers for "
                "more"},
        Refusal{"RowsOfConsumers", "sm_90", 128, "block_m = 128",
                "schedule: 3 consumers need block_m = 192 (64 rows each) and warps = 12, not 128 "
                "and 12"},
        Refusal{"WarpsOfConsumers", "sm_90", 128, "warps = 4",
                "schedule: 3 consumers need block_m = 192 (64 rows each) and warps = 12, not 192 "
                "and 4"},
        Refusal{
            "RegistersOfConsumers", "sm_90", 128, "block_n = 96",
            "schedule: the kernel keeps 136 values in the registers of a thread, but only 128 "
            "registers can hold tiles with 3 consumers; take fewer consumers or a smaller block_n"},
        Refusal{"ColumnsOfConsumers", "sm_90", 64, "block_n = 72",
                "schedule: block_n must be a multiple of 16 up to 256, not 72"},
        Refusal{"MoreColumnsThanAProduct", "sm_90", 64, "block_n = 272",
                "schedule: block_n must be a multiple of 16 up to 256, not 272"},
        Refusal{"QueriesOfConsumers", "sm_90", 64, "q_in_registers = true",
                "schedule: q_in_registers must be false with consumers: their products read Q from "
                "shared memory"},
        Refusal{
            "SharedMemoryOfRoles", "sm_90", 128, "stages = 5",
            "schedule: the kernel needs 304832 bytes of shared memory, and a thread block of "
            "sm_90 has at most 232448; use a smaller block_m, a smaller block_n or fewer stages"},
        Refusal{"Registers", "sm_80", 128, "block_n = 112",
                "schedule: the kernel keeps 240 values in the registers of a thread, but only 224 "
                "registers can hold tiles; take more warps, a smaller block_m or block_n, or "
                "q_in_registers = false"},
        Refusal{"Host", "host", 64, "block_m = 12",
                "schedule: on the host block_m must be a multiple of 8 and block_n a multiple of "
                "16, not 12 and 64"},
        Refusal{"VectorsOfTheGpu", "sm_90", 64, "vector_length = 8",
                "schedule: vector_length, product_rows, product_vectors and product_pairs are "
                "fields for the host; leave them out on a GPU"},
        Refusal{"WarpsOfTheHost", "host", 64, "stages = 3, warps = 4, q_in_registers = true",
                "schedule: stages is only for GPUs: on the host it must be 1, not 3; leave it out"},
        Refusal{"NothingBetweenCommas", "host", 64, "block_m = 64,, block_n = 32",
                "schedule: 'block_m = 64,, block_n = 32' has a comma without a field next to it; "
                "write name = value, name = value"},
        Refusal{"NothingAfterTheComma", "sm_80", 64, "block_m = 64, ",
                "schedule: 'block_m = 64, ' has a comma without a field next to it; write name = "
                "value, name = value"},
        Refusal{"NoComma", "host", 64, "block_m = 64 block_n = 32",
                "schedule: 'block_m = 64 block_n = 32' must have the form name = value, with a "
                "comma before the next name, for example block_m = 64, block_n = 64"},
        Refusal{"NoEqualsSign", "host", 64, "stages = 1, block_m: 64",
                "schedule: 'block_m: 64' must have the form name = value, with a comma before the "
                "next name, for example block_m = 64, block_n = 64"},
        Refusal{"Twice", "host", 64, "block_m = 64, block_m = 32",
                "schedule: block_m is given twice; leave one out"},
        Refusal{
            "RolesOfTheHost", "host", 64, "consumers = 2",
            "schedule: consumers is only for GPUs: on the host it must be 0, not 2; leave it out"},
        Refusal{"ReferenceOfTheHost", "host", 64, "reference = lazy",
                "schedule: reference is only for GPUs: on the host it must be follow, not "
                "lazy; leave it out"},
        Refusal{
            "TurnsWithoutOverlap", "sm_90", 64, "turns = true, overlap = false",
            "schedule: turns need overlap = true and consumers = 2 or 3: they order the products "
            "that overlap starts"},
        Refusal{"OverlapWithoutRoles", "sm_80", 64, "overlap = true",
                "schedule: overlap, turns, persistent, output_buffer, query_stages, query_panels, "
                "late_stages, late_crossed and add_in_turn need consumers; take consumers = 2 or 3 "
                "on sm_90, or leave them out"},
        Refusal{"PersistentWithoutRoles", "sm_90", 64, "consumers = 0, persistent = true",
                "schedule: overlap, turns, persistent, output_buffer, query_stages, query_panels, "
                "late_stages, late_crossed and add_in_turn need consumers; take consumers = 2 or 3 "
                "on sm_90, or leave them out"},
        Refusal{"LateCrossedOfAttention", "sm_90", 64, "late_crossed = true",
                "schedule: late_crossed is only for gradients, whose loops have products in the "
                "middle; leave it out"},
        Refusal{"AddInTurnOfAttention", "sm_90", 64, "add_in_turn = true",
                "schedule: add_in_turn is only for gradients, whose work items add to shared sums; "
                "leave it out"},
        Refusal{"QueryPanels", "sm_90", 256, "query_panels = 1",
                "schedule: query_panels must be 0 with heads up to 256 and in gradients, not 1; "
                "leave it out"},
        Refusal{"QueryStages", "sm_90", 64, "query_stages = 3",
                "schedule: query_stages must be 1, or 2 with persistent = true and output_buffer = "
                "true, not 3: only the next work item's queries are loaded ahead"},
        Refusal{"QueryStagesOfOneItem", "sm_90", 64, "query_stages = 2, persistent = false",
                "schedule: query_stages must be 1, or 2 with persistent = true and output_buffer = "
                "true, not 2: only the next work item's queries are loaded ahead"},
        Refusal{"SplitOutputsOfAttention", "sm_90", 64, "split_outputs = true",
                "schedule: split_outputs is only for gradients: attention computes its output and "
                "the LSE together; leave it out"},
        Refusal{"Heads", "sm_90", 64, "heads = 12",
                "schedule: heads must be a power of two up to 64 that divides block_m = 192, not "
                "12. It is the number of query heads that share the rows of a block"},
        Refusal{"TooManyHeads", "sm_80", 64, "heads = 128",
                "schedule: heads must be a power of two up to 64 that divides block_m = 128, not "
                "128. It is the number of query heads that share the rows of a block"},
        Refusal{"HeadsOfTheHost", "host", 64, "block_m = 8, heads = 16",
                "schedule: heads must be a power of two up to 64 that divides block_m = 8, not 16. "
                "It is the number of query heads that share the rows of a block"},
        Refusal{"NoHeads", "sm_90", 64, "heads = 0",
                "schedule: heads must be a whole number from 1 to 4096, not '0'"},
        Refusal{"Chip", "sm_75", 64, "",
                "sm_75 is not a target of Tesela, which knows sm_80, sm_86, sm_87, sm_89, sm_90, "
                "sm_100, sm_103, sm_120; choose one of these or 'host'"}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
