//===- Extents.h - Extents that may name parameters -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An extent is an attribute:
//   IntegerAttr (i64)    a number; ShapedType::kDynamic is `?`, known at launch
//   SymbolAttr           a template's parameter, or of a view an extent of the launch
//   ExtentExprAttr       left + right, left * right, left ceildiv right
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_DIALECTS_TILE_EXTENTS_H
#define TESELA_DIALECTS_TILE_EXTENTS_H

#include "mlir/IR/Attributes.h"
#include "mlir/IR/OpImplementation.h"

#include <optional>

namespace tesela::tile {

/// The extent that is the number `value`.
mlir::Attribute getExtent(mlir::MLIRContext *context, int64_t value);

/// `extent`'s number; nothing where it is `?` or holds a symbol.
std::optional<int64_t> staticExtent(mlir::Attribute extent);

/// The extents of a launch: B H Hkv Sq Sk, in the order in which kernels take them.
llvm::ArrayRef<llvm::StringRef> launchExtents();

/// Whether `extent` is `?`.
bool isDynamicExtent(mlir::Attribute extent);

/// False only where the two are known and differ: unequal symbols are unknown.
bool mayBeEqual(mlir::Attribute a, mlir::Attribute b);

// extent  ::= primary ((`+` | `*` | `ceildiv`) primary)?
// primary ::= integer | name | `?` | `(` extent `)`
mlir::ParseResult parseExtent(mlir::AsmParser &parser, mlir::Attribute &extent);
void printExtent(mlir::AsmPrinter &printer, mlir::Attribute extent);

} // namespace tesela::tile

#endif // TESELA_DIALECTS_TILE_EXTENTS_H
