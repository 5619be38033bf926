//===- Canvas.h - What a picture is drawn on --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_DRAWING_CANVAS_H
#define TESELA_TOOLS_DRAWING_CANVAS_H

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace tesela::tool {

struct Color {
  uint8_t red = 0, green = 0, blue = 0;
  auto operator<=>(const Color &) const = default;
};

/// A rectangle in units of the picture; y grows downwards.
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

/// Which point of a text is at the given coordinates.
enum class Anchor { start, middle, end };

/// The width of a letter. The baseline of a text is at its y.
inline constexpr double letterWidth = 6.6;

class Canvas {
public:
  virtual ~Canvas() = default;

  /// Fills `boxes`, whose meaning `name` says; 0 < opacity <= 1.
  virtual void fill(const char *name, const std::vector<Box> &boxes, Color color,
                    double opacity) = 0;
  virtual void write(double x, double y, Anchor anchor, const std::string &text) = 0;
};

} // namespace tesela::tool

#endif // TESELA_TOOLS_DRAWING_CANVAS_H
