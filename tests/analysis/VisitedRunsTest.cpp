//===- VisitedRunsTest.cpp - Many tiles at once, and one by one -----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// `explain` counts tiles from closed ranges, or by testing many boxes at once, with tables of the
// captured tensors. The test compares this with the same program's blocks one by one: its loop over
// closed ranges, and its test of each single block, which reads every element that it needs.
//
//===----------------------------------------------------------------------===//
#include "RandomMask.h"

#include "frontend/Parser.h"
#include "visits/TileProgram.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>

using namespace tesela;

namespace {

/// The blocks one by one, in ascending order.
std::vector<VisitedBlock> oneByOne(TileProgram program, const Bindings &bindings,
                                   const Point &where, int32_t first, int64_t columns) {
  if (program.form() != TileForm::classified) {
    Result<std::vector<VisitedBlock>> visited = program.evaluate(bindings, where, first);
    EXPECT_TRUE(visited.ok()) << (visited.ok() ? "" : visited.error().message());
    return visited.ok() ? *visited : std::vector<VisitedBlock>();
  }
  std::vector<VisitedBlock> visited;
  Result<int64_t> count = program.begin(bindings, where, first);
  EXPECT_TRUE(count.ok()) << (count.ok() ? "" : count.error().message());
  for (int64_t index = 0; count && index < columns; ++index) {
    Result<std::optional<VisitedBlock>> block = program.find(index);
    EXPECT_TRUE(block.ok()) << (block.ok() ? "" : block.error().message());
    if (block && *block)
      visited.push_back(**block);
  }
  return visited;
}

std::vector<VisitedBlock> blocksOf(llvm::ArrayRef<VisitedRun> runs) {
  std::vector<VisitedBlock> blocks;
  for (const VisitedRun &run : runs) {
    EXPECT_LT(run.first, run.end);
    for (int64_t index = run.first; index < run.end; ++index)
      blocks.push_back({index, run.partial});
  }
  return blocks;
}

std::string show(const std::vector<VisitedBlock> &blocks) {
  std::ostringstream text;
  for (const VisitedBlock &block : blocks)
    text << ' ' << block.index << (block.partial ? "p" : "f");
  return text.str();
}

struct Seen {
  int64_t rows = 0, visited = 0, full = 0;
};

/// Compares some rows of blocks of a launch, including the last one, and returns what occurred.
void compareRows(const TileProgram &lowered, const TileBlocks &blocks, const Bindings &bindings,
                 std::mt19937 &random, Seen &seen) {
  const Extents &e = bindings.extents;
  bool ofQueries = blocks.rows == tile::Axis::Query;
  int64_t rows = ofQueries ? e.Sq : e.Sk, columns = ofQueries ? e.Sk : e.Sq;
  int64_t extent = ofQueries ? blocks.queries : blocks.keys;
  int64_t columnExtent = ofQueries ? blocks.keys : blocks.queries;
  int64_t blockColumns = (columns + columnExtent - 1) / columnExtent;
  TileProgram fast(lowered);
  fast.makeTables(bindings);
  for (int head = 0; head < 2; ++head) {
    Point where{.b = int32_t(random() % e.B), .hkv = int32_t(random() % e.Hkv)};
    where.h = where.hkv * (e.H / e.Hkv);
    // The rows of one head share everything that does not depend on the row, from the first row on.
    int64_t last = (rows - 1) / extent;
    for (int64_t row : {int64_t(random() % (last + 1)), last, int64_t(random() % (last + 1))}) {
      int32_t first = int32_t(row * extent);
      Result<llvm::ArrayRef<VisitedRun>> runs = fast.evaluateRuns(bindings, where, first);
      ASSERT_TRUE(runs.ok()) << runs.error().message();
      std::vector<VisitedBlock> found = blocksOf(*runs);
      std::vector<VisitedBlock> expected = oneByOne(lowered, bindings, where, first, blockColumns);
      ASSERT_EQ(found, expected) << "row " << first << ", b " << where.b << ", h " << where.h
                                 << ", tiles of " << blocks.queries << " x " << blocks.keys
                                 << (ofQueries ? " of queries" : " of keys") << "; Sq " << e.Sq
                                 << ", Sk " << e.Sk << "\nfound:   " << show(found)
                                 << "\nexpected:" << show(expected);
      ++seen.rows;
      seen.visited += int64_t(found.size());
      seen.full += std::ranges::count(found, false, &VisitedBlock::partial);
    }
  }
}

TileBlocks randomBlocks(std::mt19937 &random) {
  constexpr std::pair<int64_t, int64_t> extents[] = {{8, 16},    {16, 16},  {64, 64}, {128, 128},
                                                     {176, 176}, {192, 80}, {1, 8},   {64, 1},
                                                     {128, 64},  {64, 176}};
  auto [queries, keys] = extents[random() % std::size(extents)];
  TileBlocks blocks{.queries = queries, .keys = keys};
  if (random() % 4 == 0)
    blocks.rows = tile::Axis::Key;
  else if (random() % 4 == 0)
    blocks.heads = 2;
  return blocks;
}

/// A length with several groups of 32 blocks; some lengths have an incomplete last block.
int32_t randomLength(std::mt19937 &random, int64_t extent) {
  return 1 + int32_t(random() % std::min<int64_t>(extent * 300, 5000));
}

// What the rows of a launch share is not kept when a value changes at the same address.
TEST(VisitedRuns, OfChangedBindingsAreNew) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::vector<int32_t> ids(1000);
  for (const char *text : {"attention m(w: i32) { mask = q >= k && q - k < w }",
                           "attention m(w: i32, id: i32[Sk]) { mask = id[q] / w == id[k] / w }"}) {
    Result<Variant> variant = parseVariant(text, "mask.attn");
    ASSERT_TRUE(variant.ok()) << variant.error().message();
    Result<std::unique_ptr<TileProgram>> program =
        TileProgram::create(*variant, context, {.queries = 16, .keys = 16});
    ASSERT_TRUE(program.ok()) << program.error().message();
    Bindings bindings;
    bindings.extents = {.B = 1, .H = 1, .Hkv = 1, .Sq = 1000, .Sk = 1000};
    bindings.parameters.resize(variant->parameters.size());
    if (bindings.parameters.size() > 1)
      bindings.parameters[1].capture = {ids.data(), {1000}, {1}};
    TileProgram fast(**program);
    for (int32_t length : {100, 7, 300}) {
      bindings.parameters[0].scalar = length;
      for (int32_t i = 0; i < 1000; ++i)
        ids[size_t(i)] = i / 9 * length / 50;
      fast.makeTables(bindings);
      for (int32_t first : {512, 528, 992}) {
        Result<llvm::ArrayRef<VisitedRun>> runs = fast.evaluateRuns(bindings, Point(), first);
        ASSERT_TRUE(runs.ok()) << runs.error().message();
        EXPECT_EQ(blocksOf(*runs), oneByOne(**program, bindings, Point(), first, 63)) << text;
      }
    }
  }
}

