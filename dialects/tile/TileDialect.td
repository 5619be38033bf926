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
    `tile` describes algorithms: blocks of rows of global tensors, tiles of
    values, products, row reductions and the steps of the online softmax. It
    knows nothing of memory spaces or threads.

    A *template* is a `tile.kernel` with parameters. Extents and element types
    are attributes and types that may name a parameter. A template is verified
    before it is bound; then different symbols may be equal. The pass
    `tile-bind` replaces the parameters. After it, unequal extents are errors.

    **Blocks.** A `!tile.block<axis, n>` is part of a view: a batch, a head and
    `n` consecutive rows from `first` on. Rows from `limit` on do not
    exist: they load as zeros and are not stored.

    **Hooks.** `tile.score` and `tile.mask` without a region are hooks:
    `tile-inline-variant` puts the variant there.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerTypes();
  }];
}

#endif // TESELA_TILE_DIALECT
