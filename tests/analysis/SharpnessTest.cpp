//===- SharpnessTest.cpp - That nothing more runs than must ---------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Masks of positions: no block of keys runs that has no pair, none is partial that is full, and the
// kernel gets them from closed formulas. Masks of documents: as good to 2 %.
//
//===----------------------------------------------------------------------===//
#include "analysis/TileProgram.h"
#include "frontend/Parser.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>

using namespace tesela;

namespace {

/// A mask of positions, and the runs of keys that its closed form needs.
struct Positions {
  const char *name, *mask; ///< over p and w; null: a variant of the library
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
  /// A kernel's blocks for a mask that is right.
  std::unique_ptr<TileProgram> programOf(const std::string &text, int64_t blockM, int64_t blockN) {
    Result<Variant> parsed = parseVariant(text, "mask.attn");
    EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message());
    variant = *parsed;
    Result<std::unique_ptr<TileProgram>> program =
        TileProgram::create(variant, context, blockM, blockN);
    EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message());
    return std::move(*program);
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  Variant variant;
};

/// The blocks of keys that must run for the queries [first, end), by the interpreter.
std::vector<VisitedBlock> needed(const Interpreter &interpreter, int32_t first, int32_t end,
                                 int32_t keys, int32_t blockN) {
  std::vector<VisitedBlock> blocks;
  for (int32_t begin = 0; begin < keys; begin += blockN) {
    bool some = false, all = begin + blockN <= keys;
    for (int32_t k = begin; k < std::min(begin + blockN, keys); ++k)
      for (int32_t q = first; q < end; ++q) {
        bool keeps = interpreter.mask({.q = q, .k = k});
        some = some || keeps;
        all = all && keeps;
      }
    if (some)
      blocks.push_back({begin / blockN, !all});
  }
  return blocks;
}

class ClosedForm : public Sharpness, public testing::WithParamInterface<Positions> {};

TEST_P(ClosedForm, IsExact) {
  // Blocks of one key show the interval itself.
  for (auto [blockM, blockN] : {std::pair(64, 64), {128, 128}, {176, 176}, {64, 1}}) {
    std::unique_ptr<TileProgram> program = programOf(textOf(GetParam()), blockM, blockN);
    EXPECT_EQ(program->form(), GetParam().runs ? TileForm::keyRanges : TileForm::everyTile);
    EXPECT_EQ(program->runs(), GetParam().runs);
    for (auto [sq, sk] : {std::pair(256, 256), {200, 333}, {333, 200}, {1, 513}, {513, 1}})
      for (auto [p, w] : {std::pair(1, 1), {100, 7}, {70, 100}, {5000, 5000}}) {
        int32_t prefix = p;
        Bindings bindings{.extents = {1, 1, 1, sq, sk}, .parameters = {}};
        for (const Parameter &parameter : variant.parameters)
          bindings.parameters.push_back(
              {.scalar = double(parameter.name == "p" ? p : w), .capture = {&prefix, {1}, {1}}});
        Result<Interpreter> interpreter = Interpreter::create(variant, bindings);
        ASSERT_TRUE(interpreter.ok()) << interpreter.error().message();
        for (int32_t first = 0; first < sq; first += blockM) {
          SCOPED_TRACE(testing::Message()
                       << "block " << blockM << " x " << blockN << ", Sq " << sq << ", Sk " << sk
                       << ", p " << p << ", w " << w << ", first " << first);
          Result<std::vector<VisitedBlock>> visited = program->evaluate(bindings, {}, first);
          ASSERT_TRUE(visited.ok()) << visited.error().message();
          ASSERT_TRUE(*visited == needed(*interpreter, first, std::min<int32_t>(first + blockM, sq),
                                         sk, blockN));
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
// Documents
//===----------------------------------------------------------------------===//

struct Documents {
  const char *name, *mask;
  bool isCausal;
  TileForm form;
};

class PackedDocuments : public Sharpness, public testing::WithParamInterface<Documents> {
protected:
  static constexpr int32_t length = 32768, meanLength = 700;
  std::vector<int32_t> start, end; ///< the document's, of each position
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

  /// Of the queries [first, last], whose keys are intervals that ascend with the query.
  Tiles exact(int32_t first, int32_t last, int32_t blockN) const {
    auto low = [&](int32_t q) { return start[q]; };
    auto high = [&](int32_t q) { return GetParam().isCausal ? q + 1 : end[q]; };
    Tiles tiles;
    for (int32_t begin = 0; begin < length; begin += blockN) {
      int32_t close = std::min(begin + blockN, length);
      bool some = false, all = begin + blockN <= length;
      for (int32_t q = first; q <= last; ++q) {
        some = some || (low(q) < close && begin < high(q));
        all = all && low(q) <= begin && close <= high(q);
      }
      tiles.visited += some;
      tiles.full += all;
    }
    return tiles;
  }
};

TEST_P(PackedDocuments, RunHardlyMoreThanTheirTiles) {
  for (auto [blockM, blockN] : {std::pair(128, 128), {192, 80}}) {
    SCOPED_TRACE(testing::Message() << "block " << blockM << " x " << blockN);
    std::unique_ptr<TileProgram> program =
        programOf(std::string("attention m(id: i32[B, N], start: i32[B, N]) {\n  mask = ") +
                      GetParam().mask + "\n}\n",
                  blockM, blockN);
    EXPECT_EQ(program->form(), GetParam().form);
    Bindings bindings{.extents = {1, 1, 1, length, length}, .parameters = {}};
    for (const std::vector<int32_t> *table : {&id, &start})
      bindings.parameters.push_back(
          {.scalar = 0, .capture = {table->data(), {1, length}, {length, 1}}});
    Tiles told, least;
    for (int32_t first = 0; first < length; first += blockM) {
      Result<std::vector<VisitedBlock>> visited = program->evaluate(bindings, {}, first);
      ASSERT_TRUE(visited.ok()) << visited.error().message();
      told.visited += int64_t(visited->size());
      told.full += std::ranges::count(*visited, false, &VisitedBlock::partial);
      Tiles tiles = exact(first, std::min<int32_t>(first + blockM, length) - 1, blockN);
      least.visited += tiles.visited;
      least.full += tiles.full;
    }
    EXPECT_GE(told.visited, least.visited); // else it is unsound
    EXPECT_LE(told.full, least.full);
    EXPECT_LE(double(told.visited), 1.02 * double(least.visited));
    EXPECT_GE(double(told.full), 0.98 * double(least.full));
    EXPECT_GT(least.full, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(, PackedDocuments,
                         testing::Values(Documents{"both_ways", "id[b, q] == id[b, k]", false,
                                                   TileForm::classified},
                                         Documents{"causal", "q >= k && id[b, q] == id[b, k]", true,
                                                   TileForm::classified},
                                         Documents{"by_first_key", "k >= start[b, q] && k <= q",
                                                   true, TileForm::keyRanges}),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
