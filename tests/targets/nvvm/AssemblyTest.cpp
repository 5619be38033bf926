//===- AssemblyTest.cpp - ptxas takes every kernel ------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Assembles every variant of the library × head dimension × type × chip (most of them thinned,
// VariantGrid.h). ptxas must not warn, and the kernels must fit the chip's shared memory. Kernels
// with roles must not spill. For other kernels spills are printed, but do not fail the test.
//
//===----------------------------------------------------------------------===//
#include "../../VariantGrid.h"
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

/// The first group of `pattern` in `log`; 0 if there is no match.
int numberIn(const std::string &log, const std::string &pattern) {
  std::smatch match;
  return std::regex_search(log, match, std::regex(pattern)) ? std::stoi(match[1]) : 0;
}

/// Matches once for each kernel of a log.
const std::regex &spills() {
  static const std::regex pattern("(\\d+) bytes spill stores");
  return pattern;
}

/// The bytes that all kernels of a log spill.
int spilledBytes(const std::string &log) {
  const std::regex pattern("(\\d+) bytes spill (?:stores|loads)");
  int sum = 0;
  for (std::sregex_iterator match(log.begin(), log.end(), pattern), end; match != end; ++match)
    sum += std::stoi((*match)[1]);
  return sum;
}

/// Whether this point is in the thinned grid: warpgroups with roles for sm_90, and one point for
/// the other chips.
bool isInThinnedGrid(int sm, int headDim, ElementType type) {
  return sm == 90 ? type == ElementType::bf16
                  : sm == 80 && headDim == 128 && type == ElementType::f16;
}

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
        std::string stem = variant.stem().string();
        if (!hasWholeGrid(stem) && !isInThinnedGrid(sm, headDim, type))
          continue;
        std::ostringstream name;
        name << stem << ", " << elementTypeName(type) << ", head dimension " << headDim;
        SCOPED_TRACE(name.str());
        std::ostringstream text;
        text << std::ifstream(variant).rdbuf();
        Artifact artifact = compiled(specificationOf(text.str(), headDim, type, sm));
        // The attention kernel is the last launch. Earlier ones summarise captured tensors.
        ASSERT_FALSE(artifact.launches.empty());
        EXPECT_LE(artifact.launches.back().sharedBytes, chip->blockShared);
        Assembled assembled = assemble(artifact.code);
        EXPECT_TRUE(assembled.isClean()) << assembled.log;
        int spilled = spilledBytes(assembled.log);
        // `axial` spills two numbers that are the same for all work items: 8 bytes are stored once,
        // and each item loads 12.
        if (sm == 90) {
          EXPECT_LE(spilled, stem == "axial" ? 20 : 0) << assembled.log;
        }
        if (spilled > 0)
          std::printf("%s, sm_%d: %d bytes of spills, %d registers\n", name.str().c_str(), sm,
                      spilled, numberIn(assembled.log, "Used (\\d+) registers"));
      }
}

TEST_P(Assembly, TakesALatentCache) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  // DeepSeek's head dimensions, and some that kernels of narrower heads take.
  for (auto [headDim, headDimV] : {std::pair(576, 512), {128, 128}, {256, 192}})
    for (int queries : {1, 0}) {
      SCOPED_TRACE(testing::Message() << headDim << " " << queries);
      KernelSpecification specification = specificationOf("attention causal() { mask = q >= k }",
                                                          headDim, ElementType::bf16, GetParam());
      specification.headDimV = headDimV;
      specification.expectedQueries = queries;
      specification.bindings = {"keys=paged", "page=64", "positions=end", "values=keys"};
      Assembled assembled = assemble(compiled(specification).code);
      EXPECT_TRUE(assembled.isClean()) << assembled.log;
      EXPECT_EQ(spilledBytes(assembled.log), 0) << assembled.log;
    }
}

// Queries in registers leave none for a mask that tests its blocks, or for a costly score.
TEST_P(Assembly, TakesALatentCacheUnderCostlyVariants) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  for (const char *variant :
       {"attention documents(id: i32[Sk]) { mask = q >= k && id[q] == id[k] }",
        "attention costly(a: f32[H], bias: f32[H, Sq, Sk]) {\n"
        "  score = s + bias[h, q, k] * tanh(a[h] * (q - k)) + sin(s)\n}"}) {
    SCOPED_TRACE(variant);
    KernelSpecification specification =
        specificationOf(variant, 576, ElementType::bf16, GetParam());
    specification.headDimV = 512;
    specification.bindings = {"values=keys"};
    Assembled assembled = assemble(compiled(specification).code);
    EXPECT_TRUE(assembled.isClean()) << assembled.log;
    if (GetParam() == 90) {
      EXPECT_EQ(spilledBytes(assembled.log), 0) << assembled.log;
    }
  }
}

