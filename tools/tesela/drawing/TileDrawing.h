//===- TileDrawing.h - A mask with its tiles --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Draws the tiles of a mask: queries down, keys to the right. The color of a tile is its kind. Kept
// pairs, by the variant's text, are darker; one in an empty tile would be a defect. If there are
// more tokens than pixels, the shade of a cell is the share of kept pairs in a sample.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_DRAWING_TILEDRAWING_H
#define TESELA_TOOLS_DRAWING_TILEDRAWING_H

#include "ExplainReport.h"
#include "drawing/Canvas.h"

namespace tesela::tool {

class TileDrawing {
public:
  /// `report` must outlive this object.
  explicit TileDrawing(const ExplainReport &report);

  double width() const { return width_; }
  double height() const { return height_; }
  void draw(Canvas &canvas) const;

private:
  /// The mask of one head.
  struct Panel {
    const HeadTiles *tiles;
    double x, y; ///< where the panel's first pair is
  };

  void drawCaption(Canvas &canvas) const;
  void drawTiles(Canvas &canvas, const Panel &panel) const;
  void drawKeptPairs(Canvas &canvas, const Panel &panel) const;
  void drawBorders(Canvas &canvas, const Panel &panel) const;
  void drawAxes(Canvas &canvas, const Panel &panel) const;
  void drawLegend(Canvas &canvas) const;
  Box boxOf(const Panel &panel, double query, double queryEnd, double key, double keyEnd) const;

  const ExplainReport &report;
  const TileMap &map;
  double scaleQ = 1, scaleK = 1; ///< units for each token
  double panelWidth = 0, panelHeight = 0;
  int64_t grouped = 1; ///< tiles along each axis that are drawn as one
  std::vector<Panel> panels;
  std::vector<std::string> caption, legend;
  double width_ = 0, height_ = 0;
};

} // namespace tesela::tool

#endif // TESELA_TOOLS_DRAWING_TILEDRAWING_H
