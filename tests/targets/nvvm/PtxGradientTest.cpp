//===- PtxGradientTest.cpp - The kernels of gradients ---------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Opcodes.h"
#include "Ptx.h"

#include "schedule/Heuristics.h"

#include <algorithm>

using namespace tesela;

namespace {

TEST(Ptx, GradientsHaveRolesWhereTheyFit) {
  struct {
    int sm, headDim;
    const char *schedule, *algorithm;
    bool hasRoles;
  } const cases[] = {{90, 64, "", "backward", true},
                     {90, 128, "stages = 1", "backward", true},
                     {90, 256, "", "backward", true},
                     {90, 256, "", "backward_fused", true}, // dV in a kernel of its own
                     {90, 192, "", "backward_fused", true},
                     {90, 64, "", "backward_fused", true}, // 128 queries a step, 64 a warpgroup
                     {90, 64, "block_n = 64", "backward_fused", false}, // 64, and no columns to cut
                     {90, 48, "block_n = 64", "backward_fused", false},
                     {90, 72, "", "backward_fused", true}, // 64 columns, and the other 8
                     {90, 112, "", "backward_fused", true},
                     {90, 64, "consumers = 0", "backward", false},
                     {90, 256, "consumers = 0", "backward", false},
                     {80, 64, "", "backward", false},
                     {100, 128, "", "backward", false}};
  for (const auto &each : cases) {
    KernelSpecification specification =
        specificationOf(causal, each.headDim, ElementType::bf16, each.sm);
    specification.algorithm = each.algorithm;
    specification.schedule = each.schedule;
    Artifact artifact = compiled(specification);
    SCOPED_TRACE(testing::Message()
                 << "sm_" << each.sm << ", D " << each.headDim << ", " << artifact.schedule);
    EXPECT_EQ(artifact.schedule.find("consumers = ") != std::string::npos, each.hasRoles);
    EXPECT_EQ(artifact.code.find("wgmma") != std::string::npos, each.hasRoles);
  }
}

// Two warpgroups share the columns of dQ. Of up to 128 columns each has 64, and the copy engine
// adds them. Of more columns each has 128, which leave from the registers. The second one may lack
// some.
TEST(PtxWithRoles, FastGradientsAddToDQ) {
  struct {
    int headDimQk, headDimV;
    bool byCopies;
  } const cases[] = {{72, 72, true},    {96, 96, true},   {112, 112, true}, {112, 64, true},
                     {120, 128, true},  {136, 64, false}, {144, 64, false}, {160, 32, false},
                     {192, 128, false}, {192, 192, false}};
  for (const auto &each : cases) {
    KernelSpecification specification =
        specificationOf(causal, each.headDimQk, ElementType::bf16, 90);
    specification.headDimV = each.headDimV;
    specification.algorithm = fastBackwardAlgorithm;
    Artifact artifact = compiled(specification);
    SCOPED_TRACE(testing::Message() << "D " << each.headDimQk << " and " << each.headDimV << ": "
                                    << artifact.schedule);
    EXPECT_EQ(artifact.code.find("cp.reduce.async.bulk") != std::string::npos, each.byCopies);
    EXPECT_EQ(artifact.code.find("red.global.add.v4.f32") != std::string::npos, !each.byCopies);
    EXPECT_NE(artifact.schedule.find("consumers = 2"), std::string::npos);
  }
}

// Lanes load the log-sum and D, and lanes do not wait for each other. Products read Q and dO, and a
// warp awaits a product as a whole.
TEST(PtxWithRoles, EachLaneReleasesTheNumbersThatItLoads) {
  KernelSpecification specification = specificationOf(causal, 128, ElementType::bf16, 90);
  specification.algorithm = "backward_fused";
  std::string code = compiled(specification).code;
  size_t begin = code.find(".entry backward_keys");
  ASSERT_NE(begin, std::string::npos);
  code = code.substr(begin);
  auto barriersOf = [&](const std::string &arrivals) {
    std::istringstream lines(code);
    int count = 0;
    for (std::string line; std::getline(lines, line);)
      count += line.find("mbarrier.init") != std::string::npos && line.ends_with(arrivals);
    return count;
  };
  // Two channels of two stages, and the channel of work items: each lane of 8 warps arrives.
  EXPECT_EQ(barriersOf(", 256;"), 3 * 2);
  // One lane of each warp arrives: for Q and dO, for K, which has one stage, and for dS, whose
  // stages the warps fill and empty.
  EXPECT_EQ(barriersOf(", 8;"), 2 * 2 + 1 + 2 * 2);
}

// Each consumer has an adder. Without these fences some launches add in another order, which only a
// test of many launches notices (gpu_torch_same_bits_test.py).
TEST(PtxWithRoles, AddersOrderTheirAdditions) {
  for (int headDim : {64, 96, 128}) {
    KernelSpecification specification = specificationOf(causal, headDim, ElementType::bf16, 90);
    specification.algorithm = backwardAlgorithm;
    std::string code = compiled(specification).code;
    const std::string addition = "cp.reduce.async.bulk";
    EXPECT_EQ(occurrences(code, addition), 2) << headDim;
    for (size_t at = code.find(addition); at != std::string::npos;
         at = code.find(addition, at + 1)) {
      // In front of it the turn is awaited, behind it the turn is passed on.
      std::string before = code.substr(code.rfind("\nTURN:", at), at - code.rfind("\nTURN:", at)),
                  after = code.substr(at, code.find("\nITEM:", at) - at);
      EXPECT_LT(before.find("ld.acquire.gpu"), before.find("fence.proxy.async.global"));
      EXPECT_EQ(occurrences(before, "fence.proxy.async.global"), 1);
      size_t complete = after.find("cp.async.bulk.wait_group 0"),
             fence = after.find("fence.proxy.async.global"), passed = after.find("st.release.gpu");
      EXPECT_LT(complete, fence);
      EXPECT_LT(fence, passed);
      EXPECT_NE(passed, std::string::npos);
    }
  }
}

// Two thread blocks of one consumer each pay from a length of 2048 on.
TEST(Ptx, GradientsOfNarrowHeadsHaveOneConsumerIfTheyAreLong) {
  for (auto [length, consumers] :
       {std::pair(0, "consumers = 1"), {2048, "consumers = 1"}, {2047, "consumers = 2"}}) {
    KernelSpecification specification = specificationOf(causal, 64, ElementType::bf16, 90);
    specification.algorithm = backwardAlgorithm;
    specification.schedule = "add_in_turn = false";
    specification.expectedLength = length;
    Artifact artifact = compiled(specification);
    EXPECT_NE(artifact.schedule.find(consumers), std::string::npos)
        << length << ": " << artifact.schedule;
  }
}

// If a thread's registers hold dK and dV together, one kernel computes both.
TEST(Ptx, GradientsOfKeysHaveAsManyKernelsAsTheirTilesNeed) {
  const std::string softcap = "attention softcap(cap: f32) { score = cap * tanh(s / cap) }",
                    documents =
                        "attention documents(id: i32[Sk]) { mask = q >= k && id[q] == id[k] }";
  struct {
    std::string variant;
    int headDimQk, headDimV;
    const char *schedule; ///< what the test asks for
    const char *choices;  ///< what is chosen besides the consumers
    bool isSplit;
  } const cases[] = {
      {causal, 64, 64, "", "block_n = 128, stages = 2", false},
      {causal, 64, 64, "add_in_turn = false", "block_n = 64, stages = 2", false},
      {causal, 128, 128, "", "block_n = 64, stages = 2", false},
      {causal, 128, 128, "add_in_turn = false", "block_n = 64, stages = 2", false},
      {softcap, 64, 64, "", "block_n = 64, stages = 2", false},
      {softcap, 128, 128, "", "block_n = 64, stages = 2", false},
      {documents, 128, 128, "", "block_n = 64, stages = 2", false},
      {causal, 192, 128, "", "block_n = 64, stages = 2", true},
      {causal, 192, 192, "", "block_n = 64, stages = 2", true},
      {causal, 256, 256, "", "late_stages = 1", true}, // 224 KB of shared memory
      {softcap, 256, 256, "", "block_n = 32, stages = 2", true},
      {documents, 256, 256, "", "block_n = 32, stages = 2", true},
      {causal, 128, 128, "split_outputs = true", "block_n = 64, stages = 2", true},
      {softcap, 128, 128, "split_outputs = false", "block_n = 64, stages = 2", false}};
  for (const auto &each : cases) {
    KernelSpecification specification =
        specificationOf(each.variant, each.headDimQk, ElementType::bf16, 90);
    specification.headDimV = each.headDimV;
    specification.algorithm = backwardAlgorithm;
    specification.schedule = each.schedule;
    Artifact artifact = compiled(specification);
    SCOPED_TRACE(testing::Message() << each.variant << ", D " << each.headDimQk << " and "
                                    << each.headDimV << ": " << artifact.schedule);
    // With narrow heads and seven products two thread blocks of one consumer each were faster.
    // Softcap has no registers for two.
    bool hasOne = each.headDimQk <= 64 && each.variant == causal && *each.schedule;
    const char *consumers = hasOne ? "consumers = 1" : "consumers = 2";
    EXPECT_NE(artifact.schedule.find(consumers), std::string::npos);
    EXPECT_NE(artifact.schedule.find(each.choices), std::string::npos);
    std::vector<std::string> kernels;
    for (const Launch &launch : artifact.launches)
      if (launch.kernel.starts_with("backward_keys"))
        kernels.push_back(launch.kernel);
    using Names = std::vector<std::string>;
    EXPECT_EQ(kernels, each.isSplit ? Names({"backward_keys_dk", "backward_keys_dv"})
                                    : Names({"backward_keys"}));
    if (*each.schedule)
      continue;
    // The chosen schedule, given as text, makes the same kernel.
    specification.schedule = artifact.schedule;
    EXPECT_EQ(compiled(specification).code, artifact.code);
  }
}

// Without roles: 32 rows for each warp with narrow heads; with wide heads two kernels for dK and
// dV, in blocks that fit the chip's shared memory.
TEST(Ptx, GradientsWithoutRolesHaveTheRowsThatWarpsHold) {
  const std::string rows = "block_m = 128, block_n = 32, stages = 2, warps = ";
  struct {
    int sm, headDim;
    std::string choices;
    bool isSplit;
  } const cases[] = {{80, 64, rows + "4", false},
                     {80, 128, "block_m = 64, block_n = 64, stages = 2, warps = 4", false},
                     {80, 192, rows + "8", true},
                     {80, 256, "block_m = 64, block_n = 32, stages = 1, warps = 4", true},
                     {86, 64, rows + "4", false},
                     {86, 256, "block_m = 64, block_n = 32, stages = 1, warps = 4", true},
                     {90, 64, rows + "4", false},
                     {90, 256, rows + "8", true}};
  for (const auto &each : cases) {
    KernelSpecification specification =
        specificationOf(causal, each.headDim, ElementType::bf16, each.sm);
    specification.algorithm = backwardAlgorithm;
    specification.schedule = each.sm == 90 ? "consumers = 0" : "";
    Artifact artifact = compiled(specification);
    SCOPED_TRACE(testing::Message()
                 << "sm_" << each.sm << ", D " << each.headDim << ": " << artifact.schedule);
    EXPECT_NE(artifact.schedule.find(each.choices), std::string::npos);
    EXPECT_EQ(artifact.schedule.find("split_outputs = true") != std::string::npos, each.isSplit);
  }
}

// Five products without roles: blocks that fit the chip's shared memory, and columns that divide.
TEST(Ptx, FastGradientsWithoutRolesShareRows) {
  struct {
    int sm, headDim;
    bool dropout;
    std::string algorithm, choices;
    int productRows; ///< 0: each warp has whole rows
  } const cases[] = {
      {80, 64, false, "backward_fused", "block_m = 128, block_n = 32, stages = 2, warps = 4", 0},
      {80, 40, false, "backward_fused", "block_m = 64, block_n = 64, stages = 2, warps = 4", 0},
      {90, 128, false, "backward_fused", "block_m = 64, block_n = 64, stages = 2, warps = 4", 32},
      {80, 128, false, "backward_fused", "block_m = 128, block_n = 64, stages = 2, warps = 8", 32},
      {86, 128, false, "backward_fused", "block_m = 64, block_n = 64, stages = 1, warps = 4", 32},
      {90, 128, true, "backward_fused", "block_m = 64, block_n = 64, stages = 2, warps = 4", 0},
      {90, 96, false, "backward_fused", "block_m = 64, block_n = 64, stages = 2, warps = 4", 0},
      {90, 256, false, "backward_fused", "block_m = 64, block_n = 64, stages = 2, warps = 8", 32},
      {80, 256, false, "backward_fused", "block_m = 64, block_n = 64, stages = 1, warps = 8", 32},
      {86, 256, false, "backward", "stages = 1, warps = 4", 0}};
  for (const auto &each : cases) {
    KernelSpecification specification =
        specificationOf(causal, each.headDim, ElementType::bf16, each.sm);
    specification.algorithm = fastBackwardAlgorithm;
    specification.schedule = each.sm == 90 ? "consumers = 0" : "";
    specification.dropout = each.dropout;
    Artifact artifact = compiled(specification);
    SCOPED_TRACE(testing::Message()
                 << "sm_" << each.sm << ", D " << each.headDim << ": " << artifact.schedule);
    EXPECT_NE(artifact.schedule.find(each.choices), std::string::npos);
    EXPECT_EQ(artifact.schedule.find("product_rows = 32") != std::string::npos,
              each.productRows == 32);
    EXPECT_EQ(artifact.code.find("red.global.add.f32") != std::string::npos,
              each.algorithm == "backward_fused");
    // The chosen schedule, given as text, makes the same kernel.
    specification.algorithm = each.algorithm;
    specification.schedule = artifact.schedule + ", consumers = 0";
    EXPECT_EQ(compiled(specification).code, artifact.code);
  }
}

} // namespace
