//===- TemplateTest.cpp - Templates of a user's own -----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Compile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace tesela;

namespace {

class TemplateTest : public testing::Test {
protected:
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "tesela_template_test";

  void SetUp() override {
    std::filesystem::create_directories(folder);
    setTemplateFolder(folder.string());
  }
  void TearDown() override {
    setTemplateFolder("");
    std::filesystem::remove_all(folder);
  }

  /// The library's template `name`, with `to` for each `from`, as the user's own.
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

  /// Puts `text` before `before` in a template that was written.
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
  /// Whatever the build type and the target: a sentence that names the file.
  void expectSentence(const std::string &reason) {
    for (Target target : {Target{Target::Kind::host, 0}, Target{Target::Kind::cuda, 80},
                          Target{Target::Kind::cuda, 90}}) {
      Result<Artifact> artifact = compile(specification(target, 64, 128));
      ASSERT_FALSE(artifact.ok());
      EXPECT_EQ(artifact.code(), Code::invalidArgument);
      const std::string &message = artifact.error().message();
      EXPECT_NE(message.find((folder / "forward.mlir").string()), std::string::npos) << message;
      EXPECT_NE(message.find("in stage 'bind'"), std::string::npos) << message;
      EXPECT_NE(message.find(reason), std::string::npos) << message;
      EXPECT_NE(message.find("mend it, or use the built-in one"), std::string::npos) << message;
    }
  }
};

// Extents agree as long as nobody knows them.
TEST_F(InvalidTemplate, OneWhoseExtentsClashIsASentence) {
  write("forward.mlir", "!tile.tile<[block_n, padded_v], input>",
        "!tile.tile<[block_n, padded_qk], input>");
  expectSentence("the tile of this block of the view: expected at least the view's 128 columns");
}

TEST_F(InvalidTemplate, OneWithEmptyTilesIsASentence) {
  write("forward.mlir", "padded_qk]", "padded_qk + -64]");
  expectSentence("an extent of a tile is positive, this one is 0");
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

} // namespace
