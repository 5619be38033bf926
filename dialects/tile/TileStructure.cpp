//===- TileStructure.cpp - Kernels and loops over blocks --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The syntax and the checks of the ops that hold the program together:
// tile.kernel and tile.blocks.
//
//===----------------------------------------------------------------------===//
#include "tile/Extents.h"
#include "tile/Tile.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace tesela::tile;

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

BlockArgument KernelOp::getArgument(StringRef name) {
  for (auto [index, attribute] : llvm::enumerate(getArgumentNames()))
    if (cast<StringAttr>(attribute).getValue() == name)
      return getBodyBlock().getArgument(index);
  return {};
}

std::optional<Role> KernelOp::getArgumentRole(unsigned index) {
  std::optional<ArrayAttr> roles = getArgumentRoles();
  return roles ? symbolizeRole(cast<StringAttr>((*roles)[index]).getValue()) : std::nullopt;
}

BlockArgument KernelOp::addArgument(StringRef name, Type type, Location loc,
                                    std::optional<Role> role) {
  auto append = [&](ArrayAttr texts, StringRef text) {
    SmallVector<Attribute> appended(texts.begin(), texts.end());
    appended.push_back(StringAttr::get(getContext(), text));
    return ArrayAttr::get(getContext(), appended);
  };
  setArgumentNamesAttr(append(getArgumentNames(), name));
  if (std::optional<ArrayAttr> roles = getArgumentRoles())
    setArgumentRolesAttr(append(*roles, role ? stringifyRole(*role) : ""));
  return getBodyBlock().addArgument(type, loc);
}

void KernelOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  for (auto [index, argument] : llvm::enumerate(region.getArguments()))
    setName(argument, getArgumentName(index));
}

// tile.kernel @name `<` parameters `>` `(` role? %name: type, ... `)` attributes? body
ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder builder(parser.getContext());
  StringAttr name;
  if (parser.parseSymbolName(name, getSymNameAttrName(result.name), result.attributes))
    return failure();

  SmallVector<Attribute> parameters;
  if (succeeded(parser.parseOptionalLess())) {
    auto parseParameter = [&] {
      StringRef parameter;
      if (parser.parseKeyword(&parameter))
        return failure();
      parameters.push_back(builder.getStringAttr(parameter));
      return success();
    };
    if (parser.parseCommaSeparatedList(parseParameter) || parser.parseGreater())
      return failure();
  }
  result.addAttribute(getParametersAttrName(result.name), builder.getArrayAttr(parameters));

  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> names, roles;
  bool hasRoles = false;
  auto parseArgument = [&] {
    SMLoc loc = parser.getCurrentLocation();
    StringRef role;
    if (succeeded(parser.parseOptionalKeyword(&role)) && !symbolizeRole(role)) {
      parser.emitError(loc) << "expected the role in, out, optional or workspace, got '" << role
                            << "'";
      return failure();
    }
    if (parser.parseArgument(arguments.emplace_back(), /*allowType=*/true))
      return failure();
    hasRoles |= !role.empty();
    roles.push_back(builder.getStringAttr(role));
    names.push_back(
        builder.getStringAttr(arguments.back().ssaName.name.drop_front())); // without '%'
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseArgument))
    return failure();
  result.addAttribute(getArgumentNamesAttrName(result.name), builder.getArrayAttr(names));
  if (hasRoles)
    result.addAttribute(getArgumentRolesAttrName(result.name), builder.getArrayAttr(roles));

  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  ensureTerminator(*body, parser.getBuilder(), result.location);
  return success();
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  if (!getParameters().empty()) {
    printer << '<';
    llvm::interleaveComma(getParameters(), printer, [&](Attribute parameter) {
      printer << cast<StringAttr>(parameter).getValue();
    });
    printer << '>';
  }
  printer << '(';
  llvm::interleaveComma(getBody().getArguments(), printer, [&](BlockArgument argument) {
    if (std::optional<Role> role = getArgumentRole(argument.getArgNumber()))
      printer << stringifyRole(*role) << ' ';
    printer.printRegionArgument(argument);
  });
  printer << ')';
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {getSymNameAttrName(), getParametersAttrName(),
                            getArgumentNamesAttrName(), getArgumentRolesAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/false);
}

