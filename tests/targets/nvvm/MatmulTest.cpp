//===- MatmulTest.cpp - Templates without attention, to PTX ---------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Tests that this is a compiler: matrix products, the combination of partial results and the
// summaries of captured tensors go through the pipeline of attention, down to PTX.
// tests/gpu/TemplatesTest.cpp runs them.
//
//===----------------------------------------------------------------------===//
#include "Ptxas.h"

#include "tesela/compiler/Compile.h"

#include <gtest/gtest.h>

#include <map>

using namespace tesela;

namespace {

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// The parts of a kernel specification that the templates here use.
struct Wanted {
  const char *algorithm;
  std::vector<std::string> bindings;
  std::string type = "bf16";
  int headDimV = 128;
};

Artifact artifactOf(const Wanted &wanted, int sm, const std::string &schedule) {
  KernelSpecification specification;
  specification.algorithm = wanted.algorithm;
  specification.bindings = wanted.bindings;
  specification.inputType = *parseElementType(wanted.type);
  specification.headDimV = wanted.headDimV;
  specification.target = {Target::Kind::cuda, sm};
  specification.schedule = schedule;
  Result<Artifact> artifact = compile(specification);
  EXPECT_TRUE(artifact.ok()) << (artifact ? "" : artifact.error().message());
  return artifact ? *artifact : Artifact();
}

/// The PTX of the products in this folder's matmul.mlir.
std::string ptxOfProducts(const std::string &type, int sm,
                          const std::string &schedule = "block_m = 128, block_n = 64, stages = 2, "
                                                        "warps = 4, q_in_registers = true") {
  setTemplateFolder(TESELA_TEST_FOLDER);
  std::string ptx = artifactOf({"matmul", {"d=64"}, type}, sm, schedule).code;
  setTemplateFolder("");
  return ptx;
}

TEST(Matmul, BecomesPtx) {
  for (const char *type : {"bf16", "f16"})
    for (int sm : {80, 120}) {
      std::string ptx = ptxOfProducts(type, sm);
      EXPECT_TRUE(contains(ptx, ".visible .entry products("));
      EXPECT_TRUE(contains(ptx, std::string("mma.sync.aligned.m16n8k16.row.col.f32.") + type));
      EXPECT_TRUE(contains(ptx, "ldmatrix.sync"));
      EXPECT_TRUE(contains(ptx, "cp.async.cg"));
      EXPECT_TRUE(contains(ptx, "st.global.v4"));
      for (const char *other : {"ex2", "lg2", "max.f32", "shfl", "selp.f32"})
        EXPECT_FALSE(contains(ptx, other)) << other;
    }
}

constexpr const char *withRoles =
    "block_m = 128, block_n = 128, stages = 2, warps = 8, consumers = 2";

TEST(Matmul, BecomesPtxWithRoles) {
  for (const char *type : {"bf16", "f16"}) {
    std::string ptx = ptxOfProducts(type, 90, withRoles);
    EXPECT_TRUE(contains(ptx, ".target sm_90a"));
    EXPECT_TRUE(contains(ptx, ".visible .entry products("));
    EXPECT_TRUE(contains(ptx, std::string("wgmma.mma_async.sync.aligned.m64n128k16.f32.") + type));
    EXPECT_TRUE(contains(ptx, std::string("wgmma.mma_async.sync.aligned.m64n64k16.f32.") + type));
    EXPECT_TRUE(contains(ptx, "cp.async.bulk.tensor.4d.shared::cluster"));
    EXPECT_TRUE(contains(ptx, "cp.async.bulk.tensor.4d.global"));
    for (const char *other : {"mma.sync", "ldmatrix", "ex2", "lg2", "max.f32", "selp.f32"})
      EXPECT_FALSE(contains(ptx, other)) << other;
  }
}

TEST(Matmul, Assembles) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  Assembled withConsumers = assemble(ptxOfProducts("bf16", 90, withRoles));
  EXPECT_TRUE(withConsumers.isClean()) << withConsumers.log;
  for (int sm : {80, 120}) {
    Assembled assembled = assemble(ptxOfProducts("bf16", sm));
    EXPECT_TRUE(assembled.isClean()) << assembled.log;
  }
}

