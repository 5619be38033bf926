//===- ColumnOps.h - Views of a tensor's columns ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DIALECTS_TILE_COLUMNOPS_H
#define TESELA_DIALECTS_TILE_COLUMNOPS_H

#include "tile/Tile.h"

#define GET_OP_CLASSES
#include "tile/ColumnOps.h.inc"

#endif // TESELA_DIALECTS_TILE_COLUMNOPS_H
