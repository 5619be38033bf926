//===- VariantGrid.h - Which variants see the whole grid --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Head dimensions, types and chips do not depend on a variant's text, so a few variants that differ
// in what is compiled see all of them. The library's others see a few, for the time of the suite;
// TESELA_WHOLE_GRID=1 in the environment shows them all.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_VARIANTGRID_H
#define TESELA_TESTS_VARIANTGRID_H

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

namespace tesela {

/// Whether everything is asked for.
inline bool isWholeGrid() { return std::getenv("TESELA_WHOLE_GRID") != nullptr; }

/// Whether the library's variant `name` is tested on the whole grid.
inline bool hasWholeGrid(std::string_view name) {
  constexpr std::string_view names[] = {
      "alibi", "causal", "causal_bottom_right", "full", "prefix_lm", "sliding_window", "softcap"};
  return isWholeGrid() || std::find(std::begin(names), std::end(names), name) != std::end(names);
}

} // namespace tesela

#endif // TESELA_TESTS_VARIANTGRID_H
