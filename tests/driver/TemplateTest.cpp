//===- TemplateTest.cpp - Templates of users ------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

using namespace tesela;

namespace {

class TemplateTest : public testing::Test {
protected:
  // Tests run at the same time in several processes, so each has its own folder.
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) /
                                 (std::string("tesela_template_test_") +
                                  testing::UnitTest::GetInstance()->current_test_info()->name());

  void SetUp() override {
    std::filesystem::create_directories(folder);
    setTemplateFolder(folder.string());
  }
  void TearDown() override {
    setTemplateFolder("");
    std::filesystem::remove_all(folder);
  }

  /// Writes the library's template `name` as a user's template, with every `from` replaced by `to`.
  void write(const std::string &name, const std::string &from, const std::string &to) {
    std::ostringstream text;
    text << std::ifstream(std::string(TESELA_TEST_TEMPLATES) + "/" + name).rdbuf();
    std::string changed = text.str();
    ASSERT_FALSE(changed.empty());
    size_t count = 0;
    for (size_t at = 0; (at = changed.find(from, at)) != std::string::npos; at += to.size()) {
      changed.replace(at, from.size(), to);
      ++count;
    }
    ASSERT_GT(count, 0u) << from;
    std::ofstream(folder / name) << changed;
  }

  /// Inserts `text` before `before` into a template that was written.
  void insert(const std::string &name, const std::string &before, const std::string &text) {
    std::ostringstream old;
    old << std::ifstream(folder / name).rdbuf();
    std::string changed = old.str();
    size_t at = changed.find(before);
    ASSERT_NE(at, std::string::npos) << before;
    std::ofstream(folder / name) << changed.insert(at, text);
  }

  static KernelSpecification specification(Target target, int headDimQk = 64, int headDimV = 64) {
    KernelSpecification specification;
    specification.variantText = "attention causal() { mask = q >= k }";
    specification.headDimQk = headDimQk;
    specification.headDimV = headDimV;
    specification.target = target;
    return specification;
  }
};

class InvalidTemplate : public TemplateTest {
protected:
  /// Expects a message that names the file, in every build type and for every target.
  void expectSentence(const std::string &reason) {
    for (Target target : {Target{Target::Kind::host, 0}, Target{Target::Kind::cuda, 80},
                          Target{Target::Kind::cuda, 90}}) {
      Result<Artifact> artifact = compile(specification(target, 64, 128));
      ASSERT_FALSE(artifact.ok());
      EXPECT_EQ(artifact.code(), Code::invalidArgument);
      const std::string &message = artifact.error().message();
      EXPECT_NE(message.find((folder / "forward.mlir").string()), std::string::npos) << message;
      EXPECT_NE(message.find("stage 'bind' failed with"), std::string::npos) << message;
      EXPECT_NE(message.find(reason), std::string::npos) << message;
      EXPECT_NE(message.find("correct the template, or use the built-in one"), std::string::npos)
          << message;
    }
  }
};

// Unknown extents agree with all others, until their values are known.
TEST_F(InvalidTemplate, OneWhoseExtentsClashIsASentence) {
  write("forward.mlir", "!tile.tile<[block_n, padded_v], input>",
        "!tile.tile<[block_n, padded_qk], input>");
  expectSentence("the tile for this block of the view: expected at least the view's 128 columns");
}

TEST_F(InvalidTemplate, OneWithEmptyTilesIsASentence) {
  write("forward.mlir", "padded_qk]", "padded_qk + -64]");
  expectSentence("expected a tile with positive extents, got the extent 0");
}

TEST_F(InvalidTemplate, OneWhoseElementsClashIsASentence) {
  write("forward.mlir", "%O3 = tile.dot %Pi, %V plus %O2 : (!tile.tile<[block_m, block_n], input>",
        "%O3 = tile.dot %P16, %V plus %O2 : (!tile.tile<[block_m, block_n], f16>");
  insert("forward.mlir", "%V = tile.load",
         "%P16 = tile.convert %P : !tile.tile<[block_m, block_n], f32> -> "
         "!tile.tile<[block_m, block_n], f16>\n    ");
  expectSentence("expected operands of one element type, got 'f16' and 'bf16'");
}

