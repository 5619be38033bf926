//===- Glyphs.h - Letters for pictures --------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_DRAWING_GLYPHS_H
#define TESELA_TOOLS_DRAWING_GLYPHS_H

#include <array>
#include <cstdint>

namespace tesela::tool {

inline constexpr int glyphWidth = 5;
/// The rows above the baseline. The other two are below it.
inline constexpr int glyphAscent = 7;

/// The rows of a letter, from the top. Bit 4 is the leftmost column.
using Glyph = std::array<uint8_t, 9>;

/// The glyph of a printable ASCII character. Any other character looks like '?'.
const Glyph &glyphOf(char c);

} // namespace tesela::tool

#endif // TESELA_TOOLS_DRAWING_GLYPHS_H
