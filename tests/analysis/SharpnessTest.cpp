//===- SharpnessTest.cpp - That no unnecessary block runs -----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// For masks of positions, no block without a kept pair runs, no full block is partial, and the
// kernel gets the blocks from closed formulas. This holds for the keys of a block of queries and
// for the queries of a block of keys. For masks of documents it holds up to 2 %.
//
//===----------------------------------------------------------------------===//
#include "frontend/Parser.h"
#include "visits/TileProgram.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>

using namespace tesela;

namespace {

/// A mask of positions, and the number of runs in its closed form, for both axes.
struct Positions {
  const char *name, *mask; ///< over p and w; null: a library variant
  int runs;
};

std::string textOf(const Positions &positions) {
  if (positions.mask)
    return std::string("attention m(p: i32, w: i32) {\n  mask = ") + positions.mask + "\n}\n";
  std::ifstream file(std::string(TESELA_TEST_VARIANTS) + "/" + positions.name + ".attn");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Sharpness : public testing::Test {
protected:
  /// The program that gives a kernel its blocks, for a mask without errors.
  std::unique_ptr<TileProgram> programOf(const std::string &text, const TileBlocks &blocks) {
    Result<Variant> parsed = parseVariant(text, "mask.attn");
    EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message());
    variant = *parsed;
    Result<std::unique_ptr<TileProgram>> program = TileProgram::create(variant, context, blocks);
    EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message());
    return std::move(*program);
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  Variant variant;
};

/// The kinds of all tiles, from the interpreter.
class DenseTiles {
public:
  DenseTiles(const Interpreter &interpreter, const TileBlocks &blocks, int32_t sq, int32_t sk)
      : rows((sq + blocks.queries - 1) / blocks.queries),
        columns((sk + blocks.keys - 1) / blocks.keys), isLastRowBroken(sq % blocks.queries != 0),
        kinds(rows * columns) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        int64_t endKey = (column + 1) * blocks.keys, endQuery = (row + 1) * blocks.queries;
        bool some = false, all = endKey <= sk;
        for (int64_t k = column * blocks.keys; k < std::min<int64_t>(endKey, sk); ++k)
          for (int64_t q = row * blocks.queries; q < std::min<int64_t>(endQuery, sq); ++q) {
            bool keeps = interpreter.mask({.q = int32_t(q), .k = int32_t(k)});
            some = some || keeps;
            all = all && keeps;
          }
        kinds[row * columns + column] = !some ? TileKind::empty
                                        : all ? TileKind::full
                                              : TileKind::partial;
      }
  }

  /// The blocks that must run for a block of queries, or for a block of keys.
  std::vector<VisitedBlock> neededBy(tile::Axis axis, int64_t number) const {
    std::vector<VisitedBlock> blocks;
    bool ofQueries = axis == tile::Axis::Query;
    for (int64_t other = 0; other < (ofQueries ? columns : rows); ++other) {
      TileKind kind = ofQueries ? kinds[number * columns + other] : kinds[other * columns + number];
      // For a block of keys, queries beyond the end are columns, which must be dropped.
      bool isBroken = !ofQueries && isLastRowBroken && other == rows - 1;
      if (kind != TileKind::empty)
        blocks.push_back({other, kind == TileKind::partial || isBroken});
    }
    return blocks;
  }

private:
  int64_t rows, columns;
  bool isLastRowBroken; ///< whether its last queries are beyond the end
  std::vector<TileKind> kinds;
};

class ClosedForm : public Sharpness, public testing::WithParamInterface<Positions> {};

