//===- Extents.h - Extents that may name parameters -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An extent is an attribute:
//   IntegerAttr (i64)    a number; ShapedType::kDynamic is `?`: known only at launch
//   SymbolAttr           a parameter of a template; in a view also an extent of the launch
//   ExtentExprAttr       left + right, left * right, left ceildiv right, left max right
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_DIALECTS_TILE_EXTENTS_H
#define TESELA_DIALECTS_TILE_EXTENTS_H

#include "mlir/IR/Attributes.h"
#include "mlir/IR/OpImplementation.h"

#include <optional>

namespace tesela::tile {

/// The number `value` as an extent.
mlir::Attribute getExtent(mlir::MLIRContext *context, int64_t value);

/// The number of `extent`; nullopt if it is `?` or contains a symbol.
std::optional<int64_t> staticExtent(mlir::Attribute extent);

/// The extents of a launch: B H Hkv Sq Sk, in the order in which kernels take them.
llvm::ArrayRef<llvm::StringRef> launchExtents();

/// Whether `extent` is `?`.
bool isDynamicExtent(mlir::Attribute extent);

/// False only if both are known and differ. Different symbols may have equal values.
bool mayBeEqual(mlir::Attribute a, mlir::Attribute b);

// extent  ::= primary ((`+` | `*` | `ceildiv` | `max`) primary)?
// primary ::= integer | name | `?` | `(` extent `)` | alias of a `#tile.extent`
mlir::ParseResult parseExtent(mlir::AsmParser &parser, mlir::Attribute &extent);
void printExtent(mlir::AsmPrinter &printer, mlir::Attribute extent);

} // namespace tesela::tile

#endif // TESELA_DIALECTS_TILE_EXTENTS_H
