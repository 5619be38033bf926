//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "assemble/BestAttempt.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

KernelSpecification gradients(const char *algorithm) {
  KernelSpecification specification;
  specification.algorithm = algorithm;
  specification.variantText = "attention causal() { mask = q >= k }";
  specification.headDimQk = specification.headDimV = 64;
  specification.target = *Target::parse("sm_90");
  return specification;
}

bool hasRoles(const Artifact &artifact) {
  return artifact.schedule.find("consumers = ") != std::string::npos;
}

TEST(BestAttempt, AKernelThatIsSerialisedWithRolesHasNone) {
  int calls = 0;
  Result<Artifact> best = bestAttempt<Artifact>(
      gradients("backward"), nullptr, {}, [&](Artifact artifact) -> Result<Artifact> {
        ++calls;
        if (hasRoles(artifact))
          return Error(Code::defect, "ptxas serialises the kernel: (C7512)");
        return artifact;
      });
  ASSERT_TRUE(best.ok()) << best.error().message();
  EXPECT_FALSE(hasRoles(*best));
  EXPECT_GT(calls, 1);
}

TEST(BestAttempt, OtherErrorsOfTheAssemblerAreTold) {
  int calls = 0;
  Result<Artifact> best = bestAttempt<Artifact>(gradients("backward"), nullptr, {},
                                                [&](const Artifact &) -> Result<Artifact> {
                                                  ++calls;
                                                  return Error(Code::defect, "no such opcode");
                                                });
  ASSERT_FALSE(best.ok());
  EXPECT_EQ(best.error().message(), "no such opcode");
  EXPECT_EQ(calls, 1);
}

TEST(BestAttempt, WhereAllAreSerialisedTheErrorSaysSo) {
  Result<Artifact> best = bestAttempt<Artifact>(
      gradients("backward"), nullptr, {},
      [&](const Artifact &) -> Result<Artifact> { return Error(Code::defect, "(C7512)"); });
  ASSERT_FALSE(best.ok());
  EXPECT_EQ(best.error().message(), "(C7512)");
}

TEST(BestAttempt, FastGradientsAreFusedWhereTheirTilesFit) {
  auto kernelsOf = [](const KernelSpecification &specification) {
    Result<Artifact> artifact = compile(specification);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message();
    return artifact.ok() ? *artifact : Artifact();
  };
  // Only the fused template has sums of dQ.
  auto isFused = [](const Artifact &artifact) {
    return artifact.code.find("red.async.bulk") != std::string::npos ||
           artifact.code.find("cp.reduce.async.bulk") != std::string::npos;
  };
  Artifact fast = kernelsOf(gradients("backward_fast"));
  EXPECT_TRUE(isFused(fast));
  EXPECT_EQ(fast.code, kernelsOf(gradients("backward_fused")).code);

  // The sums of wide heads are added from registers, by the kernel of dK. Short launches have no
  // such sums.
  KernelSpecification wide = gradients("backward_fast"), exactOfWide = gradients("backward");
  for (auto [headDim, length, queries, adds] : {std::tuple(256, 0, 0, true),
                                                {256, 1024, 0, true},
                                                {256, 1023, 0, false},
                                                {256, 0, 512, false},
                                                {256, 0, 513, true},
                                                {192, 0, 0, true},
                                                {136, 0, 0, true},
                                                {192, 1023, 0, false}}) {
    SCOPED_TRACE(testing::Message()
                 << "D " << headDim << ", length " << length << ", queries " << queries);
    for (KernelSpecification *each : {&wide, &exactOfWide}) {
      each->headDimQk = each->headDimV = headDim;
      each->expectedLength = length;
      each->expectedQueries = queries;
    }
    Artifact ofWide = kernelsOf(wide);
    EXPECT_TRUE(hasRoles(ofWide));
    EXPECT_EQ(ofWide.code.find("red.global.add.v4.f32") != std::string::npos, adds);
    EXPECT_EQ(ofWide.code == kernelsOf(exactOfWide).code, !adds);
  }

  KernelSpecification older = gradients("backward_fast"), fused = gradients("backward_fused");
  older.target = fused.target = *Target::parse("sm_80");
  EXPECT_EQ(kernelsOf(older).code, kernelsOf(fused).code);

  // With seven products, the rows of all head dimensions fit.
  KernelSpecification small = gradients("backward_fast"), exact = gradients("backward");
  small.target = exact.target = *Target::parse("sm_86");
  for (KernelSpecification *each : {&small, &exact})
    each->headDimQk = each->headDimV = 256;
  EXPECT_EQ(kernelsOf(small).code, kernelsOf(exact).code);
}

// One consumer of narrow heads is fast only beside a second thread block. A score's derivative and
// a finder need the registers of that block.
TEST(BestAttempt, NarrowGradientsHaveOneConsumerWhereTwoThreadBlocksFit) {
  auto scheduleOf = [](const char *variant, const char *overrides) {
    KernelSpecification specification = gradients("backward");
    specification.variantText = variant;
    specification.schedule = overrides;
    Result<Artifact> artifact = compile(specification);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message();
    return artifact.ok() ? artifact->schedule : std::string();
  };
  const char *causal = "attention causal() { mask = q >= k }",
             *softcap = "attention softcap(cap: f32) { score = cap * tanh(s / cap) }",
             *documents = "attention documents(id: i32[Sk]) { mask = id[q] == id[k] }";
  const char *open = "add_in_turn = false";
  EXPECT_NE(scheduleOf(causal, open).find("consumers = 1"), std::string::npos);
  for (const char *variant : {softcap, documents}) {
    EXPECT_NE(scheduleOf(variant, open).find("consumers = 2"), std::string::npos) << variant;
    // Two consumers do not have blocks of 64 rows.
    for (const char *overrides : {"consumers = 1", "block_m = 64"})
      EXPECT_NE(scheduleOf(variant, overrides).find("consumers = 1"), std::string::npos)
          << variant << ", " << overrides;
  }
}

