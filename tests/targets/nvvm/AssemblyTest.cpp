//===- AssemblyTest.cpp - ptxas takes every kernel ------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Every variant of the library × head dimension × type × chip: assembled without a warning, within
// the chip's shared memory. Warpgroups with roles spill nothing; elsewhere spills are printed, not
// failed on.
//
//===----------------------------------------------------------------------===//
#include "Ptx.h"
#include "Ptxas.h"

#include "targets/nvvm/ChipFacts.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

using namespace tesela;

namespace {

/// The first group of `pattern` in `log`; 0 where there is none.
int numberIn(const std::string &log, const std::string &pattern) {
  std::smatch match;
  return std::regex_search(log, match, std::regex(pattern)) ? std::stoi(match[1]) : 0;
}

/// Of each kernel of a log.
const std::regex spills("(\\d+) bytes spill stores");

class Assembly : public testing::TestWithParam<int> {};

TEST_P(Assembly, TakesEveryVariant) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  int sm = GetParam();
  Result<ChipFacts> chip = chipFacts(sm);
  ASSERT_TRUE(chip.ok()) << chip.error().message();
  std::vector<std::filesystem::path> variants;
  for (const auto &entry : std::filesystem::directory_iterator(TESELA_TEST_VARIANTS))
    variants.push_back(entry.path());
  std::sort(variants.begin(), variants.end());
  ASSERT_FALSE(variants.empty());
  for (const std::filesystem::path &variant : variants)
    for (int headDim : {64, 128})
      for (ElementType type : {ElementType::bf16, ElementType::f16}) {
        std::ostringstream name;
        name << variant.stem().string() << ", " << elementTypeName(type) << ", head dimension "
             << headDim;
        SCOPED_TRACE(name.str());
        std::ostringstream text;
        text << std::ifstream(variant).rdbuf();
        Artifact artifact = compiled(specificationOf(text.str(), headDim, type, sm));
        ASSERT_EQ(artifact.launches.size(), 1u);
        EXPECT_LE(artifact.launches.front().sharedBytes, chip->blockShared);
        Assembled assembled = assemble(artifact.code);
        EXPECT_TRUE(assembled.isClean()) << assembled.log;
        int spilled = numberIn(assembled.log, "(\\d+) bytes spill stores") +
                      numberIn(assembled.log, "(\\d+) bytes spill loads");
        if (sm == 90)
          EXPECT_EQ(spilled, 0) << assembled.log;
        else if (spilled > 0)
          std::printf("%s, sm_%d: %d bytes of spills, %d registers\n", name.str().c_str(), sm,
                      spilled, numberIn(assembled.log, "Used (\\d+) registers"));
      }
}

INSTANTIATE_TEST_SUITE_P(All, Assembly, testing::Values(80, 86, 89, 90, 120),
                         [](const auto &info) { return "sm_" + std::to_string(info.param); });

// What sm_90 runs where the schedule asks for no roles.
TEST(AssemblyWithoutRoles, IsTakenOnSm90) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  for (int headDim : {64, 128}) {
    KernelSpecification specification =
        specificationOf("attention causal() { mask = q >= k }", headDim, ElementType::bf16, 90);
    specification.schedule = withoutRoles;
    Assembled assembled = assemble(compiled(specification).code);
    EXPECT_TRUE(assembled.isClean()) << assembled.log;
  }
}

// Each number of consumers, and key blocks that are no power of two.
TEST(AssemblyWithRoles, TakesEveryNumberOfConsumers) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  for (const char *schedule : {"consumers = 1, block_m = 64, warps = 4",
                               "consumers = 2, block_m = 128, warps = 8, block_n = 80",
                               "consumers = 3, block_m = 192, warps = 12, block_n = 96"}) {
    SCOPED_TRACE(schedule);
    KernelSpecification specification =
        specificationOf("attention causal() { mask = q >= k }", 64, ElementType::f16, 90);
    specification.schedule = schedule;
    Assembled assembled = assemble(compiled(specification).code);
    EXPECT_TRUE(assembled.isClean()) << assembled.log;
  }
}

