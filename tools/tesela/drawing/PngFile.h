//===- PngFile.h - Pixels as a PNG file -------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_DRAWING_PNGFILE_H
#define TESELA_TOOLS_DRAWING_PNGFILE_H

#include "drawing/Canvas.h"

namespace tesela::tool {

/// Pixels as numbers of their colors, row after row. At most 256 colors.
struct IndexedImage {
  int width = 0, height = 0;
  std::vector<Color> palette;
  std::vector<uint8_t> pixels;
};

/// The image as a PNG file (ISO/IEC 15948). It needs no compression library: rows are stored as the
/// difference from the row above, and repeated bytes are counted. That suits drawings of tiles.
std::string pngFile(const IndexedImage &image);

} // namespace tesela::tool

#endif // TESELA_TOOLS_DRAWING_PNGFILE_H