// From sm_89 on, chips have an instruction that widens e4m3. Its PTX version differs.
TEST_P(Assembly, TakesACacheOf8Bits) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  for (int queries : {1, 0})
    for (const char *scales : {"scales=head", "scales=page"}) {
      SCOPED_TRACE(testing::Message() << queries << " " << scales);
      KernelSpecification specification = specificationOf("attention causal() { mask = q >= k }",
                                                          128, ElementType::bf16, GetParam());
      specification.expectedQueries = queries;
      specification.bindings = {"keys=paged", "page=64", "positions=end", "cache=e4m3", scales};
      Assembled assembled = assemble(compiled(specification).code);
      EXPECT_TRUE(assembled.isClean()) << assembled.log;
    }
}

INSTANTIATE_TEST_SUITE_P(All, Assembly, testing::Values(80, 86, 89, 90, 120),
                         [](const auto &info) { return "sm_" + std::to_string(info.param); });

// The kernels of sm_90 for schedules without roles.
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

// Every number of consumers, and key blocks that are not a power of two.
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

// The schedules of shorter launches and wide heads: two consumers, and narrower blocks.
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

// Dropout needs registers for its random numbers beside both products. One number that is the same
// for all work items may be spilled: each item reads it once.
TEST(AssemblyWithRoles, SpillsNothingOfItemsWithDropout) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  for (int headDim : {64, 128})
    for (const char *variant : {"attention full() {}", "attention causal() { mask = q >= k }"}) {
      SCOPED_TRACE(testing::Message() << headDim << ": " << variant);
      KernelSpecification specification = specificationOf(variant, headDim, ElementType::bf16, 90);
      specification.dropout = true;
      Artifact artifact = compiled(specification);
      ASSERT_EQ(artifact.launches.size(), 1u);
      Assembled assembled = assemble(artifact.code);
      EXPECT_TRUE(assembled.isClean()) << assembled.log;
      EXPECT_LE(numberIn(assembled.log, "(\\d+) bytes spill stores"), 4) << assembled.log;
    }
}

/// Compiles and assembles a kernel that may spill at most `most` bytes, stored and loaded.
Artifact expectSpills(const KernelSpecification &specification, int most) {
  Artifact artifact = compiled(specification);
  Assembled assembled = assemble(artifact.code);
  EXPECT_TRUE(assembled.isClean()) << assembled.log;
  EXPECT_LE(spilledBytes(assembled.log), most) << assembled.log;
  return artifact;
}

// Gradients of head dimensions above 128, where two kernels compute dK and dV. No product may wait
// for another. The limits are the bytes stored and loaded that ptxas 13.0 spills. Those of
// documents are in the finder, beside the parts of query heads. With 256 columns they cost no time
// (docs/log/2026-11-30-live-numbers.md).
TEST(AssemblyWithRoles, SpillsLittleOfWideGradients) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  struct {
    int headDimQk, headDimV;
  } heads[] = {{192, 128}, {192, 192}, {256, 256}};
  struct {
    const char *variant;
    int bytes;
  } cases[] = {
      {"attention full() {}", 16},
      {"attention causal() { mask = q >= k }", 16},
      {"attention window(w: i32) { mask = q >= k && q - k < w }", 16},
      {"attention alibi(slope: f32[H]) { score = s + slope[h] * (k - q); mask = q >= k }", 16},
      {"attention softcap(cap: f32) { score = cap * tanh(s / cap); mask = q >= k }", 0},
      {"attention documents(id: i32[Sk]) { mask = q >= k && id[q] == id[k] }", 524}};
  for (auto [headDimQk, headDimV] : heads)
    for (auto [variant, bytes] : cases) {
      SCOPED_TRACE(testing::Message() << headDimQk << " and " << headDimV << ": " << variant);
      KernelSpecification specification =
          specificationOf(variant, headDimQk, ElementType::bf16, 90);
      specification.headDimV = headDimV;
      specification.algorithm = backwardAlgorithm;
      Artifact artifact = expectSpills(specification, bytes);
      EXPECT_NE(artifact.schedule.find("split_outputs = true"), std::string::npos);
    }
}

// Fast gradients, whose loop needs nearly all registers. The limits are what ptxas 13.0 spills.
// Above them ptxas tends to give up uniform registers for the products' addresses, which costs up
// to a third of the speed (docs/log/2026-11-30-live-numbers.md).
TEST(AssemblyWithRoles, SpillsLittleOfFastGradients) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  struct {
    const char *variant;
    int ofNarrow, of128; ///< bytes stored and loaded
  } cases[] = {
      {"attention full() {}", 0, 0},
      {"attention causal() { mask = q >= k }", 64, 0},
      {"attention window(w: i32) { mask = q >= k && q - k < w }", 104, 40},
      {"attention alibi(slope: f32[H]) { score = s + slope[h] * (k - q); mask = q >= k }", 136, 72},
      {"attention softcap(cap: f32) { score = cap * tanh(s / cap) }", 0, 112},
      {"attention prefix(p: i32) { mask = k < p || q >= k }", 92, 24}};
  for (auto [variant, ofNarrow, of128] : cases)
    for (int headDim : {64, 128}) {
      SCOPED_TRACE(testing::Message() << headDim << ": " << variant);
      KernelSpecification specification = specificationOf(variant, headDim, ElementType::bf16, 90);
      specification.algorithm = fastBackwardAlgorithm;
      expectSpills(specification, headDim == 64 ? ofNarrow : of128);
    }
}