//===----------------------------------------------------------------------===//
// templates/matmul.mlir: C = A B over blocks of the depth
//===----------------------------------------------------------------------===//

constexpr const char *matmulWithStages = "block_m = 128, block_n = 64, stages = 3, warps = 4";
constexpr const char *matmulWithRoles =
    "block_m = 128, block_n = 64, stages = 4, warps = 8, consumers = 2";

std::string ptxOfProduct(const std::string &type, int sm, const std::string &schedule) {
  return artifactOf({"matmul", {"columns=128"}, type}, sm, schedule).code;
}

// The box of a tensor copy follows from how a view is used, not from its name.
TEST(DepthBlocks, BoxesFollowFromTheBlocks) {
  std::map<std::string, int> rows;
  Artifact artifact = artifactOf({"matmul", {"columns=64"}}, 90, withRoles); // block_n = 128
  ASSERT_EQ(artifact.launches.size(), 1u);
  for (const ArgumentSlot &slot : artifact.launches[0].slots)
    if (slot.kind == ArgumentSlot::Kind::tensorMap)
      rows[slot.name] = slot.axis;
  EXPECT_EQ(rows, (std::map<std::string, int>{{"a", 64}, {"b", 128}, {"o", 64}}));
}

std::string refusalOfProduct(int columns, int sm, const std::string &schedule) {
  KernelSpecification specification;
  specification.algorithm = "matmul";
  specification.bindings = {"columns=" + std::to_string(columns)};
  specification.target = {Target::Kind::cuda, sm};
  specification.schedule = schedule;
  Result<Artifact> artifact = compile(specification);
  EXPECT_EQ(artifact.code(), Code::invalidArgument);
  return artifact ? "" : artifact.error().message();
}

// Attention's rules for schedules do not hold for other templates. Their shared memory is counted.
TEST(DepthBlocks, TooMuchSharedMemoryIsASentence) {
  std::string message =
      refusalOfProduct(128, 120, "block_m = 128, block_n = 128, stages = 3, warps = 4");
  EXPECT_TRUE(contains(message, "schedule: the kernel 'matmul' needs")) << message;
  EXPECT_TRUE(contains(message, "use a smaller block_m, a smaller block_n or fewer stages"))
      << message;
}

TEST(DepthBlocks, ExtentsThatNoInstructionTakesAreASentence) {
  for (int columns : {7, 24, 512}) {
    std::string message = refusalOfProduct(columns, 90, "");
    EXPECT_TRUE(contains(message, "has a product of 64 x 64 by 64 x " + std::to_string(columns) +
                                      ": on a GPU the extents of tile.dot must be multiples of 16"))
        << message;
  }
}

// A product needs no variant. A template that needs one says so.
TEST(DepthBlocks, AttentionNeedsAVariant) {
  KernelSpecification specification;
  EXPECT_EQ(compile(specification).code(), Code::invalidVariant);
}

TEST(DepthBlocks, BecomePtx) {
  for (const char *type : {"bf16", "f16"})
    for (int sm : {80, 90}) {
      std::string ptx = ptxOfProduct(type, sm, matmulWithStages);
      EXPECT_TRUE(contains(ptx, ".visible .entry matmul("));
      EXPECT_TRUE(contains(ptx, std::string("mma.sync.aligned.m16n8k16.row.col.f32.") + type));
      // Copies run ahead: two of three stages may be under way while one is read.
      EXPECT_TRUE(contains(ptx, "cp.async.wait_group 1;"));
      EXPECT_FALSE(contains(ptx, "ex2"));
    }
}

