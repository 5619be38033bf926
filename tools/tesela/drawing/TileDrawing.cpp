//===- TileDrawing.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "drawing/TileDrawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tesela::tool {

// White, and the blue and orange that people with all common kinds of color blindness can
// distinguish (Okabe and Ito, "Color Universal Design", 2008). They are lighter, so that kept pairs
// are visible.
static constexpr Color emptyColor{0xff, 0xff, 0xff};
static constexpr Color partialColor{0xfa, 0xcf, 0x86};
static constexpr Color fullColor{0x8c, 0xc4, 0xe6};
static constexpr Color keptColor{0x00, 0x00, 0x00};
static constexpr Color lineColor{0x50, 0x50, 0x50};

/// The number of shades for kept pairs, from few kept pairs in a cell to all.
static constexpr int levels = 4;
static double opacityOf(int level) { return 0.08 * level; }

// Lengths in units. A unit is one pixel of a screen.
static constexpr double longestSide = 480, longestOfSeveral = 230, widestToken = 40;
static constexpr double leftMargin = 60, topMargin = 30, gap = 16, lineHeight = 15;
static constexpr double smallestTile = 3; ///< smaller tiles are drawn as groups
static constexpr size_t maxPanels = 4;

TileDrawing::TileDrawing(const ExplainReport &report)
    : report(report), map(report.explanation.map) {
  const LaunchExtents &e = report.extents;
  const std::vector<HeadTiles> &heads = map.heads;
  size_t count = std::min(heads.size(), maxPanels);
  double side = count > 1 ? longestOfSeveral : longestSide;
  double scale = std::min(widestToken, side / double(std::max<int64_t>({e.Sq, e.Sk, 1})));
  // At least one line high and wide: a single row of tokens must be visible, with labels at both
  // ends.
  panelWidth = std::max(scale * double(e.Sk), lineHeight);
  panelHeight = std::max(scale * double(e.Sq), lineHeight);
  scaleK = panelWidth / double(std::max<int64_t>(e.Sk, 1));
  scaleQ = panelHeight / double(std::max<int64_t>(e.Sq, 1));
  double tile = std::min(scaleK * double(map.blockN), scaleQ * double(map.blockM));
  grouped = std::max<int64_t>(1, int64_t(std::ceil(smallestTile / tile)));
  grouped = (grouped + map.cell - 1) / map.cell * map.cell; // round up to whole cells

  const Explanation &explanation = report.explanation;
  caption = {fmt::format("{}: {} x {} tokens (queries down, keys to the right)",
                         explanation.variantName, e.Sq, e.Sk),
             fmt::format("tiles of {} x {} ({}, head dimension {})", map.blockM, map.blockN,
                         explanation.target, report.Dqk)};
  if (heads.size() > count)
    caption.push_back(fmt::format("{} of {} different heads", count, heads.size()));

  TileCounts counts;
  for (const HeadTiles &tiles : heads) {
    const TileCounts &each = tiles.counts;
    counts.empty += each.empty;
    counts.partial += each.partial;
    counts.full += each.full;
  }
  legend = {"full: computed without the mask, " + withShare(counts.full, counts.all()),
            "partial: masked pair by pair, " + withShare(counts.partial, counts.all()) +
                "; kept pairs are darker",
            "empty: skipped, " + withShare(counts.empty, counts.all())};
  if (grouped > 1)
    legend.push_back(
        fmt::format("drawn in groups of {0} x {0} tiles; of several kinds: as partial", grouped));

  double top = gap + lineHeight * double(caption.size());
  size_t columns = count > 1 ? 2 : 1, rows = (count + columns - 1) / columns;
  for (size_t i = 0; i < count; ++i)
    panels.push_back(
        {&heads[i], leftMargin + double(i % columns) * (panelWidth + leftMargin),
         top + topMargin + double(i / columns) * (panelHeight + topMargin + lineHeight)});
  size_t longestLine = 0;
  for (const std::vector<std::string> *lines : {&caption, &legend})
    for (const std::string &line : *lines)
      longestLine = std::max(longestLine, line.size());
  width_ = std::ceil(std::max(double(columns) * (leftMargin + panelWidth) + leftMargin,
                              2 * gap + 26 + letterWidth * double(longestLine)));
  height_ = std::ceil(top + double(rows) * (panelHeight + topMargin + lineHeight) +
                      lineHeight * double(legend.size()) + gap);
}