// Fast gradients of wide heads, where dK's kernel also adds to dQ. Their inner loop reads one
// spilled number at most.
TEST(AssemblyWithRoles, SpillsLittleOfFastWideGradients) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  struct {
    const char *variant;
    int bytes; ///< stored and loaded
  } cases[] = {
      {"attention full() {}", 8},
      {"attention causal() { mask = q >= k }", 112},
      {"attention window(w: i32) { mask = q >= k && q - k < w }", 176},
      {"attention alibi(slope: f32[H]) { score = s + slope[h] * (k - q); mask = q >= k }", 160},
      {"attention prefix(p: i32) { mask = k < p || q >= k }", 112}};
  for (auto [variant, bytes] : cases)
    for (int headDim : {200, 256}) {
      SCOPED_TRACE(testing::Message() << headDim << ": " << variant);
      KernelSpecification specification = specificationOf(variant, headDim, ElementType::bf16, 90);
      specification.algorithm = fastBackwardAlgorithm;
      Artifact artifact = expectSpills(specification, bytes);
      EXPECT_NE(artifact.schedule.find("late_crossed = true"), std::string::npos);
    }
}

// Masks for which blocks must be tested: their reads and divisors are held beside the tiles.
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
               {128, neighbourhood, 0},
               {256, documents, 0}};
  for (auto [headDim, variant, bytes] : cases) {
    SCOPED_TRACE(testing::Message() << headDim << ": " << variant);
    Artifact artifact = compiled(specificationOf(variant, headDim, ElementType::bf16, 90));
    Assembled assembled = assemble(artifact.code);
    EXPECT_TRUE(assembled.isClean()) << assembled.log;
    for (std::sregex_iterator it(assembled.log.begin(), assembled.log.end(), spills()), end;
         it != end; ++it)
      EXPECT_LE(std::stoi((*it)[1]), bytes) << assembled.log;
  }
}

// Each round of a reduction reads, for a few elements at once or for one column after the other. Of
// these variants only the last one, with loops in its mask and in its score, spills, and only
// beside the widest output.
TEST(AssemblyWithRoles, SpillsNothingWhereReductionsAre) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  const char *variants[] = {
      "attention features(a: f32[H, 8, Sq], c: f32[H, 8, Sk]) { score = s + sum(i < 8: a[h, i, q] "
      "* "
      "c[h, i, k]) }",
      "attention globals(g: i32[G], n: i32) { mask = q >= k && (q - k < 128 || any(i < n: g[i] == "
      "k)) }",
      "attention spans(low: i32[B, G], high: i32[B, G]) { mask = q >= k && any(i < 4: low[b, i] <= "
      "k && q < high[b, i]) }",
      "attention both(g: i32[4], t: f32[H, 16]) { mask = any(i < 4: all(j < 4: j >= i || g[j] > k "
      "- "
      "i) && (q + i) % 3 == 0) || q == k\n score = s + (any(i < 4: s > t[h, i]) ? 0.5 : 0) }",
      "attention sums(a: f32[4, Sk]) { mask = sum(i < 3: (q - k) * (i + 1)) > 0 || q == k\n score "
      "= "
      "s + 0.1 * sum(i < 4: a[i, k] * a[i, q]) }"};
  for (int headDim : {64, 128, 192, 256})
    for (int queries : {0, 4})
      for (const char *variant : variants) {
        SCOPED_TRACE(testing::Message() << headDim << ", " << queries << ": " << variant);
        KernelSpecification specification =
            specificationOf(variant, headDim, ElementType::bf16, 90);
        specification.expectedQueries = queries;
        Assembled assembled = assemble(compiled(specification).code);
        EXPECT_TRUE(assembled.isClean()) << assembled.log;
        bool isWidest = headDim == 256 && variant == std::end(variants)[-1];
        for (std::sregex_iterator it(assembled.log.begin(), assembled.log.end(), spills()), end;
             it != end; ++it)
          EXPECT_LE(std::stoi((*it)[1]), isWidest ? 52 : 0) << assembled.log;
      }
}

// The schedule for few queries: one consumer, whose rows several heads share.
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
        // With a table one word may be spilled.
        EXPECT_LE(numberIn(assembled.log, "(\\d+) bytes spill stores"), 4) << assembled.log;
      }
}

} // namespace
