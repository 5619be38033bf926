//===- PtxChipTest.cpp - What differs from chip to chip -------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Opcodes.h"
#include "Ptx.h"

#include "schedule/Heuristics.h"
#include "targets/nvvm/ChipFacts.h"

using namespace tesela;

namespace {

class PtxChip : public testing::TestWithParam<int> {};

TEST_P(PtxChip, HasItsTargetVersionAndSharedMemory) {
  int sm = GetParam();
  Result<ChipFacts> chip = chipFacts(sm);
  ASSERT_TRUE(chip.ok()) << chip.error().message();
  for (int headDim : {64, 128}) {
    Artifact artifact = compiled(specificationOf(causal, headDim, ElementType::bf16, sm));
    ASSERT_EQ(artifact.launches.size(), 1u);
    // Instructions that only sm_90 has need their own target and PTX version.
    std::string target = sm == 90 ? "sm_90a" : "sm_" + std::to_string(sm);
    EXPECT_NE(artifact.code.find(".target " + target + "\n"), std::string::npos);
    int ptx = sm == 90 ? chip->acceleratedPtx : chip->ptxVersion;
    std::string version = std::to_string(ptx / 10) + "." + std::to_string(ptx % 10);
    EXPECT_NE(artifact.code.find(".version " + version + "\n"), std::string::npos);
    Opcodes opcodes(artifact.code);
    EXPECT_EQ(opcodes.count("mma.sync") > 0, sm != 90);
    EXPECT_EQ(opcodes.count("wgmma") > 0, sm == 90);
    int threads = artifact.launches.front().threads;
    EXPECT_NE(artifact.code.find(".reqntid " + std::to_string(threads)), std::string::npos);
    EXPECT_EQ(threads, sm == 90 ? 512 : 128);
    EXPECT_GT(artifact.launches.front().sharedBytes, 0);
    EXPECT_LE(artifact.launches.front().sharedBytes, chip->blockShared);
  }
}

// The heuristics choose by an estimate, before there is IR that could be measured.
TEST_P(PtxChip, SharedMemoryIsEstimatedWellAndNeverTooLow) {
  constexpr int64_t mostOfFinder = 4096; // the estimate includes a finder, which few masks need
  for (int headDim : {64, 72, 128, 192, 256})
    for (const char *choices : {"", "stages = 1"}) {
      KernelSpecification specification =
          specificationOf(causal, headDim, ElementType::bf16, GetParam());
      specification.schedule = choices;
      Artifact artifact = compiled(specification);
      ASSERT_EQ(artifact.launches.size(), 1u);
      Schedule schedule;
      ASSERT_TRUE(overrideSchedule(schedule, artifact.schedule).ok());
      int64_t estimated = sharedBytes(schedule, specification);
      int64_t counted = artifact.launches.front().sharedBytes;
      EXPECT_GE(estimated, counted) << "D " << headDim << ", " << artifact.schedule;
      EXPECT_LE(estimated, counted + mostOfFinder) << "D " << headDim << ", " << artifact.schedule;
    }
}

/// The count of pipe-count-registers for the kernel; -1 if there is none.
int64_t countedRegisters(const KernelSpecification &specification) {
  Result<std::string> program = emit(specification, Stage::pipe);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message());
  const std::string key = "pipe.tile_registers = ";
  size_t at = program.ok() ? program->find(key) : std::string::npos;
  return at == std::string::npos ? -1 : std::stoll(program->substr(at + key.size()));
}

// The estimate of the registers of warpgroups with roles is exact.
TEST(Ptx, RegistersOfRolesAreEstimatedExactly) {
  for (int headDim : {64, 72, 128, 192, 256})
    for (const char *choices : {"", "overlap = false", "consumers = 1", "consumers = 2"}) {
      KernelSpecification specification = specificationOf(causal, headDim, ElementType::bf16, 90);
      specification.schedule = choices;
      Artifact artifact = compiled(specification);
      Schedule schedule;
      ASSERT_TRUE(overrideSchedule(schedule, artifact.schedule).ok());
      EXPECT_EQ(countedRegisters(specification),
                heldRegisters(schedule.blockN, specification, schedule.overlap))
          << "D " << headDim << ", " << artifact.schedule;
    }
}

INSTANTIATE_TEST_SUITE_P(All, PtxChip, testing::Values(80, 86, 87, 89, 90, 100, 103, 120),
                         [](const auto &info) { return "sm_" + std::to_string(info.param); });

