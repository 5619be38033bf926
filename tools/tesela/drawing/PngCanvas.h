//===- PngCanvas.h - A picture as PNG ---------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_DRAWING_PNGCANVAS_H
#define TESELA_TOOLS_DRAWING_PNGCANVAS_H

#include "drawing/Canvas.h"

namespace tesela::tool {

/// Draws pixels: one unit is two pixels.
class PngCanvas : public Canvas {
public:
  PngCanvas(double width, double height);

  void fill(const char *name, const std::vector<Box> &boxes, Color color, double opacity) override;
  void write(double x, double y, Anchor anchor, const std::string &text) override;

  std::string file() const;

private:
  void paint(int left, int top, int right, int bottom, Color color, double opacity);

  int width, height;
  std::vector<Color> pixels;
};

} // namespace tesela::tool

#endif // TESELA_TOOLS_DRAWING_PNGCANVAS_H
