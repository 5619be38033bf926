//===- SvgCanvas.h - A picture as SVG ---------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_DRAWING_SVGCANVAS_H
#define TESELA_TOOLS_DRAWING_SVGCANVAS_H

#include "drawing/Canvas.h"

namespace tesela::tool {

/// Draws SVG. Each fill() is one path of the class `name`.
class SvgCanvas : public Canvas {
public:
  SvgCanvas(double width, double height);

  void fill(const char *name, const std::vector<Box> &boxes, Color color, double opacity) override;
  void write(double x, double y, Anchor anchor, const std::string &text) override;

  std::string file() const { return text_ + "</svg>\n"; }

private:
  std::string text_;
};

} // namespace tesela::tool

#endif // TESELA_TOOLS_DRAWING_SVGCANVAS_H
