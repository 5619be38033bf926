//===- TileDialect.td - Tiled algorithms ------------------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_DIALECT
#define TESELA_TILE_DIALECT

include "mlir/IR/DialectBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::tesela::tile";
  let summary = "tiled algorithms, before a machine is chosen";
  let description = [{
    `tile` is about mathematics: blocks of rows of global tensors, tiles of
    values, products, row reductions and the steps of the online softmax. It
    knows neither memories nor threads.

    A *template* is a `tile.kernel` with parameters. Extents and element types
    are attributes and types that may name a parameter; a template verifies
    before it is bound, where unequal symbols mean *unknown*. The pass
    `tile-bind` replaces the parameters, after which unequal extents are errors.

    **Blocks.** A `!tile.block<axis, n>` is a box of a view: a batch, a head and
    `n` consecutive rows from `first`, of which those from `limit` on do not
    exist: they load as zeros and are not stored.

    **Hooks.** `tile.score` and `tile.mask` without a region are the places
    where a variant goes; `tile-inline-variant` fills them.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerTypes();
  }];
}

#endif // TESELA_TILE_DIALECT