/// Appends the names of all symbols in `extent`.
static void collectSymbols(Attribute extent, SmallVectorImpl<StringRef> &names) {
  if (auto symbol = dyn_cast<SymbolAttr>(extent)) {
    names.push_back(symbol.getName());
  } else if (auto expression = dyn_cast<ExtentExprAttr>(extent)) {
    collectSymbols(expression.getLeft(), names);
    collectSymbols(expression.getRight(), names);
  }
}

/// Checks an argument that is a view but not a captured tensor.
static LogicalResult verifyView(KernelOp kernel, unsigned index, ViewType view) {
  auto emitError = [&] {
    return kernel.emitOpError() << "argument '" << kernel.getArgumentName(index) << "' ";
  };
  for (Attribute extent : view.getExtents()) {
    SmallVector<StringRef> names;
    collectSymbols(extent, names);
    for (StringRef name : names)
      if (!llvm::is_contained(launchExtents(), name) &&
          !llvm::is_contained(kernel.getParameters(), StringAttr::get(kernel.getContext(), name)))
        return emitError() << "has the extent '" << name
                           << "', expected a parameter of the template or an extent of the launch "
                              "(B, H, Hkv, Sq, Sk); list it among the parameters, or write '?' for "
                              "any extent";
  }
  if (kernel.getArgumentRole(index) == Role::Optional && view.getRank() != 3)
    return emitError()
           << "is optional and has rank " << view.getRank()
           << ", expected rank 3: only a view with one number for each row may be optional";
  if (kernel.getArgumentRole(index) != Role::Workspace)
    return success();
  if (llvm::any_of(view.getExtents(), isDynamicExtent))
    return emitError() << "is a workspace with the extent '?', but its size must be known at the "
                          "launch; use extents of the launch";
  Type element = view.getElementType();
  if (!element.isF32() && !element.isInteger(32) && !isa<ElementParamType>(element))
    return emitError() << "is a workspace of " << element << ", expected f32 or i32";
  return success();
}

/// Checks the roles and the extents: only the kernel's own views have roles, and every name in an
/// extent is known to the caller.
static LogicalResult verifyInterface(KernelOp kernel) {
  if (std::optional<ArrayAttr> roles = kernel.getArgumentRoles()) {
    if (roles->size() != kernel.getArgumentNames().size())
      return kernel.emitOpError() << "expected a role for each of "
                                  << kernel.getArgumentNames().size() << " arguments, got "
                                  << roles->size() << "; \"\" is none";
    for (Attribute role : *roles)
      if (!cast<StringAttr>(role).empty() && !symbolizeRole(cast<StringAttr>(role).getValue()))
        return kernel.emitOpError()
               << "expected roles in, out, optional or workspace, got " << role;
  }
  for (Attribute parameter : kernel.getParameters())
    if (llvm::is_contained(launchExtents(), cast<StringAttr>(parameter).getValue()))
      return kernel.emitOpError() << "the parameter " << parameter
                                  << " has the name of an extent of the launch (B, H, Hkv, Sq, "
                                     "Sk); rename it";
  for (auto [index, argument] : llvm::enumerate(kernel.getBody().getArguments())) {
    auto view = dyn_cast<ViewType>(argument.getType());
    bool isOwn = view && !kernel.isParameter(index);
    if (std::optional<Role> role = kernel.getArgumentRole(index); role && !isOwn)
      return kernel.emitOpError()
             << "argument '" << kernel.getArgumentName(index) << "' has the role '"
             << stringifyRole(*role)
             << "', but only the kernel's own views have roles; remove the role from "
             << (view ? "captured tensors" : "scalars");
    if (isOwn && failed(verifyView(kernel, index, view)))
      return failure();
  }
  return success();
}

