//===- WorkOps.h - Work items of other kinds --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DIALECTS_TILE_WORKOPS_H
#define TESELA_DIALECTS_TILE_WORKOPS_H

#include "tile/Tile.h"

#define GET_OP_CLASSES
#include "tile/WorkOps.h.inc"

#endif // TESELA_DIALECTS_TILE_WORKOPS_H