TEST_F(TemplateTest, OneOfAUsersOwnThatIsValidCompiles) {
  write("forward.mlir", "%Yi", "%Rounded");
  for (Target target : {Target{Target::Kind::host, 0}, Target{Target::Kind::cuda, 90}}) {
    Result<Artifact> artifact = compile(specification(target, 64, 128));
    EXPECT_TRUE(artifact.ok()) << artifact.error().message();
  }
}

/// One kernel sums the rows of x, another adds the sums to the elements.
constexpr const char *twoKernels = R"(
tile.kernel @sums<block_m, d_qk>(
    in %x: !tile.view<[B, H, Sq, d_qk], f32>,
    workspace %sums: !tile.view<[B, H, Sq], f32, contiguous>) {
  %rows = tile.work : !tile.block<query, block_m>
  %X = tile.load %x[%rows] : !tile.view<[B, H, Sq, d_qk], f32>[!tile.block<query, block_m>] -> !tile.tile<[block_m, d_qk], f32>
  %none = tile.constant 0.0 : !tile.tile<[block_m], f32>
  %s = tile.reduce add %X from %none : !tile.tile<[block_m, d_qk], f32> -> !tile.tile<[block_m], f32>
  tile.store %s, %sums[%rows] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>]
}
tile.kernel @adds<block_m, d_qk, input>(
    in %x: !tile.view<[B, H, Sq, d_qk], f32>,
    workspace %sums: !tile.view<[B, H, Sq], f32, contiguous>,
    out %y: !tile.view<[B, H, Sq, d_qk], input>, %$factor: f32) {
  %rows = tile.work : !tile.block<query, block_m>
  %X = tile.load %x[%rows] : !tile.view<[B, H, Sq, d_qk], f32>[!tile.block<query, block_m>] -> !tile.tile<[block_m, d_qk], f32>
  %s = tile.load %sums[%rows] : !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
  %Y = tile.map %X, %s : (!tile.tile<[block_m, d_qk], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m, d_qk], f32> {
  ^body(%a: f32, %b: f32, %row: i32, %column: i32):
    %scaled = arith.mulf %b, %$factor : f32
    %sum = arith.addf %a, %scaled : f32
    tile.yield %sum : f32
  }
  %Yi = tile.convert %Y : !tile.tile<[block_m, d_qk], f32> -> !tile.tile<[block_m, d_qk], input>
  tile.store %Yi, %y[%rows] : !tile.tile<[block_m, d_qk], input>, !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m>]
}
)";

TEST_F(TemplateTest, APlanHasTheLaunchesAndTheInterfaceOfItsKernels) {
  std::ofstream(folder / "forward.mlir") << twoKernels;
  for (Target target : {Target{Target::Kind::host, 0}, Target{Target::Kind::cuda, 80}}) {
    KernelSpecification wanted = specification(target);
    wanted.variantText = "attention rows() {}";
    Result<Artifact> artifact = compile(wanted);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message();
    ASSERT_EQ(artifact->launches.size(), 2u);
    EXPECT_EQ(artifact->launches[0].kernel, "sums");
    EXPECT_EQ(artifact->launches[1].kernel, "adds");
    ASSERT_EQ(artifact->tensors.size(), 2u);
    EXPECT_EQ(artifact->tensors[0].name, "x");
    EXPECT_EQ(artifact->tensors[0].role, TensorArgument::Role::in);
    EXPECT_EQ(artifact->tensors[0].type, ElementType::f32);
    ASSERT_EQ(artifact->tensors[0].extents.size(), 4u);
    EXPECT_EQ(artifact->tensors[0].extents[2]->text(), "Sq");
    EXPECT_EQ(artifact->tensors[0].extents[3]->text(), "64");
    EXPECT_EQ(artifact->tensors[1].name, "y");
    EXPECT_EQ(artifact->tensors[1].role, TensorArgument::Role::out);
    EXPECT_EQ(artifact->tensors[1].type, ElementType::bf16);
    ASSERT_EQ(artifact->workspaces.size(), 1u);
    EXPECT_EQ(artifact->workspaces[0].name, "sums");
    EXPECT_EQ(artifact->workspaces[0].type, ElementType::f32);
    EXPECT_EQ(artifact->workspaces[0].extents[1].text(), "H");
    ASSERT_EQ(artifact->parameters.size(), 1u);
    EXPECT_EQ(artifact->parameters[0].name, "factor");
    EXPECT_FALSE(artifact->parameters[0].isCapture);
  }
}

