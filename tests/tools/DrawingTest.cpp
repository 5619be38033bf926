//===- DrawingTest.cpp - Pictures of tiles --------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "drawing/SvgCanvas.h"
#include "drawing/TileDrawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

using namespace tesela;
using namespace tesela::tool;

namespace {

/// A report about a causal mask: `tokens` queries and keys in square tiles of `block`.
ExplainReport causalReport(int64_t tokens, int64_t block) {
  ExplainReport report;
  report.extents = {1, 1, 1, tokens, tokens};
  report.Dqk = report.Dv = 64;
  Explanation &explanation = report.explanation;
  explanation.variantName = "causal";
  explanation.target = "host";
  TileMap &map = explanation.map;
  map.blockM = map.blockN = block;
  map.rows = map.columns = (tokens + block - 1) / block;
  HeadTiles &tiles = map.heads.emplace_back();
  for (int64_t row = 0; row < map.rows; ++row)
    for (int64_t column = 0; column < map.columns; ++column)
      tiles.kinds.push_back(column < row    ? TileKind::full
                            : column == row ? TileKind::partial
                                            : TileKind::empty);
  int64_t half = map.rows * (map.rows - 1) / 2;
  tiles.counts = {half, map.rows, half};
  explanation.keptPairs = {tokens * (tokens + 1) / 2};
  explanation.keeps = [](int32_t, int32_t, int32_t q, int32_t k) { return q >= k; };
  return report;
}

/// Records what is drawn.
class Recorder : public Canvas {
public:
  void fill(const char *name, const std::vector<Box> &boxes, Color, double opacity) override {
    for (const Box &box : boxes) {
      counts[name] += 1;
      areas[name] += box.width * box.height;
      inks[name] += box.width * box.height * opacity;
      drawn.push_back(box);
    }
  }
  void write(double x, double y, Anchor anchor, const std::string &text) override {
    double length = letterWidth * double(text.size());
    drawn.push_back({x - length * int(anchor) / 2, y - 8, length, 8});
    texts.push_back(text);
  }
  std::map<std::string, int> counts;
  std::map<std::string, double> areas, inks;
  std::vector<Box> drawn;
  std::vector<std::string> texts;
};

Recorder record(const ExplainReport &report) {
  TileDrawing drawing(report);
  Recorder recorder;
  drawing.draw(recorder);
  for (const Box &box : recorder.drawn) {
    EXPECT_GE(box.x, 0);
    EXPECT_GE(box.y, 0);
    EXPECT_LE(box.x + box.width, drawing.width());
    EXPECT_LE(box.y + box.height, drawing.height());
  }
  return recorder;
}

TEST(Drawing, ShowsEachTileAndEachPair) {
  Recorder recorder = record(causalReport(16, 4)); // a token is 30 units wide
  EXPECT_EQ(recorder.counts["partial"], 4);
  EXPECT_EQ(recorder.counts["full"], 3); // a run of tiles in a row is one box
  EXPECT_EQ(recorder.counts["empty"], 3);
  EXPECT_EQ(recorder.counts["kept"], 16);
  EXPECT_EQ(recorder.counts["border"], 2 * 5);
  double pair = 30 * 30;
  EXPECT_DOUBLE_EQ(recorder.areas["full"], pair * 6 * 16);
  EXPECT_DOUBLE_EQ(recorder.areas["partial"], pair * 4 * 16);
  EXPECT_DOUBLE_EQ(recorder.areas["empty"], pair * 6 * 16);
  EXPECT_DOUBLE_EQ(recorder.areas["kept"], pair * 16 * 17 / 2);
  EXPECT_THAT(recorder.texts, testing::IsSupersetOf({"0", "4", "16"}));
  EXPECT_THAT(recorder.texts, testing::Contains(testing::HasSubstr("causal: 16 x 16")));
  EXPECT_THAT(recorder.texts, testing::Contains(testing::HasSubstr("tiles of 4 x 4")));
  EXPECT_THAT(recorder.texts, testing::Contains(testing::HasSubstr("empty: skipped, 6 (37.5 %)")));
}

TEST(Drawing, OfManyTokensShowsWholeTilesAndShades) {
  Recorder recorder = record(causalReport(4096, 128));
  EXPECT_EQ(recorder.counts["partial"], 32);
  EXPECT_EQ(recorder.counts["border"], 2 * 33);
  EXPECT_NEAR(recorder.areas["full"], 480.0 * 480 * 496 / 1024, 1e-6);
  // Half of the pairs are kept, for any size of cells.
  EXPECT_NEAR(recorder.inks["kept"] / (480.0 * 480 * 0.32), 0.5, 0.005);
  EXPECT_LT(recorder.counts["kept"], 3000);
}

TEST(Drawing, TilesTooSmallToSeeAreDrawnTogether) {
  Recorder recorder = record(causalReport(32768, 64));
  EXPECT_LE(recorder.counts["partial"], 160);
  EXPECT_EQ(recorder.counts["border"], 4);
  EXPECT_THAT(recorder.texts, testing::Contains(testing::HasSubstr("groups of 4 x 4 tiles")));
}

TEST(Drawing, OddExtentsStayOnThePage) {
  record(causalReport(1, 128));
  record(causalReport(0, 128));
  record(causalReport(1000, 176));
  ExplainReport decode = causalReport(700, 128);
  decode.extents.Sq = 1;
  decode.explanation.map.rows = 1;
  decode.explanation.map.heads[0].kinds.resize(6);
  for (int32_t b = 0; b < 9; ++b) {
    decode.explanation.map.heads.push_back(decode.explanation.map.heads[0]);
    decode.explanation.map.heads[b].batch = b;
  }
  EXPECT_THAT(record(decode).texts, testing::IsSupersetOf({"b 0", "b 3", "512"}));
}

TEST(Drawing, SvgNamesWhatItDraws) {
  SvgCanvas canvas(20, 10);
  canvas.fill("full", {{1, 2, 3.25, 4}, {5, 6, 7, 1.0 / 3}}, {0, 128, 255}, 0.5);
  canvas.fill("empty", {}, {}, 1);
  canvas.write(1, 2, Anchor::end, "a<b & c");
  std::string text = canvas.file();
  EXPECT_THAT(text, testing::HasSubstr("viewBox=\"0 0 20 10\""));
  EXPECT_THAT(text,
              testing::HasSubstr("<path class=\"full\" fill=\"#0080ff\" fill-opacity=\"0.5\""));
  EXPECT_THAT(text, testing::HasSubstr("d=\"M1 2h3.25v4h-3.25zM5 6h7v0.33h-7z\""));
  EXPECT_THAT(text,
              testing::HasSubstr("text-anchor=\"end\" fill=\"#202020\">a&lt;b &amp; c</text>"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("empty")));
  EXPECT_THAT(text, testing::EndsWith("</svg>\n"));
}

} // namespace
