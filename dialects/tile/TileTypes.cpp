//===- TileTypes.cpp - Syntax and checks of the types -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/Extents.h"
#include "tile/Tile.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tesela::tile;

#define GET_TYPEDEF_CLASSES
#include "tile/TileTypes.cpp.inc"

void TileDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "tile/TileTypes.cpp.inc"
      >();
}

/// A builtin type such as `f32`, or the name of a template's parameter.
static ParseResult parseElementType(AsmParser &parser, Type &type) {
  OptionalParseResult builtin = parser.parseOptionalType(type);
  if (builtin.has_value())
    return *builtin;
  StringRef name;
  if (parser.parseKeyword(&name))
    return failure();
  type = ElementParamType::get(parser.getContext(), name);
  return success();
}

static void printElementType(AsmPrinter &printer, Type type) {
  if (auto parameter = dyn_cast<ElementParamType>(type))
    printer << parameter.getName();
  else
    printer << type;
}

static ParseResult parseExtentList(AsmParser &parser, SmallVectorImpl<Attribute> &extents) {
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Square, [&] { return parseExtent(parser, extents.emplace_back()); });
}

static void printExtentList(AsmPrinter &printer, ArrayRef<Attribute> extents) {
  printer << '[';
  llvm::interleaveComma(extents, printer.getStream(),
                        [&](Attribute extent) { printExtent(printer, extent); });
  printer << ']';
}

//===----------------------------------------------------------------------===//
// TileType
//===----------------------------------------------------------------------===//

Type TileType::parse(AsmParser &parser) {
  SmallVector<Attribute> extents;
  Type elementType;
  Attribute encoding;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseExtentList(parser, extents) || parser.parseComma() ||
      parseElementType(parser, elementType) ||
      (succeeded(parser.parseOptionalComma()) && parser.parseAttribute(encoding)) ||
      parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(), extents,
                    elementType, encoding);
}

void TileType::print(AsmPrinter &printer) const {
  printer << '<';
  printExtentList(printer, getExtents());
  printer << ", ";
  printElementType(printer, getElementType());
  if (getEncoding())
    printer << ", " << getEncoding();
  printer << '>';
}

LogicalResult TileType::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<Attribute> extents, Type elementType, Attribute) {
  if (extents.empty() || extents.size() > 2)
    return emitError() << "expected a tile with one or two extents, got " << extents.size();
  for (Attribute extent : extents) {
    std::optional<int64_t> value = staticExtent(extent);
    if (value && *value <= 0)
      return emitError() << "expected a tile with positive extents, got the extent " << *value;
    if (isDynamicExtent(extent))
      return emitError() << "expected a tile whose extents are known when the kernel is compiled; "
                            "only views may have the extent '?'";
  }
  if (!isa<ElementParamType, FloatType, IntegerType>(elementType))
    return emitError() << "expected a tile of floats, integers or a parameter's type, got "
                       << elementType;
  return success();
}

int64_t TileType::getExtent(int64_t axis) const { return *staticExtent(getExtents()[axis]); }

bool TileType::isSingleRow() const { return getRank() == 2 && staticExtent(getExtents()[0]) == 1; }

bool TileType::isBound() const {
  return !isa<ElementParamType>(getElementType()) &&
         llvm::all_of(getExtents(), [](Attribute extent) { return staticExtent(extent); });
}

TileType TileType::withEncoding(Attribute encoding) const {
  return get(getContext(), getExtents(), getElementType(), encoding);
}

TileType TileType::withElementType(Type type) const {
  return get(getContext(), getExtents(), type, getEncoding());
}

//===----------------------------------------------------------------------===//
// ViewType
//===----------------------------------------------------------------------===//

Type ViewType::parse(AsmParser &parser) {
  SmallVector<Attribute> extents;
  Type elementType;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseExtentList(parser, extents) || parser.parseComma() ||
      parseElementType(parser, elementType))
    return {};
  bool contiguous = succeeded(parser.parseOptionalComma());
  if ((contiguous && parser.parseKeyword("contiguous")) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(), extents,
                    elementType, contiguous);
}

void ViewType::print(AsmPrinter &printer) const {
  printer << '<';
  printExtentList(printer, getExtents());
  printer << ", ";
  printElementType(printer, getElementType());
  printer << (getContiguous() ? ", contiguous>" : ">");
}

LogicalResult ViewType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<Attribute>,
                               Type elementType, bool) {
  if (!isa<ElementParamType, FloatType, IntegerType>(elementType))
    return emitError() << "expected a view of floats, integers or a parameter's type, got "
                       << elementType;
  return success();
}

Type ViewType::getReadType() const {
  if (isa<ElementParamType>(getElementType()))
    return {};
  if (isa<FloatType>(getElementType()))
    return Float32Type::get(getContext());
  return IntegerType::get(getContext(), 32);
}

std::optional<int64_t> ViewType::getStaticExtent(int64_t axis) const {
  return staticExtent(getExtents()[axis]);
}

//===----------------------------------------------------------------------===//
// BlockType
//===----------------------------------------------------------------------===//

Type BlockType::parse(AsmParser &parser) {
  StringRef axisName;
  Attribute extent, heads = tesela::tile::getExtent(parser.getContext(), 1);
  SMLoc loc;
  if (parser.parseLess() || parser.getCurrentLocation(&loc) || parser.parseKeyword(&axisName) ||
      parser.parseComma() || parseExtent(parser, extent) ||
      (succeeded(parser.parseOptionalComma()) && parseExtent(parser, heads)) ||
      parser.parseGreater())
    return {};
  std::optional<Axis> axis = symbolizeAxis(axisName);
  if (!axis) {
    parser.emitError(loc) << "expected the axis 'query' or 'key' of a block, got '" << axisName
                          << "'";
    return {};
  }
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(), *axis, extent,
                    heads);
}

void BlockType::print(AsmPrinter &printer) const {
  printer << '<' << stringifyAxis(getAxis()) << ", ";
  printExtent(printer, getExtent());
  if (staticExtent(getHeads()) != 1) {
    printer << ", ";
    printExtent(printer, getHeads());
  }
  printer << '>';
}

LogicalResult BlockType::verify(function_ref<InFlightDiagnostic()> emitError, Axis axis,
                                Attribute extent, Attribute heads) {
  std::optional<int64_t> rows = staticExtent(extent), count = staticExtent(heads);
  if (isDynamicExtent(heads) || (count && *count < 1))
    return emitError()
           << "expected a number of heads of at least 1 that is known when the kernel is compiled";
  if (count == 1)
    return success();
  if (axis == Axis::Key)
    return emitError() << "expected one head in a block of keys, got several";
  if (rows && count && (!llvm::isPowerOf2_64(*count) || *rows % *count != 0))
    return emitError() << "expected the number of heads that share " << *rows
                       << " rows to be a power of two that divides the number of rows, got "
                       << *count;
  return success();
}

int64_t BlockType::getRows() const { return *staticExtent(getExtent()); }

int64_t BlockType::getHeadCount() const { return *staticExtent(getHeads()); }
