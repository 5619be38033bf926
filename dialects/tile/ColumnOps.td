//===- ColumnOps.td - Views of a tensor's columns ---------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_COLUMN_OPS
#define TESELA_TILE_COLUMN_OPS

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tile/TileOpBase.td"

def Tile_FirstColumnsOp : Tile_Op<"first_columns", [Pure]> {
  let summary = "the first columns of a tensor";
  let description = [{
    `result[b, h, i, j] = view[b, h, i, j]` for each column j of the result; the result has at most as many columns as the view. If a
    kernel loads the same block from the result and from the view, a GPU copies it only once.

    Example: `%V = tile.first_columns %k : !tile.view<[B, Hkv, Sk, 576], bf16> -> !tile.view<[B, Hkv, Sk, 512], bf16>`
  }];
  let arguments = (ins Tile_ViewType:$view);
  let results = (outs Tile_ViewType:$result);
  let assemblyFormat = "$view attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

#endif // TESELA_TILE_COLUMN_OPS
