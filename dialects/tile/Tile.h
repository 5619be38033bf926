//===- Tile.h - The tile dialect --------------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DIALECTS_TILE_TILE_H
#define TESELA_DIALECTS_TILE_TILE_H

#include "tile/Schedule.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>

#include "tile/TileDialect.h.inc"

#include "tile/TileEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "tile/TileAttributes.h.inc"

#define GET_TYPEDEF_CLASSES
#include "tile/TileTypes.h.inc"

#define GET_OP_CLASSES
#include "tile/TileOps.h.inc"

#endif // TESELA_DIALECTS_TILE_TILE_H