TEST_P(ClosedForm, IsExact) {
  const Positions &mask = GetParam();
  // Blocks of one column show the interval itself.
  for (TileBlocks blocks :
       {TileBlocks{64, 64}, {128, 128}, {176, 176}, {64, 128}, {64, 1}, {1, 64}}) {
    std::unique_ptr<TileProgram> programs[2];
    for (tile::Axis axis : {tile::Axis::Query, tile::Axis::Key}) {
      blocks.rows = axis;
      std::unique_ptr<TileProgram> &program = programs[int(axis)];
      program = programOf(textOf(mask), blocks);
      EXPECT_EQ(program->form(), mask.runs ? TileForm::keyRanges : TileForm::everyTile);
      EXPECT_EQ(program->runs(), mask.runs);
    }
    for (auto [sq, sk] : {std::pair(256, 256), {200, 333}, {333, 200}, {1, 513}, {513, 1}})
      for (auto [p, w] : {std::pair(1, 1), {100, 7}, {70, 100}, {5000, 5000}}) {
        int32_t prefix = p;
        Bindings bindings{.extents = {1, 1, 1, sq, sk}, .parameters = {}};
        for (const Parameter &parameter : variant.parameters)
          bindings.parameters.push_back(
              {.scalar = double(parameter.name == "p" ? p : w), .capture = {&prefix, {1}, {1}}});
        Result<Interpreter> interpreter = Interpreter::create(variant, bindings);
        ASSERT_TRUE(interpreter.ok()) << interpreter.error().message();
        DenseTiles dense(*interpreter, blocks, sq, sk);
        for (tile::Axis axis : {tile::Axis::Query, tile::Axis::Key}) {
          bool ofQueries = axis == tile::Axis::Query;
          int64_t extent = ofQueries ? blocks.queries : blocks.keys;
          for (int64_t first = 0; first < (ofQueries ? sq : sk); first += extent) {
            SCOPED_TRACE(testing::Message()
                         << "block " << blocks.queries << " x " << blocks.keys << ", Sq " << sq
                         << ", Sk " << sk << ", p " << p << ", w " << w << ", first "
                         << (ofQueries ? "query " : "key ") << first);
            Result<std::vector<VisitedBlock>> visited =
                programs[int(axis)]->evaluate(bindings, {}, int32_t(first));
            ASSERT_TRUE(visited.ok()) << visited.error().message();
            ASSERT_TRUE(*visited == dense.neededBy(axis, first / extent));
          }
        }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , ClosedForm,
    testing::Values(Positions{"full", nullptr, 0}, Positions{"causal", nullptr, 1},
                    Positions{"causal_bottom_right", nullptr, 1},
                    Positions{"sliding_window", nullptr, 1}, Positions{"prefix_lm", nullptr, 2},
                    Positions{"sinks_and_window", "q >= k && (k < p || q - k < w)", 2},
                    Positions{"prefix_and_window", "k < p || q >= k && q - k < w", 2},
                    Positions{"two_sided_window", "q - k < w && k - q <= p", 1},
                    Positions{"block_diagonal", "q / w == k / w", 1},
                    Positions{"chunked_causal", "q >= k && q / w == k / w", 1},
                    Positions{"distance", "abs(q - k) <= w", 1},
                    Positions{"neighbouring_chunks", "abs(q / w - k / w) <= 1", 1},
                    Positions{"earlier_chunks", "k / w < q / w", 1},
                    Positions{"multiple_of_key", "2 * k <= q", 1},
                    Positions{"minimum", "k <= min(q, p)", 1},
                    Positions{"maximum", "k >= max(q - w, p) && k <= q", 1},
                    Positions{"maximum_of_both", "max(q, k) < p", 1},
                    Positions{"one_or_the_other", "q < p ? k <= q : k > q", 2}),
    [](const auto &info) { return std::string(info.param.name); });

//===----------------------------------------------------------------------===//
// Iterations of a reduction
//===----------------------------------------------------------------------===//

// Each block of positions sees random blocks, independently of the others. No tile runs that none
// of them contains.
TEST_F(Sharpness, BlocksByChanceAreExact) {
  constexpr int32_t sq = 1024, sk = 900, most = 8;
  std::mt19937 random(3);
  std::vector<int32_t> chosen(sq * most);
  for (int32_t &each : chosen)
    each = int32_t(random() % 30);
  for (TileBlocks blocks : {TileBlocks{64, 64}, {128, 96}, {32, 48}})
    for (tile::Axis axis : {tile::Axis::Query, tile::Axis::Key}) {
      blocks.rows = axis;
      std::unique_ptr<TileProgram> program =
          programOf("attention m(chosen: i32[N, M], w: i32, n: i32) {\n"
                    "  mask = any(i < n: chosen[q / w, i] == k / w)\n}\n",
                    blocks);
      ASSERT_EQ(program->form(), TileForm::classified);
      for (auto [w, n] : {std::pair(64, 1), {64, 3}, {32, most}, {100, 2}, {64, 0}}) {
        Bindings bindings{.extents = {1, 1, 1, sq, sk}, .parameters = {}};
        bindings.parameters = {{.scalar = 0, .capture = {chosen.data(), {sq, most}, {most, 1}}},
                               {.scalar = double(w), .capture = {}},
                               {.scalar = double(n), .capture = {}}};
        Result<Interpreter> interpreter = Interpreter::create(variant, bindings);
        ASSERT_TRUE(interpreter.ok()) << interpreter.error().message();
        DenseTiles dense(*interpreter, blocks, sq, sk);
        int32_t extent = int32_t(axis == tile::Axis::Query ? blocks.queries : blocks.keys);
        for (int32_t first = 0; first < (axis == tile::Axis::Query ? sq : sk); first += extent) {
          SCOPED_TRACE(testing::Message()
                       << "blocks of " << w << ", " << n << " by chance, tile " << blocks.queries
                       << " x " << blocks.keys << ", first " << first);
          Result<std::vector<VisitedBlock>> visited = program->evaluate(bindings, {}, first);
          ASSERT_TRUE(visited.ok()) << visited.error().message();
          std::vector<int64_t> indices, needed;
          for (const VisitedBlock &block : *visited)
            indices.push_back(block.index);
          for (const VisitedBlock &block : dense.neededBy(axis, first / extent))
            needed.push_back(block.index);
          ASSERT_EQ(indices, needed);
        }
      }
    }
}

//===----------------------------------------------------------------------===//
// Documents
//===----------------------------------------------------------------------===//

struct Documents {
  const char *name, *mask;
  bool isCausal;
  TileForm form, formOfKeys; ///< for a block of queries, and for a block of keys
};

class PackedDocuments : public Sharpness, public testing::WithParamInterface<Documents> {
protected:
  static constexpr int32_t length = 32768, meanLength = 700;
  std::vector<int32_t> start, end; ///< start and end of each position's document
  std::vector<int32_t> id;

  void SetUp() override {
    std::mt19937 random(7);
    while (int32_t(start.size()) < length) {
      int32_t first = int32_t(start.size());
      int32_t last =
          std::min<int32_t>(length, first + 1 + int32_t(random() % (2 * meanLength - 1)));
      start.resize(last, first);
      end.resize(last, last);
      id.resize(last, id.empty() ? 0 : id.back() + 1);
    }
  }

  struct Tiles {
    int64_t visited = 0, full = 0;
  };

  /// The exact tiles for the queries [first, last], whose intervals of keys ascend with the query;
  /// or for the keys [first, last], whose intervals of queries do.
  Tiles exact(tile::Axis axis, int32_t first, int32_t last, int32_t extent) const {
    bool ofQueries = axis == tile::Axis::Query, isCausal = GetParam().isCausal;
    auto low = [&](int32_t row) { return !ofQueries && isCausal ? row : start[row]; };
    auto high = [&](int32_t row) { return ofQueries && isCausal ? row + 1 : end[row]; };
    Tiles tiles;
    for (int32_t begin = 0; begin < length; begin += extent) {
      int32_t close = std::min(begin + extent, length);
      // A tile with queries beyond the end may be full. A tile with keys beyond the end may not.
      bool some = false;
      bool all = begin + extent <= length && (ofQueries || last - first + 1 == keysOfBlock);
      for (int32_t row = first; row <= last; ++row) {
        some = some || (low(row) < close && begin < high(row));
        all = all && low(row) <= begin && close <= high(row);
      }
      tiles.visited += some;
      tiles.full += all;
    }
    return tiles;
  }

  int32_t keysOfBlock = 0;
};

TEST_P(PackedDocuments, RunHardlyMoreThanTheirTiles) {
  for (auto [queries, keys, axis] : {std::tuple(128, 128, tile::Axis::Query),
                                     {192, 80, tile::Axis::Query},
                                     {128, 128, tile::Axis::Key},
                                     {64, 112, tile::Axis::Key}}) {
    bool ofQueries = axis == tile::Axis::Query;
    SCOPED_TRACE(testing::Message() << "block " << queries << " x " << keys << " of "
                                    << (ofQueries ? "queries" : "keys"));
    std::unique_ptr<TileProgram> program =
        programOf(std::string("attention m(id: i32[B, N], start: i32[B, N]) {\n  mask = ") +
                      GetParam().mask + "\n}\n",
                  {.queries = queries, .keys = keys, .rows = axis});
    EXPECT_EQ(program->form(), ofQueries ? GetParam().form : GetParam().formOfKeys);
    Bindings bindings{.extents = {1, 1, 1, length, length}, .parameters = {}};
    for (const std::vector<int32_t> *table : {&id, &start})
      bindings.parameters.push_back(
          {.scalar = 0, .capture = {table->data(), {1, length}, {length, 1}}});
    Tiles told, least;
    keysOfBlock = keys;
    int32_t extent = ofQueries ? queries : keys, other = ofQueries ? keys : queries;
    for (int32_t first = 0; first < length; first += extent) {
      Result<std::vector<VisitedBlock>> visited = program->evaluate(bindings, {}, first);
      ASSERT_TRUE(visited.ok()) << visited.error().message();
      told.visited += int64_t(visited->size());
      told.full += std::ranges::count(*visited, false, &VisitedBlock::partial);
      Tiles tiles = exact(axis, first, std::min<int32_t>(first + extent, length) - 1, other);
      least.visited += tiles.visited;
      least.full += tiles.full;
    }
    EXPECT_GE(told.visited, least.visited); // fewer would be unsound
    EXPECT_LE(told.full, least.full);
    EXPECT_LE(double(told.visited), 1.02 * double(least.visited));
    EXPECT_GE(double(told.full), 0.98 * double(least.full));
    EXPECT_GT(least.full, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(, PackedDocuments,
                         testing::Values(Documents{"both_ways", "id[b, q] == id[b, k]", false,
                                                   TileForm::classified, TileForm::classified},
                                         Documents{"causal", "q >= k && id[b, q] == id[b, k]", true,
                                                   TileForm::classified, TileForm::classified},
                                         Documents{"by_first_key", "k >= start[b, q] && k <= q",
                                                   true, TileForm::keyRanges,
                                                   TileForm::classified}),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