TEST(VisitedRuns, AreTheBlocksOneByOneOfRandomMasks) {
  auto makeContext = [] {
    return std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  };
  std::unique_ptr<mlir::MLIRContext> context;
  Seen seen[3];
  for (int seed = 1; seed <= 700; ++seed) {
    if (seed % 100 == 1)
      context = makeContext(); // a context never frees attributes of old masks
    std::mt19937 random(seed);
    std::string text = "attention m(" + std::string(kMaskParameters) + ") {\n";
    text += randomMask(random);
    if (random() % 5 == 0)
      text += randomScore(random);
    Result<Variant> variant = parseVariant(text + "}\n", "mask.attn");
    ASSERT_TRUE(variant.ok()) << text << variant.error().message();
    TileBlocks blocks = randomBlocks(random);
    Result<std::unique_ptr<TileProgram>> program = TileProgram::create(*variant, *context, blocks);
    ASSERT_TRUE(program.ok()) << program.error().message();
    Extents extents{.B = 2, .H = 4, .Hkv = 2};
    extents.Sq = randomLength(random, blocks.queries);
    extents.Sk = randomLength(random, blocks.keys);
    RandomLaunch launch(random, extents);
    compareRows(**program, blocks, launch.bindings, random, seen[int((*program)->form())]);
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << ": " << text << "}\n" << launch.text();
  }
  for (TileForm form : {TileForm::keyRanges, TileForm::classified}) {
    const Seen &of = seen[int(form)];
    EXPECT_GT(of.rows, 700);
    EXPECT_GT(of.full, 10'000);
    EXPECT_GT(of.visited - of.full, 10'000);
  }
}

/// Captured tensors of any extents: ascending numbers below 40, flags, or other numbers.
class LibraryLaunch {
public:
  LibraryLaunch(std::mt19937 &random, const Variant &variant, const Extents &extents) {
    bindings.extents = extents;
    for (const Parameter &parameter : variant.parameters) {
      Binding &binding = bindings.parameters.emplace_back();
      binding.scalar = 1 + double(random() % 200);
      if (!parameter.isCapture)
        continue;
      CaptureView &view = binding.capture;
      int64_t elements = 1;
      for (size_t axis = parameter.extents.size(); axis-- > 0;) {
        bool isShort = axis + 2 < parameter.extents.size();
        int64_t extent = 1 + int64_t(random() % (isShort ? 3 : 300));
        view.extents.insert(view.extents.begin(), extent);
        view.strides.insert(view.strides.begin(), elements);
        elements *= extent;
      }
      int value = 0;
      std::vector<int32_t> &numbers = integers.emplace_back();
      std::vector<uint8_t> &bytes = flags.emplace_back();
      std::vector<uint16_t> &rounded = halves.emplace_back();
      std::vector<float> &reals = floats.emplace_back();
      for (int64_t i = 0; i < elements; ++i) {
        value = (value + (random() % 16 == 0)) % 40;
        numbers.push_back(value);
        bytes.push_back(random() % 8 == 0);
        reals.push_back(0.5f * float(random() % 64) - 8);
        rounded.push_back(floatToBf16(reals.back()));
      }
      view.data = parameter.type == ElementType::i32       ? static_cast<void *>(numbers.data())
                  : parameter.type == ElementType::boolean ? static_cast<void *>(bytes.data())
                  : parameter.type == ElementType::f32     ? static_cast<void *>(reals.data())
                                                           : static_cast<void *>(rounded.data());
    }
  }

  Bindings bindings;

private:
  std::vector<std::vector<int32_t>> integers;
  std::vector<std::vector<uint8_t>> flags;
  std::vector<std::vector<uint16_t>> halves;
  std::vector<std::vector<float>> floats;
};

TEST(VisitedRuns, AreTheBlocksOneByOneOfTheLibrary) {
  std::mt19937 random(1);
  int variants = 0;
  for (const auto &entry : std::filesystem::directory_iterator(TESELA_TEST_VARIANTS)) {
    if (entry.path().extension() != ".attn")
      continue;
    ++variants;
    SCOPED_TRACE(entry.path().stem());
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    Result<Variant> variant = parseVariant(text.str(), "mask.attn");
    ASSERT_TRUE(variant.ok()) << variant.error().message();
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    for (TileBlocks blocks : {TileBlocks{8, 16},
                              {64, 64},
                              {128, 128},
                              {176, 176},
                              {64, 8},
                              {128, 128, tile::Axis::Key}}) {
      Result<std::unique_ptr<TileProgram>> program = TileProgram::create(*variant, context, blocks);
      ASSERT_TRUE(program.ok()) << program.error().message();
      for (auto [sq, sk] : {std::pair(333, 333), {1000, 2777}, {1, 5001}, {257, 1}}) {
        LibraryLaunch launch(random, *variant, {2, 4, 2, sq, sk});
        Seen seen;
        compareRows(**program, blocks, launch.bindings, random, seen);
        ASSERT_FALSE(HasFatalFailure());
      }
    }
  }
  EXPECT_GT(variants, 40);
}

} // namespace