TEST_F(InvalidTemplate, OneWhoseInterfaceSaysTooLittleIsASentence) {
  auto refusal = [&](const std::string &from, const std::string &to) {
    std::string text = twoKernels;
    size_t at = text.rfind(from); // in the second kernel
    EXPECT_NE(at, std::string::npos);
    std::ofstream(folder / "forward.mlir") << text.replace(at, from.size(), to);
    Result<Artifact> artifact = compile(specification({Target::Kind::host, 0}));
    EXPECT_EQ(artifact.code(), Code::invalidArgument);
    return artifact ? "" : artifact.error().message();
  };
  auto expect = [](const std::string &message, const std::string &part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refusal("out %y", "%y"),
         "the argument 'y' of the kernel 'adds' has no role: write in, out, optional or "
         "workspace before it");
  expect(refusal("%$factor: f32)", "%factor: f32, %$factor: f32)"),
         "the argument 'factor' of the kernel 'adds' is a scalar without '$'");
  expect(refusal("%$factor: f32)", "%$factor: f32, %$t: !tile.view<[H * 2], f32>)"),
         "the argument '$t' of the kernel 'adds' has an extent that is computed");
  expect(refusal("%$factor: f32)", "%$factor: f32, workspace %rest: !tile.view<[B], f32>, "
                                   "in %other: !tile.view<[B], i64>)"),
         "the argument 'other' of the kernel 'adds' has an unsupported element type: use f32");
}

TEST_F(InvalidTemplate, KernelsThatDeclareATensorInTwoWaysAreASentence) {
  std::string text = twoKernels;
  std::string from = "in %x: !tile.view<[B, H, Sq, d_qk], f32>";
  text.replace(text.find(from), from.size(), "in %x: !tile.view<[2, H, Sq, d_qk], f32>");
  from = "%x[%rows] : !tile.view<[B,";
  text.replace(text.find(from), from.size(), "%x[%rows] : !tile.view<[2,");
  std::ofstream(folder / "forward.mlir") << text;
  Result<Artifact> artifact = compile(specification({Target::Kind::host, 0}));
  ASSERT_FALSE(artifact.ok());
  EXPECT_NE(artifact.error().message().find("the argument 'x' of the kernel 'adds' is declared "
                                            "differently by an earlier kernel"),
            std::string::npos)
      << artifact.error().message();
}

/// Causal attention over split keys, on sm_90.
KernelSpecification splitKeys() {
  KernelSpecification specification;
  specification.algorithm = "forward_in_parts";
  specification.bindings = {"workers=264"};
  specification.variantText = "attention causal() { mask = q >= k }";
  specification.target = {Target::Kind::cuda, 90};
  return specification;
}