LogicalResult KernelOp::verify() {
  if (getArgumentNames().size() != getBody().getNumArguments())
    return emitOpError() << "expected a name for each of " << getBody().getNumArguments()
                         << " arguments, got " << getArgumentNames().size();
  llvm::StringSet<> names;
  for (Attribute name : getArgumentNames())
    if (!names.insert(cast<StringAttr>(name).getValue()).second)
      return emitOpError() << "two arguments are named " << name << "; rename one";
  return verifyInterface(*this);
}

//===----------------------------------------------------------------------===//
// BlocksOp
//===----------------------------------------------------------------------===//

void BlocksOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  if (region.getNumArguments() < 2)
    return;
  auto block = dyn_cast<BlockType>(region.getArgument(0).getType());
  setName(region.getArgument(0), block && block.getAxis() == Axis::Query ? "queries" : "keys");
  setName(region.getArgument(1), "partial");
}

static ParseResult parseIntervals(OpAsmParser &parser, StringRef keyword,
                                  SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  return parser.parseOperandList(operands, AsmParser::Delimiter::Paren);
}

// tile.blocks %keys, %partial of %rows : type -> type
//   (`carry` `(` %arg = %init : type, ... `)`)? (`runs` `(` %low, %high, ... `)`)?
//   (`drops` `(` %low, %high, ... `)`)? (`among` %found)? (`part` `(` %p, %n `)`)? body attributes?
ParseResult BlocksOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder builder(parser.getContext());
  SmallVector<OpAsmParser::Argument> arguments(2);
  OpAsmParser::UnresolvedOperand rows;
  Type rowsType;
  if (parser.parseArgument(arguments[0]) || parser.parseComma() ||
      parser.parseArgument(arguments[1]) || parser.parseKeyword("of") ||
      parser.parseOperand(rows) || parser.parseColonType(rowsType) || parser.parseArrow() ||
      parser.parseType(arguments[0].type))
    return failure();
  arguments[1].type = builder.getI1Type();

  SmallVector<OpAsmParser::UnresolvedOperand> init, runs, drops, among, part;
  if (succeeded(parser.parseOptionalKeyword("carry"))) {
    auto parseCarried = [&] {
      OpAsmParser::Argument &argument = arguments.emplace_back();
      return failure(parser.parseArgument(argument) || parser.parseEqual() ||
                     parser.parseOperand(init.emplace_back()) ||
                     parser.parseColonType(argument.type));
    };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseCarried))
      return failure();
  }
  if (parseIntervals(parser, "runs", runs) || parseIntervals(parser, "drops", drops))
    return failure();
  SMLoc amongLoc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword("among")) && parser.parseOperand(among.emplace_back()))
    return failure();
  if (parseIntervals(parser, "part", part))
    return failure();
  for (const OpAsmParser::Argument &argument : ArrayRef(arguments).drop_front(2))
    result.addTypes(argument.type);

  auto columns = dyn_cast<BlockType>(arguments[0].type);
  if (!among.empty() && (!columns || !isa<IntegerAttr>(columns.getExtent())))
    return parser.emitError(amongLoc) << "expected a block of a constant extent for found blocks";
  Type found = among.empty() ? Type()
                             : FoundBlocksType::get(parser.getContext(), columns.getPositions(),
                                                    columns.getAxis());
  Type i32 = builder.getI32Type();
  if (parser.resolveOperand(rows, rowsType, result.operands) ||
      parser.resolveOperands(init, result.types, parser.getCurrentLocation(), result.operands) ||
      parser.resolveOperands(runs, i32, result.operands) ||
      parser.resolveOperands(drops, i32, result.operands) ||
      parser.resolveOperands(among, found, result.operands) ||
      parser.resolveOperands(part, i32, result.operands))
    return failure();
  result.addAttribute(getOperandSegmentSizeAttr(),
                      builder.getDenseI32ArrayAttr({1, int32_t(init.size()), int32_t(runs.size()),
                                                    int32_t(drops.size()), int32_t(among.size()),
                                                    int32_t(part.size())}));
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments) || parser.parseOptionalAttrDict(result.attributes))
    return failure();
  ensureTerminator(*body, parser.getBuilder(), result.location);
  return success();
}

void BlocksOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getColumns() << ", " << getPartial() << " of " << getRows() << " : "
          << getRows().getType() << " -> " << getColumns().getType();
  if (!getInit().empty()) {
    printer << " carry (";
    llvm::interleaveComma(llvm::zip(getBody().getArguments().drop_front(2), getInit()), printer,
                          [&](auto pair) {
                            auto [argument, init] = pair;
                            printer << argument << " = " << init << " : " << init.getType();
                          });
    printer << ')';
  }
  if (!getRuns().empty())
    printer << " runs (" << getRuns() << ')';
  if (!getDrops().empty())
    printer << " drops (" << getDrops() << ')';
  if (getAmong())
    printer << " among " << getAmong();
  if (!getPart().empty())
    printer << " part (" << getPart() << ')';
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/!getResults().empty());
  printer.printOptionalAttrDict((*this)->getAttrs(), {getOperandSegmentSizeAttr()});
}

LogicalResult BlocksOp::verify() {
  Block &body = getBody().front();
  auto columns = body.getNumArguments() >= 2 ? dyn_cast<BlockType>(body.getArgument(0).getType())
                                             : BlockType();
  if (!columns || columns.getAxis() == getRows().getType().getAxis())
    return emitOpError()
           << "expected a loop over blocks of keys of a block of queries, or over blocks "
              "of queries of a block of keys";
  for (ValueRange intervals : {ValueRange(getRuns()), ValueRange(getDrops())})
    if (intervals.size() % 2 != 0)
      return emitOpError() << "expected intervals (low, high, ...), got " << intervals.size()
                           << " values; give each low end its high end";
  if (!getPart().empty() && getPart().size() != 2)
    return emitOpError() << "expected a part and the number of parts, got " << getPart().size()
                         << " values; write part (%p, %n)";
  if (getAmong() && !(getRuns().empty() && getDrops().empty()))
    return emitOpError() << "expected either runs and drops or found blocks, got both; the found "
                            "blocks know which are partial";
  if (getAmong() && isa<IntegerAttr>(columns.getExtent())) {
    auto expected = FoundBlocksType::get(getContext(), columns.getPositions(), columns.getAxis());
    if (getAmong().getType() != expected)
      return emitOpError() << "expected found blocks of the type " << expected
                           << ", because the loop goes over " << columns << ", got "
                           << getAmong().getType();
  }
  auto yield = cast<YieldOp>(body.getTerminator());
  TypeRange carried = getInit().getTypes();
  if (TypeRange(body.getArguments().drop_front(2)) != carried ||
      TypeRange(yield.getValues()) != carried || TypeRange(getResults()) != carried)
    return emitOpError() << "expected carried values, what the body yields and results to have "
                            "the same types ("
                         << getInit().getTypes() << "), the body yields ("
                         << yield.getValues().getTypes() << ")";
  return success();
}

LogicalResult FindBlocksOp::verify() {
  Type i32 = IntegerType::get(getContext(), 32), i1 = IntegerType::get(getContext(), 1);
  for (Region *test : {&getOne(), &getMany()}) {
    auto yield = dyn_cast<YieldOp>(test->front().getTerminator());
    if (TypeRange(test->getArgumentTypes()) != TypeRange({i32, i32}) || !yield ||
        TypeRange(yield.getValues()) != TypeRange({i1, i1}))
      return emitOpError()
             << "expected tests of the first and the last key of a box (i32, i32) that "
                "yield whether pairs may be kept and may be dropped (i1, i1)";
  }
  return success();
}
