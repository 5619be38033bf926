//===- PngCanvas.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "drawing/PngCanvas.h"

#include "drawing/Glyphs.h"
#include "drawing/PngFile.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tesela::tool {

static constexpr int pixelsPerUnit = 2;

static int pixel(double units) { return int(std::lround(units * pixelsPerUnit)); }

PngCanvas::PngCanvas(double width, double height)
    : width(pixel(width)), height(pixel(height)),
      pixels(size_t(this->width) * this->height, Color{255, 255, 255}) {}

void PngCanvas::paint(int left, int top, int right, int bottom, Color color, double opacity) {
  auto blend = [&](uint8_t below, uint8_t above) {
    return uint8_t(std::lround(below + opacity * (above - below)));
  };
  for (int y = std::max(top, 0); y < std::min(bottom, height); ++y)
    for (int x = std::max(left, 0); x < std::min(right, width); ++x) {
      Color &place = pixels[size_t(y) * width + x];
      place = {blend(place.red, color.red), blend(place.green, color.green),
               blend(place.blue, color.blue)};
    }
}

void PngCanvas::fill(const char *, const std::vector<Box> &boxes, Color color, double opacity) {
  for (const Box &box : boxes) {
    int left = pixel(box.x), top = pixel(box.y);
    // A box that is thinner than a pixel must still be visible.
    paint(left, top, std::max(pixel(box.x + box.width), left + 1),
          std::max(pixel(box.y + box.height), top + 1), color, opacity);
  }
}

void PngCanvas::write(double x, double y, Anchor anchor, const std::string &text) {
  constexpr Color ink{0x20, 0x20, 0x20};
  int step = pixel(letterWidth);
  int left = pixel(x) - int(anchor) * step * int(text.size()) / 2;
  int top = pixel(y) - glyphAscent * pixelsPerUnit;
  for (char c : text) {
    const Glyph &glyph = glyphOf(c);
    for (int row = 0; row < int(glyph.size()); ++row)
      for (int column = 0; column < glyphWidth; ++column)
        if (glyph[row] >> (glyphWidth - 1 - column) & 1) {
          int atX = left + column * pixelsPerUnit, atY = top + row * pixelsPerUnit;
          paint(atX, atY, atX + pixelsPerUnit, atY + pixelsPerUnit, ink, 1);
        }
    left += step;
  }
}

std::string PngCanvas::file() const {
  IndexedImage image{.width = width, .height = height, .palette = {}, .pixels = {}};
  std::map<Color, uint8_t> numbers; // a drawing has few different colors
  image.pixels.reserve(pixels.size());
  for (const Color &color : pixels) {
    auto [entry, isNew] = numbers.try_emplace(color, uint8_t(numbers.size()));
    if (isNew)
      image.palette.push_back(color);
    image.pixels.push_back(entry->second);
  }
  return pngFile(image);
}

} // namespace tesela::tool