void TileDrawing::draw(Canvas &canvas) const {
  drawCaption(canvas);
  for (const Panel &panel : panels) {
    drawTiles(canvas, panel);
    drawKeptPairs(canvas, panel);
    drawBorders(canvas, panel);
    drawAxes(canvas, panel);
  }
  drawLegend(canvas);
}

Box TileDrawing::boxOf(const Panel &panel, double query, double queryEnd, double key,
                       double keyEnd) const {
  return {panel.x + scaleK * key, panel.y + scaleQ * query, scaleK * (keyEnd - key),
          scaleQ * (queryEnd - query)};
}

void TileDrawing::drawCaption(Canvas &canvas) const {
  for (size_t i = 0; i < caption.size(); ++i)
    canvas.write(gap, gap + lineHeight * double(i) + 4, Anchor::start, caption[i]);
}

void TileDrawing::drawTiles(Canvas &canvas, const Panel &panel) const {
  const LaunchExtents &e = report.extents;
  auto kindOf = [&](int64_t row, int64_t column) {
    TileKind kind = map.kind(*panel.tiles, row, column);
    for (int64_t r = row; r < std::min(row + grouped, map.rows); r += map.cell)
      for (int64_t c = column; c < std::min(column + grouped, map.columns); c += map.cell)
        if (map.kind(*panel.tiles, r, c) != kind)
          return TileKind::partial;
    return kind;
  };
  std::array<std::vector<Box>, 3> boxes; // by kind; a box is a run of equal tiles in a row
  for (int64_t row = 0; row < map.rows; row += grouped)
    for (int64_t column = 0; column < map.columns;) {
      TileKind kind = kindOf(row, column);
      int64_t end = column + grouped;
      while (end < map.columns && kindOf(row, end) == kind)
        end += grouped;
      boxes[size_t(kind)].push_back(boxOf(
          panel, double(row * map.blockM), double(std::min((row + grouped) * map.blockM, e.Sq)),
          double(column * map.blockN), double(std::min(end * map.blockN, e.Sk))));
      column = end;
    }
  canvas.fill("empty", boxes[size_t(TileKind::empty)], emptyColor, 1);
  canvas.fill("partial", boxes[size_t(TileKind::partial)], partialColor, 1);
  canvas.fill("full", boxes[size_t(TileKind::full)], fullColor, 1);
}

void TileDrawing::drawKeptPairs(Canvas &canvas, const Panel &panel) const {
  const LaunchExtents &e = report.extents;
  constexpr int64_t maxSamples = 4; // along each axis of a cell
  int64_t rows = std::min(e.Sq, std::max<int64_t>(1, int64_t(panelHeight)));
  int64_t columns = std::min(e.Sk, std::max<int64_t>(1, int64_t(panelWidth)));
  int32_t b = std::max(panel.tiles->batch, 0), h = std::max(panel.tiles->head, 0);
  auto levelOf = [&](int64_t row, int64_t column) {
    int64_t q = row * e.Sq / rows, queries = (row + 1) * e.Sq / rows - q;
    int64_t k = column * e.Sk / columns, keys = (column + 1) * e.Sk / columns - k;
    int64_t down = std::min(queries, maxSamples), across = std::min(keys, maxSamples), kept = 0;
    for (int64_t i = 0; i < down; ++i)
      for (int64_t j = 0; j < across; ++j)
        kept += report.explanation.keeps(b, h, int32_t(q + (2 * i + 1) * queries / (2 * down)),
                                         int32_t(k + (2 * j + 1) * keys / (2 * across)));
    if (kept == 0 || kept == down * across)
      return kept == 0 ? 0 : levels;
    return int(std::clamp<int64_t>(levels * kept / (down * across), 1, levels - 1));
  };
  std::array<std::vector<Box>, levels + 1> boxes; // by level; a box is a run of equal cells
  std::vector<int> line(static_cast<size_t>(columns));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column)
      line[column] = levelOf(row, column);
    for (int64_t column = 0, end; column < columns; column = end) {
      end = column + 1;
      while (end < columns && line[end] == line[column])
        ++end;
      boxes[line[column]].push_back(
          boxOf(panel, double(row * e.Sq / rows), double((row + 1) * e.Sq / rows),
                double(column * e.Sk / columns), double(end * e.Sk / columns)));
    }
  }
  for (int level = 1; level <= levels; ++level)
    canvas.fill("kept", boxes[level], keptColor, opacityOf(level));
}

