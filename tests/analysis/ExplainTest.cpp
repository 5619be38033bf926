//===- ExplainTest.cpp - Maps of tiles against dense masks ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "RandomMask.h"

#include "frontend/Parser.h"
#include "tesela/compiler/Compile.h"
#include "tesela/compiler/Explain.h"
#include "visits/LostProofs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <pthread.h>
#include <sstream>

using namespace tesela;

namespace {

/// A request for the host, whose blocks may be small.
ExplainRequest makeRequest(const std::string &text, int blockM, int blockN) {
  ExplainRequest request;
  request.specification.variantText = text;
  request.specification.variantFile = "mask.attn";
  request.specification.schedule =
      "block_m = " + std::to_string(blockM) + ", block_n = " + std::to_string(blockN);
  return request;
}

struct Counts {
  int64_t empty = 0, partial = 0, full = 0;
};

/// Compares the map with the dense mask, for every tile of every head.
struct Findings {
  std::string unsound; ///< the first fault, or ""
  Counts told, dense;
};

Findings holdAgainstDense(const ExplainRequest &request, const TileMap &map) {
  Findings findings;
  Result<Variant> variant = parseVariant(request.specification.variantText, "mask.attn");
  Result<Interpreter> interpreter = Interpreter::create(*variant, request.bindings);
  EXPECT_TRUE(interpreter.ok());
  const Extents &e = request.bindings.extents;
  auto count = [](Counts &counts, TileKind kind) {
    ++(kind == TileKind::empty  ? counts.empty
       : kind == TileKind::full ? counts.full
                                : counts.partial);
  };
  for (int32_t b = 0; b < e.B; ++b)
    for (int32_t h = 0; h < e.H; ++h) {
      auto tiles = std::ranges::find_if(map.heads, [&](const HeadTiles &each) {
        return (each.batch < 0 || each.batch == b) && (each.head < 0 || each.head == h);
      });
      if (tiles == map.heads.end()) {
        findings.unsound = "no map of a head";
        return findings;
      }
      for (int64_t row = 0; row < map.rows; ++row)
        for (int64_t column = 0; column < map.columns; ++column) {
          int64_t firstKey = column * map.blockN, firstQuery = row * map.blockM;
          bool some = false, all = firstKey + map.blockN <= e.Sk;
          for (int64_t q = firstQuery; q < std::min<int64_t>(firstQuery + map.blockM, e.Sq); ++q)
            for (int64_t k = firstKey; k < std::min<int64_t>(firstKey + map.blockN, e.Sk); ++k) {
              bool keeps = interpreter->mask({b, h, h / (e.H / e.Hkv), int32_t(q), int32_t(k)});
              some = some || keeps;
              all = all && keeps;
            }
          TileKind kind = map.kind(*tiles, row, column);
          count(findings.told, kind);
          count(findings.dense, !some ? TileKind::empty : all ? TileKind::full : TileKind::partial);
          if ((kind == TileKind::empty && some) || (kind == TileKind::full && !all)) {
            std::ostringstream fault;
            fault << (some ? "a pair is kept" : "a pair is dropped") << " in tile " << row << ", "
                  << column << " of b " << b << ", h " << h << ", called "
                  << (kind == TileKind::empty ? "empty" : "full");
            findings.unsound = fault.str();
            return findings;
          }
        }
    }
  return findings;
}

TileMap explained(const ExplainRequest &request) {
  Result<ExplainedTiles> tiles = explainTiles(request);
  EXPECT_TRUE(tiles.ok()) << (tiles.ok() ? "" : tiles.error().message());
  return tiles.ok() ? std::move(tiles->map) : TileMap();
}

class ExactMap : public testing::TestWithParam<const char *> {};

TEST_P(ExactMap, OfTheLibrary) {
  std::ifstream file(std::string(TESELA_TEST_VARIANTS) + "/" + GetParam() + ".attn");
  std::ostringstream text;
  text << file.rdbuf();
  for (auto [blockM, blockN] : {std::pair(8, 16), {64, 64}, {128, 128}, {176, 176}})
    for (auto [sq, sk] :
         {std::pair(256, 256), {200, 333}, {333, 200}, {1, 513}, {16, 16}, {5, 0}}) {
      SCOPED_TRACE(testing::Message() << blockM << " x " << blockN << " of " << sq << " x " << sk);
      ExplainRequest request = makeRequest(text.str(), blockM, blockN);
      int32_t parameters[] = {100, 7};
      Binding binding{.scalar = 100, .capture = {parameters, {2}, {1}}};
      request.bindings.extents = {2, 4, 2, sq, sk};
      Result<Variant> variant = parseVariant(text.str(), "mask.attn");
      ASSERT_TRUE(variant.ok());
      request.bindings.parameters.assign(variant->parameters.size(), binding);
      TileMap map = explained(request);
      EXPECT_EQ(map.heads.size(), GetParam() == std::string("prefix_lm") ? 2u : 1u);
      Findings findings = holdAgainstDense(request, map);
      EXPECT_EQ(findings.unsound, "");
      EXPECT_EQ(findings.told.empty, findings.dense.empty);
      EXPECT_EQ(findings.told.full, findings.dense.full);
    }
}

INSTANTIATE_TEST_SUITE_P(Library, ExactMap,
                         testing::Values("full", "causal", "causal_bottom_right", "sliding_window",
                                         "prefix_lm"),
                         [](const auto &info) { return std::string(info.param); });

TEST(Explain, IsSoundOnRandomMasks) {
  int64_t skipped = 0, full = 0;
  for (int seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    std::string text =
        "attention m(" + std::string(kMaskParameters) + ") {\n" + randomMask(random) + "}\n";
    ExplainRequest request = makeRequest(text, 8, 16);
    int32_t sq = 1 + random() % 60, sk = random() % 90;
    RandomLaunch launch(random, {2, 2, 1, sq, sk});
    request.bindings = launch.bindings;
    Findings findings = holdAgainstDense(request, explained(request));
    ASSERT_EQ(findings.unsound, "") << "mask " << seed << ": " << text << launch.text();
    skipped += findings.told.empty;
    full += findings.told.full;
  }
  EXPECT_GT(skipped, 0);
  EXPECT_GT(full, 0);
}

// A value that is the same for a whole block may be any expression of the language.
TEST(Explain, EvaluatesFloats) {
  ExplainRequest request = makeRequest(
      "attention floats(x: f32, y: f32[H]) {\n"
      "  let reach = int(floor(exp(x) * 8.0)) + int(tanh(x) * 10.0 - log(abs(x)))\n"
      "  mask = sqrt(abs(y[h])) < max(1.0, -x / 3.0) ? k < reach : q >= k + int(cos(x) * 9.0)\n"
      "}\n",
      8, 16);
  float table[] = {0.25f, -4.0f};
  request.bindings.extents = {1, 2, 2, 60, 90};
  request.bindings.parameters.resize(2);
  request.bindings.parameters[1].capture = {table, {2}, {1}};
  for (double x : {1.25, 0.5, -0.75}) {
    request.bindings.parameters[0].scalar = x;
    TileMap map = explained(request);
    EXPECT_EQ(map.heads.size(), 2u);
    Findings findings = holdAgainstDense(request, map);
    EXPECT_EQ(findings.unsound, "");
    EXPECT_EQ(findings.told.empty, findings.dense.empty);
    EXPECT_EQ(findings.told.full, findings.dense.full);
  }
}

// Functions in a score are not expanded as those in a mask are.
TEST(Explain, EvaluatesFunctionsInScores) {
  for (const char *exact : {"", "exact "}) {
    ExplainRequest request = makeRequest("attention floats(x: f32) {\n  " + std::string(exact) +
                                             "score = exp(x) * 8.0 + log(x) < k * 1.0 && tanh(x) + "
                                             "sin(x) + cos(x) > 0.0 ? -inf : s\n"
                                             "}\n",
                                         8, 16);
    request.bindings.extents = {1, 1, 1, 20, 64};
    for (auto [x, empty] : {std::pair(1.0, 2), {0.5, 3}, {-0.5, 0}, {3.0, 0}}) {
      request.bindings.parameters = {{.scalar = x, .capture = {}}};
      TileMap map = explained(request);
      ASSERT_EQ(map.heads.size(), 1u);
      EXPECT_EQ(std::ranges::count(map.heads[0].kinds, TileKind::empty), 3 * empty)
          << exact << "score, x " << x;
    }
  }
}

// Heads that share a block of queries share its tiles. The schedule's rows are those of all heads.
TEST(Explain, FollowsPackedHeads) {
  ExplainRequest request = makeRequest("attention m(reach: i32[H]) { mask = k < reach[h] }", 8, 16);
  request.specification.target = {Target::Kind::cuda, 90};
  request.specification.schedule = "heads = 2";
  request.specification.expectedLength = 512;
  request.specification.expectedQueries = 8;
  int32_t reach[] = {16, 500, 250, 16, 16, 500};
  request.bindings.extents = {1, 6, 2, 8, 512};
  request.bindings.parameters.resize(1);
  request.bindings.parameters[0].capture = {reach, {6}, {1}};
  TileMap map = explained(request);
  ASSERT_EQ(map.heads.size(), 6u);
  // Of three heads of a key/value head, the first two share a block, and the third has its own.
  EXPECT_EQ(map.heads[0].kinds, map.heads[1].kinds);
  EXPECT_EQ(map.heads[3].kinds, map.heads[4].kinds);
  auto skips = [&](int head) {
    return std::ranges::count(map.heads[head].kinds, TileKind::empty) > 0;
  };
  EXPECT_FALSE(skips(1));
  EXPECT_TRUE(skips(2));
  EXPECT_TRUE(skips(3));
  EXPECT_FALSE(skips(5));
  EXPECT_EQ(holdAgainstDense(request, map).unsound, "");
}

TEST(Explain, TellsTheForm) {
  auto formOf = [](const std::string &mask) {
    ExplainRequest request = makeRequest("attention m() {\n  mask = " + mask + "\n}\n", 8, 16);
    request.bindings.extents = {1, 1, 1, 40, 40};
    return explained(request);
  };
  EXPECT_EQ(formOf("true").form, TileForm::everyTile);
  TileMap causal = formOf("q >= k");
  EXPECT_EQ(causal.form, TileForm::keyRanges);
  EXPECT_EQ(causal.runs, 1);
}

TEST(Explain, SaysWhatKeepsAProof) {
  Result<Variant> variant = parseVariant("attention m(t: f32[Sk]) {\n"
                                         "  let far = sqrt(q * 1.0)\n"
                                         "  mask = far < t[k * k] && q % (k + 1) == 0\n"
                                         "  score = sqrt(s) < 3.0 ? -inf : s\n"
                                         "}\n",
                                         "mask.attn");
  ASSERT_TRUE(variant.ok()) << variant.error().message();
  std::vector<LostPlace> places; // one for every node: the whole text
  for (const Node &node : variant->nodes)
    places.push_back({node.location, "nothing is known"});
  std::vector<LostProof> proofs = lostProofs(*variant, places);
  auto remedyAt = [&](int line, int column) {
    for (const LostProof &proof : proofs)
      if (proof.line == line && proof.column == column)
        return proof.remedy;
    return std::string("no such place");
  };
  EXPECT_EQ(remedyAt(4, 11), "no such place"); // nothing could be proved about s
  EXPECT_NE(remedyAt(2, 13).find("its argument"), std::string::npos);
  EXPECT_NE(remedyAt(3, 16).find("index"), std::string::npos);
  EXPECT_NE(remedyAt(3, 30).find("a parameter"), std::string::npos);
  for (size_t i = 1; i < proofs.size(); ++i)
    EXPECT_LT(std::pair(proofs[i - 1].line, proofs[i - 1].column),
              std::pair(proofs[i].line, proofs[i].column));
}

TEST(Explain, NamesWhatLostAProof) {
  auto placesOf = [](const std::string &statements) {
    ExplainRequest request = makeRequest("attention m() {\n" + statements + "\n}\n", 8, 16);
    request.bindings.extents = {1, 1, 1, 40, 40};
    Result<ExplainedTiles> tiles = explainTiles(request);
    EXPECT_TRUE(tiles.ok());
    std::vector<std::pair<int, int>> places;
    for (const LostProof &proof : tiles->map.lostProofs) {
      EXPECT_NE(proof.remedy, "");
      places.emplace_back(proof.line, proof.column);
      EXPECT_NE(tiles->renderedProofs.find("mask.attn:" + std::to_string(proof.line) + ":" +
                                           std::to_string(proof.column) + ": note: "),
                std::string::npos);
    }
    return places;
  };
  using Places = std::vector<std::pair<int, int>>;
  EXPECT_EQ(placesOf("mask = q >= k && sqrt(q * 1.0) < 5.0"), (Places{{2, 18}}));
  EXPECT_EQ(placesOf("mask = q % (k + 1) < 2 || q / (k + 1) == 3"), (Places{{2, 10}, {2, 29}}));
  EXPECT_EQ(placesOf("mask = q >= k && q - k < 5"), Places());
  EXPECT_EQ(placesOf("mask = q * k < 100 && q % 7 < 3"), Places());
  EXPECT_EQ(placesOf("mask = q >= k\nscore = sqrt(s) < 3.0 ? -inf : tanh(s)"), Places());
  EXPECT_EQ(placesOf("mask = q >= k\nscore = exp(k * 1.0) < 3.0 ? -inf : s"), (Places{{3, 9}}));
}

// A score of -inf is masked. The tiles follow the score, and so does which heads differ.
TEST(Explain, ShowsScoresThatMask) {
  ExplainRequest request =
      makeRequest("attention m() { score = h == 0 || k < 20 ? s : -inf }", 8, 16);
  request.bindings.extents = {1, 2, 2, 40, 64};
  Result<ExplainedTiles> tiles = explainTiles(request);
  ASSERT_TRUE(tiles.ok());
  EXPECT_EQ(tiles->map.form, TileForm::keyRanges);
  ASSERT_EQ(tiles->map.heads.size(), 2u);
  auto empty = [&](int head) {
    return std::ranges::count(tiles->map.heads[head].kinds, TileKind::empty);
  };
  EXPECT_EQ(empty(0), 0);
  EXPECT_EQ(empty(1), 5 * 2); // keys from 32 on, in each of the five rows
}

// A thread of another program may have a small stack. A chain may have nearly 2,700 links.
TEST(Explain, LongChainsNeedNoLargeStackOfTheCallers) {
  std::string chain = "attention m() { mask = q >= k";
  for (int i = 0; i < 2000; ++i)
    chain += i % 2 ? " && k > 1" : " || q == 3";
  ExplainRequest request = makeRequest(chain + " }", 16, 16);
  request.bindings.extents = {1, 1, 1, 40, 64};
  auto work = [](void *given) -> void * {
    const auto &request = *static_cast<const ExplainRequest *>(given);
    Result<ExplainedTiles> tiles = explainTiles(request);
    EXPECT_TRUE(tiles.ok());
    EXPECT_EQ(holdAgainstDense(request, tiles->map).unsound, "");
    EXPECT_TRUE(compile(request.specification).ok());
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, size_t(256) << 10), 0);
  ASSERT_EQ(pthread_create(&thread, &attributes, work, &request), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

/// The map of cells that follows from a map of tiles.
std::vector<TileKind> cellsOf(const TileMap &map, const HeadTiles &tiles, int64_t cell) {
  std::vector<TileKind> cells;
  for (int64_t row = 0; row < map.rows; row += cell)
    for (int64_t column = 0; column < map.columns; column += cell) {
      TileKind kind = map.kind(tiles, row, column);
      for (int64_t r = row; r < std::min(row + cell, map.rows); ++r)
        for (int64_t c = column; c < std::min(column + cell, map.columns); ++c)
          if (map.kind(tiles, r, c) != kind)
            kind = TileKind::partial;
      cells.push_back(kind);
    }
  return cells;
}

// Many tiles are reported as cells, but counts are those of tiles. The number of threads and the
// progress function change nothing.
TEST(Explain, TellsManyTilesByCells) {
  for (const char *mask :
       {"q >= k && q - k < 300", "id[k] == id[q]", "h == 0 || k < 100", "true"}) {
    SCOPED_TRACE(mask);
    ExplainRequest request =
        makeRequest("attention m(id: i32[N]) {\n  mask = " + std::string(mask) + "\n}\n", 8, 16);
    std::vector<int32_t> ids;
    for (int i = 0; i < 1500; ++i)
      ids.push_back(i / 170);
    request.bindings.extents = {1, 2, 2, 1013, 1501};
    request.bindings.parameters = {{.scalar = 0, .capture = {ids.data(), {1500}, {1}}}};
    TileMap whole = explained(request);
    EXPECT_EQ(whole.cell, 1);
    double last = 0;
    request.progress = [&](double done) {
      EXPECT_GT(done, last);
      last = done;
    };
    request.inParallel = [](int64_t items, const std::function<void(int64_t)> &work) {
      for (int64_t item = items; item-- > 0;)
        work(item);
      return Status::success();
    };
    for (auto [most, cell] : {std::pair(100'000, 1), {3000, 4}, {400, 8}, {4, 64}, {1, 128}}) {
      last = 0;
      request.mostCells = most * int64_t(whole.heads.size());
      TileMap map = explained(request);
      EXPECT_EQ(last, 1);
      EXPECT_EQ(map.cell, cell);
      ASSERT_EQ(map.heads.size(), whole.heads.size());
      for (size_t head = 0; head < map.heads.size(); ++head) {
        const HeadTiles &tiles = map.heads[head], &expected = whole.heads[head];
        EXPECT_EQ(tiles.counts, expected.counts);
        EXPECT_EQ(tiles.computedPairs, expected.computedPairs);
        EXPECT_EQ(tiles.kinds, cellsOf(whole, expected, cell));
        auto count = [&](TileKind kind) { return std::ranges::count(expected.kinds, kind); };
        TileCounts counts{count(TileKind::empty), count(TileKind::partial), count(TileKind::full)};
        EXPECT_EQ(expected.counts, counts);
      }
    }
  }
}

TEST(Explain, RefusesWhatIsTooMuch) {
  ExplainRequest request = makeRequest("attention m() {\n  mask = q >= k\n}\n", 8, 16);
  request.bindings.extents = {1, 1, 1, 1 << 30, 1 << 30};
  Result<ExplainedTiles> tiles = explainTiles(request);
  ASSERT_FALSE(tiles.ok());
  EXPECT_EQ(tiles.code(), Code::unsupported);
  request.specification.variantText = "attention m() {\n  mask = q >= kk\n}\n";
  EXPECT_EQ(explainTiles(request).code(), Code::invalidVariant);
}

} // namespace
