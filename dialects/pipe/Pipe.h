//===- Pipe.h - The pipe dialect --------------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DIALECTS_PIPE_PIPE_H
#define TESELA_DIALECTS_PIPE_PIPE_H

#include "tile/Tile.h"

#include "pipe/PipeDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "pipe/PipeAttributes.h.inc"

#define GET_TYPEDEF_CLASSES
#include "pipe/PipeTypes.h.inc"

#define GET_OP_CLASSES
#include "pipe/PipeOps.h.inc"

#endif // TESELA_DIALECTS_PIPE_PIPE_H