TEST(Ptx, AHeadDimensionThatIsNotSupportedIsAnErrorWithThoseThatAre) {
  const std::pair<int, const char *> remedies[] = {{4, "pad the tensors with zeros to 8"},
                                                   {100, "pad the tensors with zeros to 104"},
                                                   {584, "use narrower heads"},
                                                   {0, "pad the tensors with zeros to 8"}};
  for (auto [headDim, remedy] : remedies) {
    Result<Artifact> artifact = compile(specificationOf(causal, headDim, ElementType::bf16, 90));
    ASSERT_FALSE(artifact.ok()) << headDim;
    EXPECT_EQ(artifact.error().code(), Code::unsupported);
    EXPECT_EQ(artifact.error().message(),
              "a head dimension of " + std::to_string(headDim) +
                  " is not supported: it must be a multiple of 8 up to 576; " + remedy);
  }
  KernelSpecification backward = specificationOf(causal, 264, ElementType::bf16, 90);
  backward.algorithm = backwardAlgorithm;
  EXPECT_EQ(compile(backward).error().message(),
            "a head dimension of 264 is not supported: it must be a multiple of 8 up to 256; "
            "only forward attention supports wider heads");
  KernelSpecification dropped = specificationOf(causal, 512, ElementType::bf16, 90);
  dropped.dropout = true;
  EXPECT_EQ(compile(dropped).error().message(),
            "dropout is not supported with head dimensions of 512 and 512: with it head "
            "dimensions go up to 256; leave it out, or use narrower heads");
}

/// Multi-head latent attention: 576 columns, of which the first 512 are the values.
KernelSpecification latent(int sm, const std::string &algorithm) {
  KernelSpecification specification = specificationOf(causal, 576, ElementType::bf16, sm);
  specification.headDimV = 512;
  specification.algorithm = algorithm;
  specification.expectedQueries = 1;
  specification.bindings = {"keys=paged", "page=64", "positions=end", "values=keys"};
  if (algorithm == partsAlgorithm)
    specification.bindings.push_back("workers=264");
  return specification;
}

TEST_P(PtxChip, TakesValuesThatAreTheFirstColumnsOfTheKeys) {
  int sm = GetParam();
  for (const char *algorithm : {forwardAlgorithm, partsAlgorithm}) {
    KernelSpecification specification = latent(sm, algorithm);
    Artifact artifact = compiled(specification);
    SCOPED_TRACE(testing::Message() << algorithm << ", " << artifact.schedule);
    EXPECT_LE(artifact.launches.front().sharedBytes, chipFacts(sm)->blockShared);
    for (const TensorArgument &tensor : artifact.tensors)
      EXPECT_NE(tensor.name, "v");
    Schedule schedule;
    ASSERT_TRUE(overrideSchedule(schedule, artifact.schedule).ok());
    EXPECT_GE(sharedBytes(schedule, specification), artifact.launches.front().sharedBytes);
    // Each warpgroup has 32 of 64 keys, and half of the output's columns.
    for (const char *product : {"m64n32k16", "m64n256k16"})
      EXPECT_EQ(artifact.code.find(product) != std::string::npos, sm == 90) << product;
    if (sm != 90)
      continue;
    // S is the sum of two products, the first with queries from registers: 12 and 24 steps. Only
    // the second one is awaited, and the product of the values.
    auto count = [&](std::string_view text) {
      int found = 0;
      for (size_t at = artifact.code.find(text); at != std::string::npos;
           at = artifact.code.find(text, at + 1))
        ++found;
      return found;
    };
    EXPECT_EQ(count("wgmma.mma_async.sync.aligned.m64n32k16"), 36);
    EXPECT_EQ(count("ldmatrix"), 12);
    EXPECT_EQ(count("wgmma.wait_group"), 2);
  }
}

TEST(Ptx, AnUnknownChipIsAnErrorWithTheKnownOnes) {
  Result<Artifact> artifact = compile(specificationOf(causal, 64, ElementType::bf16, 75));
  ASSERT_FALSE(artifact.ok());
  EXPECT_EQ(artifact.error().message(),
            "sm_75 is not a target of Tesela, which knows sm_80, sm_86, sm_87, sm_89, sm_90, "
            "sm_100, sm_103, sm_120; choose one of these or 'host'");
}

} // namespace
