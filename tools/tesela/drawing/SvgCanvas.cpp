//===- SvgCanvas.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "drawing/SvgCanvas.h"

#include <fmt/format.h>

#include <cmath>

namespace tesela::tool {

/// A number with two decimals, which is finer than any screen.
static std::string number(double value) {
  return fmt::format("{:.7g}", std::round(value * 100) / 100);
}

static std::string colorText(Color color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue);
}

static std::string escaped(const std::string &text) {
  std::string result;
  for (char c : text)
    result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

SvgCanvas::SvgCanvas(double width, double height) {
  // In a monospaced font of size 11 a letter is 6.6 units wide.
  text_ = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
                      "viewBox=\"0 0 {0} {1}\" font-family=\"monospace\" font-size=\"11\">\n"
                      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
                      number(width), number(height));
}

void SvgCanvas::fill(const char *name, const std::vector<Box> &boxes, Color color, double opacity) {
  if (boxes.empty())
    return;
  text_ += fmt::format("<path class=\"{}\" fill=\"{}\"", name, colorText(color));
  if (opacity < 1)
    text_ += fmt::format(" fill-opacity=\"{}\"", number(opacity));
  text_ += " shape-rendering=\"crispEdges\" d=\"";
  for (const Box &box : boxes)
    text_ += fmt::format("M{} {}h{}v{}h-{}z", number(box.x), number(box.y), number(box.width),
                         number(box.height), number(box.width));
  text_ += "\"/>\n";
}

void SvgCanvas::write(double x, double y, Anchor anchor, const std::string &text) {
  const char *anchors[] = {"start", "middle", "end"};
  text_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" fill=\"#202020\">{}</text>\n",
                       number(x), number(y), anchors[int(anchor)], escaped(text));
}

} // namespace tesela::tool
