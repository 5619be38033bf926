//===- Extents.cpp - Extents that may name parameters -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/Extents.h"
#include "tile/Tile.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace tesela::tile;

Attribute tesela::tile::getExtent(MLIRContext *context, int64_t value) {
  return IntegerAttr::get(IntegerType::get(context, 64), value);
}

std::optional<int64_t> tesela::tile::staticExtent(Attribute extent) {
  if (auto number = dyn_cast<IntegerAttr>(extent)) {
    if (number.getInt() == ShapedType::kDynamic)
      return std::nullopt;
    return number.getInt();
  }
  auto expression = dyn_cast<ExtentExprAttr>(extent);
  if (!expression)
    return std::nullopt;
  std::optional<int64_t> left = staticExtent(expression.getLeft());
  std::optional<int64_t> right = staticExtent(expression.getRight());
  if (!left || !right)
    return std::nullopt;
  switch (expression.getOp()) {
  case ExtentOperator::Add:
    return *left + *right;
  case ExtentOperator::Multiply:
    return *left * *right;
  case ExtentOperator::CeilDivide:
    return *right > 0 ? std::optional<int64_t>(llvm::divideCeilSigned(*left, *right))
                      : std::nullopt;
  case ExtentOperator::Maximum:
    return std::max(*left, *right);
  }
  return std::nullopt;
}

llvm::ArrayRef<llvm::StringRef> tesela::tile::launchExtents() {
  static constexpr llvm::StringRef names[] = {"B", "H", "Hkv", "Sq", "Sk"};
  return names;
}

bool tesela::tile::isDynamicExtent(Attribute extent) {
  auto number = dyn_cast<IntegerAttr>(extent);
  return number && number.getInt() == ShapedType::kDynamic;
}

bool tesela::tile::mayBeEqual(Attribute a, Attribute b) {
  std::optional<int64_t> left = staticExtent(a), right = staticExtent(b);
  return !left || !right || *left == *right;
}

static ParseResult parsePrimary(AsmParser &parser, Attribute &extent) {
  MLIRContext *context = parser.getContext();
  int64_t number = 0;
  OptionalParseResult integer = parser.parseOptionalInteger(number);
  if (integer.has_value()) {
    extent = getExtent(context, number);
    return *integer;
  }
  if (succeeded(parser.parseOptionalQuestion())) {
    extent = getExtent(context, ShapedType::kDynamic);
    return success();
  }
  if (succeeded(parser.parseOptionalLParen()))
    return failure(parseExtent(parser, extent) || parser.parseRParen());
  StringRef name;
  if (succeeded(parser.parseOptionalKeyword(&name))) {
    extent = SymbolAttr::get(context, name);
    return success();
  }
  SMLoc loc = parser.getCurrentLocation();
  OptionalParseResult alias = parser.parseOptionalAttribute(extent);
  if (alias.has_value()) {
    if (succeeded(*alias) && !isa<SymbolAttr, ExtentExprAttr>(extent))
      return parser.emitError(loc) << "expected an alias of a #tile.extent, got " << extent;
    return *alias;
  }
  return parser.emitError(loc, "expected an extent: a number, the name of a parameter or '?'");
}

ParseResult tesela::tile::parseExtent(AsmParser &parser, Attribute &extent) {
  if (parsePrimary(parser, extent))
    return failure();
  std::optional<ExtentOperator> op;
  if (succeeded(parser.parseOptionalPlus()))
    op = ExtentOperator::Add;
  else if (succeeded(parser.parseOptionalStar()))
    op = ExtentOperator::Multiply;
  else if (succeeded(parser.parseOptionalKeyword("ceildiv")))
    op = ExtentOperator::CeilDivide;
  else if (succeeded(parser.parseOptionalKeyword("max")))
    op = ExtentOperator::Maximum;
  if (!op)
    return success();
  Attribute right;
  if (parsePrimary(parser, right))
    return failure();
  extent = ExtentExprAttr::get(parser.getContext(), *op, extent, right);
  return success();
}

static void printPrimary(AsmPrinter &printer, Attribute extent) {
  bool nested = isa<ExtentExprAttr>(extent);
  if (nested)
    printer << '(';
  printExtent(printer, extent);
  if (nested)
    printer << ')';
}

void tesela::tile::printExtent(AsmPrinter &printer, Attribute extent) {
  if (isDynamicExtent(extent)) {
    printer << '?';
  } else if (auto number = dyn_cast<IntegerAttr>(extent)) {
    printer << number.getInt();
  } else if (auto symbol = dyn_cast<SymbolAttr>(extent)) {
    printer << symbol.getName();
  } else {
    auto expression = cast<ExtentExprAttr>(extent);
    printPrimary(printer, expression.getLeft());
    printer << ' ' << stringifyExtentOperator(expression.getOp()) << ' ';
    printPrimary(printer, expression.getRight());
  }
}

Attribute ExtentExprAttr::parse(AsmParser &parser, Type) {
  Attribute extent;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseExtent(parser, extent) || parser.parseGreater())
    return {};
  if (!isa<ExtentExprAttr>(extent)) {
    parser.emitError(loc) << "expected an extent computed from two, such as 'd + 1'";
    return {};
  }
  return extent;
}

void ExtentExprAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printExtent(printer, *this);
  printer << '>';
}