void TileDrawing::drawBorders(Canvas &canvas, const Panel &panel) const {
  const LaunchExtents &e = report.extents;
  constexpr double thickness = 0.5;
  std::vector<Box> lines;
  auto across = [&](int64_t query) {
    lines.push_back(
        {panel.x, panel.y + scaleQ * double(query) - thickness / 2, panelWidth, thickness});
  };
  auto down = [&](int64_t key) {
    lines.push_back(
        {panel.x + scaleK * double(key) - thickness / 2, panel.y, thickness, panelHeight});
  };
  for (int64_t row = 0; row < (grouped > 1 ? 1 : map.rows); ++row)
    across(row * map.blockM);
  across(e.Sq);
  for (int64_t column = 0; column < (grouped > 1 ? 1 : map.columns); ++column)
    down(column * map.blockN);
  down(e.Sk);
  canvas.fill("border", lines, lineColor, 0.5);
}

/// Ticks from 0 in steps of a power of two, at most `count`. The end is added if it is not too
/// close to the last tick.
static std::vector<int64_t> ticksOf(int64_t length, double count) {
  int64_t step = 1;
  while (double(length) > count * double(step))
    step *= 2;
  std::vector<int64_t> ticks;
  for (int64_t tick = 0; tick <= length; tick += step)
    ticks.push_back(tick);
  if (4 * (length - ticks.back()) >= 3 * step)
    ticks.push_back(length);
  return ticks;
}

void TileDrawing::drawAxes(Canvas &canvas, const Panel &panel) const {
  const LaunchExtents &e = report.extents;
  constexpr double tick = 4, letterMiddle = 4;
  std::vector<Box> ticks;
  // Labels have room for seven letters side by side, and for two lines one below the other.
  for (int64_t key : ticksOf(e.Sk, std::clamp(panelWidth / (7 * letterWidth), 1.0, 8.0))) {
    double x = panel.x + scaleK * double(key);
    ticks.push_back({x - 0.25, panel.y - tick, 0.5, tick});
    canvas.write(x, panel.y - tick - 2, Anchor::middle, std::to_string(key));
  }
  for (int64_t query : ticksOf(e.Sq, std::clamp(panelHeight / (2 * lineHeight), 1.0, 8.0))) {
    double y = panel.y + scaleQ * double(query);
    ticks.push_back({panel.x - tick, y - 0.25, tick, 0.5});
    canvas.write(panel.x - tick - 2, y + letterMiddle, Anchor::end, std::to_string(query));
  }
  canvas.fill("tick", ticks, lineColor, 1);
  if (panels.size() > 1)
    canvas.write(panel.x, panel.y - tick - lineHeight, Anchor::start, headLabel(*panel.tiles));
}

void TileDrawing::drawLegend(Canvas &canvas) const {
  constexpr double swatch = 18, thickness = 0.5;
  double y = height_ - gap - lineHeight * double(legend.size());
  constexpr Color colors[] = {fullColor, partialColor, emptyColor};
  constexpr double keptShares[] = {1, 0.5, 0};
  for (size_t i = 0; i < legend.size(); ++i, y += lineHeight) {
    if (i < std::size(colors)) {
      Box box{gap, y, swatch, lineHeight - 4}, kept = box;
      kept.width *= keptShares[i];
      Box frame{box.x - thickness, box.y - thickness, box.width + 2 * thickness,
                box.height + 2 * thickness};
      canvas.fill("legend", {frame}, lineColor, 1);
      canvas.fill("legend", {box}, colors[i], 1);
      if (kept.width > 0)
        canvas.fill("legend", {kept}, keptColor, opacityOf(levels));
    }
    canvas.write(gap + swatch + 8, y + lineHeight - 6, Anchor::start, legend[i]);
  }
}

} // namespace tesela::tool