// What shorter launches and wide heads run: two consumers, and the narrower blocks that fit.
TEST(AssemblyWithRoles, SpillsNothingWithTwoConsumers) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  struct {
    int headDimQk, headDimV;
    int64_t length;
  } kernels[] = {{64, 64, 512}, {128, 128, 512}, {192, 128, 512},
                 {192, 192, 0}, {256, 256, 0},   {192, 256, 0}};
  for (auto [headDimQk, headDimV, length] : kernels)
    for (const char *variant :
         {"attention causal() { mask = q >= k }",
          "attention alibi(slope: f32[H]) { score = s + slope[h] * (k - q); mask = q >= k }"}) {
      SCOPED_TRACE(testing::Message() << headDimQk << " and " << headDimV << ": " << variant);
      KernelSpecification specification =
          specificationOf(variant, headDimQk, ElementType::bf16, 90);
      specification.headDimV = headDimV;
      specification.expectedLength = length;
      Artifact artifact = compiled(specification);
      ASSERT_EQ(artifact.launches.size(), 1u);
      EXPECT_EQ(artifact.launches.front().threads, 384);
      Assembled assembled = assemble(artifact.code);
      EXPECT_TRUE(assembled.isClean()) << assembled.log;
      EXPECT_EQ(numberIn(assembled.log, "(\\d+) bytes spill stores"), 0) << assembled.log;
    }
}

// Masks that only tests of blocks decide: what they read and divide by is held beside the tiles. Blocks
// of 112 columns would spill nothing of a neighbourhood at D 128, but documents gain from 128
// (docs/performance.md).
TEST(AssemblyWithRoles, SpillsNothingWhereBlocksAreTested) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  const char *documents =
      "attention documents(id: i32[B, Sk]) { mask = q >= k && id[b, q] == id[b, k] }";
  const char *neighbourhood = "attention neighbourhood(w: i32) { mask = abs(q / w - k / w) <= 8 && "
                              "abs(q % w - k % w) <= 8 }";
  struct {
    int headDim;
    const char *variant;
    int bytes;
  } cases[] = {{64, documents, 0},
               {64, neighbourhood, 0},
               {128, documents, 0},
               {128, neighbourhood, 40},
               {256, documents, 0}};
  for (auto [headDim, variant, bytes] : cases) {
    SCOPED_TRACE(testing::Message() << headDim << ": " << variant);
    Artifact artifact = compiled(specificationOf(variant, headDim, ElementType::bf16, 90));
    Assembled assembled = assemble(artifact.code);
    EXPECT_TRUE(assembled.isClean()) << assembled.log;
    for (std::sregex_iterator it(assembled.log.begin(), assembled.log.end(), spills), end;
         it != end; ++it)
      EXPECT_LE(std::stoi((*it)[1]), bytes) << assembled.log;
  }
}

// What few queries run: one consumer, whose rows several heads share.
TEST(AssemblyWithRoles, SpillsNothingWithPackedHeads) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  for (int headDim : {64, 128, 256})
    for (int queries : {1, 4})
      for (const char *variant :
           {"attention bottom_right() { mask = q + Sk - Sq >= k }",
            "attention alibi(slope: f32[H]) { score = s + slope[h] * (k - q); mask = q >= k }",
            "attention bias(t: f32[H, 2*Sk]) { score = s + t[h, q - k + Sk] }"}) {
        SCOPED_TRACE(testing::Message() << headDim << ", " << queries << ": " << variant);
        KernelSpecification specification =
            specificationOf(variant, headDim, ElementType::bf16, 90);
        specification.expectedQueries = queries;
        Artifact artifact = compiled(specification);
        ASSERT_EQ(artifact.launches.size(), 1u);
        EXPECT_EQ(artifact.launches.front().threads, 256);
        Assembled assembled = assemble(artifact.code);
        EXPECT_TRUE(assembled.isClean()) << assembled.log;
        EXPECT_EQ(numberIn(assembled.log, "(\\d+) bytes spill stores"), 0) << assembled.log;
      }
}

} // namespace
