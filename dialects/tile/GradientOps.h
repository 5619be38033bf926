//===- GradientOps.h - Gradients of parameters ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DIALECTS_TILE_GRADIENTOPS_H
#define TESELA_DIALECTS_TILE_GRADIENTOPS_H

#include "tile/Tile.h"

#define GET_OP_CLASSES
#include "tile/GradientOps.h.inc"

#endif // TESELA_DIALECTS_TILE_GRADIENTOPS_H
