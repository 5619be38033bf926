//===- TileOpBase.td - What all operations share ----------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_OP_BASE
#define TESELA_TILE_OP_BASE

include "mlir/IR/OpBase.td"
include "tile/TileTypes.td"

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

def Tile_AnyTile : Type<CPred<"::llvm::isa<::tesela::tile::TileType>($_self)">, "tile">;

#endif // TESELA_TILE_OP_BASE