// Deterministic gradients have five products where they fit, and seven where they do not or where
// the schedule is for other blocks.
TEST(BestAttempt, DeterministicGradientsAddInTurnWhereTheirTilesFit) {
  struct {
    const char *target;
    int headDim;
    const char *schedule;
    bool addsInTurn;
  } const cases[] = {{"sm_90", 64, "", true},
                     {"sm_90", 128, "", true},
                     {"sm_90", 128, "add_in_turn = true", true},
                     {"sm_90", 128, "group_keys = 4096", true},
                     {"sm_90", 128, "add_in_turn = false", false},
                     {"sm_90", 128, "consumers = 0", false},
                     {"sm_90", 128, "block_m = 128", false},
                     {"sm_90", 128, "split_outputs = true", false},
                     {"sm_90", 256, "", false},
                     {"sm_80", 128, "", false}};
  for (const auto &each : cases) {
    KernelSpecification specification = gradients("backward");
    specification.target = *Target::parse(each.target);
    specification.headDimQk = specification.headDimV = each.headDim;
    specification.schedule = each.schedule;
    SCOPED_TRACE(testing::Message()
                 << each.target << ", D " << each.headDim << ", " << each.schedule);
    Result<Artifact> artifact = compile(specification);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message();
    EXPECT_EQ(artifact->schedule.find("add_in_turn = true") != std::string::npos, each.addsInTurn)
        << artifact->schedule;
    EXPECT_EQ(artifact->code.find("cp.reduce.async.bulk") != std::string::npos, each.addsInTurn);
    specification.expectedLength = 512; // too short for it, unless the schedule asks for it
    Result<Artifact> shorter = compile(specification);
    ASSERT_TRUE(shorter.ok()) << shorter.error().message();
    EXPECT_EQ(shorter->schedule.find("add_in_turn = true") != std::string::npos,
              std::string(each.schedule) == "add_in_turn = true");
    specification.expectedLength = 0;
    // What an artifact records gives the same kernels again.
    specification.schedule = artifact->schedule;
    Result<Artifact> again = compile(specification);
    ASSERT_TRUE(again.ok()) << again.error().message();
    EXPECT_EQ(again->code, artifact->code);
  }
}

// Whoever asks for additions in turn learns why they are not possible, and gets no other kernels.
TEST(BestAttempt, AdditionsInTurnThatAreAskedForHaveNoReplacement) {
  struct {
    int headDim;
    const char *variant, *reason, *schedule = "add_in_turn = true";
  } const cases[] = {
      {256, "attention full() {}", "the copy engine adds, which have at most 128 columns"},
      {128, "attention full() {}", "add_in_turn and split_outputs exclude each other",
       "add_in_turn = true, split_outputs = true"},
      {128, "attention documents(id: i32[Sk]) { mask = id[q] == id[k] }", "tile.find_blocks"}};
  for (const auto &each : cases) {
    KernelSpecification specification = gradients("backward");
    specification.variantText = each.variant;
    specification.headDimQk = specification.headDimV = each.headDim;
    specification.schedule = each.schedule;
    Result<Artifact> artifact = compile(specification);
    ASSERT_FALSE(artifact.ok()) << artifact->schedule;
    EXPECT_NE(artifact.error().message().find(each.reason), std::string::npos)
        << artifact.error().message();
  }
}

TEST(BestAttempt, FastGradientsOfTheHostAreInParts) {
  for (auto [expected, columns] : {std::pair(0, "block_n = 64"), {1024, "block_n = 128"}}) {
    KernelSpecification fast = gradients("backward_fast"), inParts = gradients("backward_in_parts");
    fast.target = inParts.target = *Target::parse("host");
    fast.inputType = inParts.inputType = ElementType::f32;
    fast.expectedLength = expected;
    inParts.schedule = std::string("block_m = 64, ") + columns;
    Result<Artifact> chosen = compile(fast), named = compile(inParts);
    ASSERT_TRUE(chosen.ok() && named.ok());
    EXPECT_EQ(chosen->schedule, named->schedule);
    EXPECT_EQ(chosen->code, named->code);
    // The number of items has a slot for each batch and 16 kv heads. The extents are B, H, Hkv, Sq,
    // Sk.
    const Expression &items = chosen->launches[1].items;
    EXPECT_EQ(items.evaluate({1, 8, 4, 500, 3000}), 4 * (1 + 4));
    EXPECT_EQ(items.evaluate({9, 8, 6, 500, 3000}), 6 * (9 + 3));
    EXPECT_EQ(items.evaluate({0, 8, 6, 500, 3000}), 0);
  }
}

TEST(BestAttempt, ParametersOfWideHeadsHaveSmallerBlocks) {
  KernelSpecification wide = gradients("backward_parameters");
  wide.variantText =
      "attention alibi(slope: f32[H]) { mask = q >= k; score = s + slope[h] * (k - q) }";
  wide.headDimQk = wide.headDimV = 256;
  wide.bindings = {"gradient=slope"};
  for (auto [chip, limit] : {std::pair("sm_90", 232448), {"sm_80", 166912}, {"sm_89", 101376}}) {
    wide.target = *Target::parse(chip);
    Result<Artifact> artifact = compile(wide);
    ASSERT_TRUE(artifact.ok()) << chip << ": " << artifact.error().message();
    for (const Launch &launch : artifact->launches)
      EXPECT_LE(launch.sharedBytes, limit) << chip << ", " << launch.kernel;
  }
}

} // namespace
