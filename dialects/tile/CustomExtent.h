//===- CustomExtent.h - custom<Extent> of the ops' formats ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DIALECTS_TILE_CUSTOMEXTENT_H
#define TESELA_DIALECTS_TILE_CUSTOMEXTENT_H

#include "tile/Extents.h"

#include "mlir/IR/OpImplementation.h"

namespace tesela::tile {

/// The printer of `custom<Extent>` in assembly formats; parseExtent is its parser.
inline void printExtent(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Attribute extent) {
  printExtent(static_cast<mlir::AsmPrinter &>(printer), extent);
}

} // namespace tesela::tile

#endif // TESELA_DIALECTS_TILE_CUSTOMEXTENT_H
