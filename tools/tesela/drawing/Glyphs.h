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
/// Rows that stand on the line; the others hang below it.
inline constexpr int glyphAscent = 7;

/// A letter's rows from the top; bit 4 is the leftmost column.
using Glyph = std::array<uint8_t, 9>;

/// Of printable ASCII; anything else looks like '?'.
const Glyph &glyphOf(char c);

} // namespace tesela::tool

#endif // TESELA_TOOLS_DRAWING_GLYPHS_H