// The templates, the plan and the kernels compute the number of parts of query heads separately.
// The workspaces of the parts have places just where the plan launches the kernel that joins them.
TEST(Templates, PartsHavePlacesIfTheyAreJoined) {
  const int32_t most = std::numeric_limits<int32_t>::max();
  const Extents launches[] = {{1, 8, 1, 8192, 8192}, {1, 8, 8, 64, 64},    {2, 6, 2, 100, 16896},
                              {2, 6, 2, 100, 17000}, {1, 4, 2, 10, 16896}, {1, 4, 2, 10, 16897},
                              {0, 8, 1, 10, 10},     {1, 8, 1, 10, 0},     {1, 128, 1, 1, 65536},
                              {most, 8, 1, 1, most}, {1, 65536, 1, 1, 1},  {3, 7, 1, 5, 1000}};
  for (auto [algorithm, headDim] :
       {std::pair("backward", 128), {"backward", 256}, {"backward_fused", 128}}) {
    KernelSpecification specification;
    specification.algorithm = algorithm;
    specification.headDimQk = specification.headDimV = headDim;
    specification.variantText = "attention full() {}";
    specification.target = {Target::Kind::cuda, 90};
    Result<Artifact> artifact = compile(specification);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message();
    auto joins = std::ranges::find_if(artifact->launches, [](const Launch &launch) {
      return launch.kernel.find("joined") != std::string::npos;
    });
    ASSERT_NE(joins, artifact->launches.end());
    int found = 0, joined = 0;
    for (const Workspace &workspace : artifact->workspaces) {
      if (!workspace.name.ends_with("_parts"))
        continue;
      ++found;
      for (const Extents &launch : launches) {
        bool isJoined = joins->items.evaluate(launch) > 0;
        joined += isJoined;
        bool hasKeys = launch.B > 0 && launch.Sk > 0;
        EXPECT_EQ(workspace.extents[1].evaluate(launch), isJoined ? launch.H : 0)
            << algorithm << ": " << workspace.name << ", " << launch.B << " x " << launch.H
            << " heads over " << launch.Hkv << ", " << launch.Sk << " keys";
        EXPECT_TRUE(!isJoined || hasKeys);
      }
    }
    EXPECT_EQ(found, 2);
    EXPECT_GE(joined, 2 * 3);
  }
}

// A missing feature of a GPU is not a defect: the message names the template, the target and the
// remedy.
TEST(Templates, AGpuRefusesWhatItCannotLower) {
  KernelSpecification specification = splitKeys();
  EXPECT_TRUE(compile(specification).ok());
  specification.schedule = "consumers = 2, persistent = true";
  Result<Artifact> artifact = compile(specification);
  ASSERT_FALSE(artifact.ok());
  EXPECT_EQ(artifact.error().code(), Code::unsupported);
  EXPECT_NE(
      artifact.error().message().find("the template 'forward_in_parts' does not run on sm_90: "),
      std::string::npos)
      << artifact.error().message();
  specification.target = {};
  specification.schedule.clear();
  EXPECT_TRUE(compile(specification).ok());
}

// What a work item itself writes goes through the queries' buffer, also inside a branch.
TEST(Templates, SplitKeysOfWideHeadsFitAGpuWithoutRoles) {
  KernelSpecification specification = splitKeys();
  specification.headDimQk = specification.headDimV = 256;
  specification.schedule = "consumers = 0";
  Result<Artifact> artifact = compile(specification);
  EXPECT_TRUE(artifact.ok()) << artifact.error().message();
}

// With an empty part of found blocks, an overlapped loop would still compute the first block.
// Closed ranges have a block after their end, so they are allowed.
TEST(Templates, OverlapIsRefusedForASplitLoopOfFoundBlocks) {
  KernelSpecification specification = splitKeys();
  specification.schedule = "consumers = 2, overlap = true";
  EXPECT_TRUE(compile(specification).ok());
  specification.variantText = "attention documents(of: i32[B, Sk]) { mask = of[b, q] == of[b, k] }";
  Result<Artifact> artifact = compile(specification);
  ASSERT_FALSE(artifact.ok());
  EXPECT_NE(artifact.error().message().find("give the schedule overlap = false"), std::string::npos)
      << artifact.error().message();
}

// If the kernels of a plan read a captured tensor in boxes of different axes, it has several
// summaries.
TEST(Templates, AKernelThatReadsByRowsHasItsOwnSummary) {
  KernelSpecification specification;
  specification.algorithm = "backward";
  specification.variantText = "attention clusters(cluster: i32[B, H, Sk]) {\n"
                              "  mask = q >= k && cluster[b, h, q] == cluster[b, h, k]\n}";
  Result<Artifact> artifact = compile(specification);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message();
  std::set<std::string> names;
  for (const Workspace &workspace : artifact->workspaces)
    names.insert(workspace.name);
  EXPECT_TRUE(names.count("$cluster.summary0") && names.count("$cluster.summary0.64"))
      << testing::PrintToString(names);
}

} // namespace