TEST(DepthBlocks, BecomePtxWithRoles) {
  for (const char *type : {"bf16", "f16"}) {
    std::string ptx = ptxOfProduct(type, 90, matmulWithRoles);
    EXPECT_TRUE(contains(ptx, ".target sm_90a"));
    EXPECT_TRUE(contains(ptx, std::string("wgmma.mma_async.sync.aligned.m64n128k16.f32.") + type));
    EXPECT_TRUE(contains(ptx, "cp.async.bulk.tensor.4d.shared::cluster"));
    for (const char *other : {"mma.sync", "ldmatrix", "cp.async.cg"})
      EXPECT_FALSE(contains(ptx, other)) << other;
  }
}

void expectClean(const std::string &ptx) {
  Assembled assembled = assemble(ptx);
  EXPECT_TRUE(assembled.isClean()) << assembled.log;
  EXPECT_TRUE(contains(assembled.log, " 0 bytes spill stores")) << assembled.log;
}

TEST(DepthBlocks, Assemble) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  expectClean(ptxOfProduct("bf16", 90, matmulWithRoles));
  expectClean(ptxOfProduct("bf16", 80, matmulWithStages));
  for (int sm : {80, 90, 120}) // the schedule that the target chooses
    expectClean(ptxOfProduct("bf16", sm, ""));
}

//===----------------------------------------------------------------------===//
// templates/merge.mlir
//===----------------------------------------------------------------------===//

std::string ptxOfMerge(const std::string &type, int columns, int sm) {
  return artifactOf({"merge", {"part=f32", "output=" + type}, "bf16", columns}, sm, "stages = 1")
      .code;
}

TEST(Merge, BecomesPtx) {
  for (const char *type : {"bf16", "f16"})
    for (int sm : {80, 90}) {
      std::string ptx = ptxOfMerge(type, 128, sm);
      EXPECT_TRUE(contains(ptx, ".visible .entry merge("));
      EXPECT_TRUE(contains(ptx, "ld.global.v2.f32") || contains(ptx, "ld.global.nc.v2.f32") ||
                  contains(ptx, "ld.global.v2.b32") || contains(ptx, "ld.global.nc.v2.b32"));
      EXPECT_TRUE(contains(ptx, "ex2.approx"));
      EXPECT_TRUE(contains(ptx, "st.global.v4"));
      for (const char *other : {"mma", "cp.async"})
        EXPECT_FALSE(contains(ptx, other)) << other;
    }
}

TEST(Merge, Assembles) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  for (int columns : {64, 128})
    for (int sm : {80, 90, 120})
      expectClean(ptxOfMerge("bf16", columns, sm));
}

//===----------------------------------------------------------------------===//
// templates/summary.mlir
//===----------------------------------------------------------------------===//

std::string ptxOfSummary(int rows, int columns, int planes, int isFloat, int sm) {
  return artifactOf({"summary",
                     {"rows=" + std::to_string(rows), "columns=" + std::to_string(columns),
                      "planes=" + std::to_string(planes), isFloat ? "element=f32" : "element=i32",
                      "is_float=" + std::to_string(isFloat)}},
                    sm, "stages = 1")
      .code;
}

TEST(Summary, BecomesPtx) {
  for (int sm : {80, 90}) {
    std::string ptx = ptxOfSummary(1, 16, 0, 1, sm);
    EXPECT_TRUE(contains(ptx, ".visible .entry summary("));
    EXPECT_TRUE(contains(ptx, "shfl.sync.bfly.b32"));
    EXPECT_TRUE(contains(ptx, "min.s32"));
    EXPECT_TRUE(contains(ptx, "max.s32"));
    for (const char *other : {"mma.sync", "cp.async", "bar.sync", "ld.shared", "f32"})
      EXPECT_FALSE(contains(ptx, other)) << other;
  }
}

TEST(Summary, Assembles) {
  if (!hasPtxas())
    GTEST_SKIP() << noPtxas;
  for (int sm : {80, 90, 120}) {
    expectClean(ptxOfSummary(1, 16, 0, 0, sm));
    expectClean(ptxOfSummary(64, 16, 0, 1, sm));
    expectClean(ptxOfSummary(1, 32, 1, 0, sm));
  }
}

} // namespace
