//===- TileDrawing.h - A mask with its tiles --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Queries go down, keys to the right. A tile has the color of its kind; kept pairs are darker, by
// the variant's own text: what is dark on the color of empty would be a defect. A few thousand
// tokens are more than pixels: a cell then shows how much of it is kept, by a sample.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_DRAWING_TILEDRAWING_H
#define TESELA_TOOLS_DRAWING_TILEDRAWING_H

#include "ExplainReport.h"
#include "drawing/Canvas.h"

namespace tesela::tool {

class TileDrawing {
public:
  /// `report` must live as long.
  explicit TileDrawing(const ExplainReport &report);

  double width() const { return width_; }
  double height() const { return height_; }
  void draw(Canvas &canvas) const;

private:
  /// The mask of one head.
  struct Panel {
    const HeadTiles *tiles;
    double x, y; ///< of its first pair
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
  double scaleQ = 1, scaleK = 1; ///< units a token
  double panelWidth = 0, panelHeight = 0;
  int64_t grouped = 1; ///< tiles of each axis in a drawn one
  std::vector<Panel> panels;
  std::vector<std::string> caption, legend;
  double width_ = 0, height_ = 0;
};

} // namespace tesela::tool

#endif // TESELA_TOOLS_DRAWING_TILEDRAWING_H
