//===- SeldomMap.h - Maps that run rarely -----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A tile.map with the attribute `tile.seldom` is right for all elements, and faster code runs in
// the common case. So a target may make it short rather than fast.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_SELDOMMAP_H
#define TESELA_COMPILER_ANALYSIS_SELDOMMAP_H

#include "tile/Tile.h"

namespace tesela {

inline constexpr llvm::StringLiteral seldomAttr = "tile.seldom";

inline bool isSeldom(tile::MapOp map) { return map->hasAttr(seldomAttr); }

inline void setSeldom(tile::MapOp map) {
  map->setAttr(seldomAttr, mlir::UnitAttr::get(map.getContext()));
}

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_SELDOMMAP_H
