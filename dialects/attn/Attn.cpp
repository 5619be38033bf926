//===- Attn.cpp -----------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "attn/Attn.h"

#include "attn/Arithmetic.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include "attn/AttnDialect.cpp.inc"
#include "attn/AttnEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "attn/AttnAttributes.cpp.inc"

#define GET_OP_CLASSES
#include "attn/AttnOps.cpp.inc"

using namespace mlir;

namespace tesela::attn {

void AttnDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "attn/AttnAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "attn/AttnOps.cpp.inc"
      >();
}

Operation *AttnDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                            Location location) {
  return arith::ConstantOp::materialize(builder, value, type, location);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static bool isParameterType(Type type) { return type.isSignlessInteger(32) || type.isF32(); }

LogicalResult ScalarAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef name,
                                 Type type, TypedAttr defaultValue) {
  if (name.empty())
    return emitError() << "a scalar parameter needs a name";
  if (!isParameterType(type))
    return emitError() << "scalar parameter '" << name << "' is " << type
                       << "; it must be i32 or f32";
  if (defaultValue && defaultValue.getType() != type)
    return emitError() << "the default of scalar parameter '" << name << "' is "
                       << defaultValue.getType() << "; it must be " << type
                       << ", as the parameter is";
  return success();
}

/// An extent's text is: number, or [number '*'] name [('+' | '-') number].
static bool isExtentText(StringRef text) {
  auto isNumber = [](StringRef digits) {
    uint32_t value;
    return !digits.empty() && llvm::isDigit(digits.front()) && !digits.getAsInteger(10, value);
  };
  if (isNumber(text))
    return true;
  if (auto [coefficient, rest] = text.split('*'); !rest.empty()) {
    if (!isNumber(coefficient))
      return false;
    text = rest;
  }
  size_t sign = text.find_first_of("+-");
  if (sign != StringRef::npos && !isNumber(text.substr(sign + 1)))
    return false;
  StringRef name = text.substr(0, sign);
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

LogicalResult CaptureAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef name,
                                  Type type, ArrayAttr extents) {
  if (name.empty())
    return emitError() << "a captured tensor needs a name";
  if (!isParameterType(type) && !type.isF16() && !type.isBF16() && !type.isInteger(1))
    return emitError() << "captured tensor '" << name << "' has elements of " << type
                       << "; they must be i32, f32, f16, bf16 or i1";
  if (extents.empty())
    return emitError()
           << "captured tensor '" << name
           << "' has no extents; give one extent for each axis, or declare it as #attn.scalar";
  for (Attribute extent : extents) {
    auto text = dyn_cast<StringAttr>(extent);
    if (!text || !isExtentText(text.getValue()))
      return emitError() << "captured tensor '" << name << "' has the extent " << extent
                         << "; write it as \"H\", \"2*Sk\", \"P-1\" or \"16\"";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// VariantOp
//===----------------------------------------------------------------------===//

/// `names`: the names of the arguments, separated by spaces; "s" is f32, the others are i32.
static LogicalResult verifyArguments(Operation *op, Block &body, StringRef name, StringRef names) {
  Builder builder(op->getContext());
  SmallVector<Type> expected;
  for (StringRef argument : llvm::split(names, ' '))
    expected.push_back(argument == "s" ? Type(builder.getF32Type()) : builder.getI32Type());
  if (!llvm::equal(body.getArgumentTypes(), expected))
    return op->emitOpError() << "expects the " << name << "'s arguments to be " << expected << " ("
                             << names << "), got " << body.getArgumentTypes();
  return success();
}

static LogicalResult verifyBody(VariantOp op, Block &body, StringRef name, StringRef names,
                                Type yielded) {
  if (failed(verifyArguments(op, body, name, names)))
    return failure();
  auto yield = dyn_cast_if_present<YieldOp>(body.empty() ? nullptr : &body.back());
  if (!yield)
    return op.emitOpError() << "expects the " << name << " to end with attn.yield";
  if (yield.getValue().getType() != yielded)
    return yield.emitOpError() << "gives " << yield.getValue().getType() << ", but a " << name
                               << " is " << yielded;
  return success();
}

LogicalResult VariantOp::verifyRegions() {
  llvm::StringSet<> names;
  for (Attribute parameter : getParameters()) {
    auto scalar = dyn_cast<ScalarAttr>(parameter);
    auto capture = dyn_cast<CaptureAttr>(parameter);
    if (!scalar && !capture)
      return emitOpError() << "has the parameter " << parameter
                           << "; parameters are #attn.scalar or #attn.capture";
    StringRef name = scalar ? scalar.getName() : capture.getName();
    if (!names.insert(name).second)
      return emitOpError() << "has two parameters called '" << name << "'; rename one";
  }
  Builder builder(getContext());
  Type f32 = builder.getF32Type();
  if (failed(verifyBody(*this, getScoreBody(), "score", "s b h hkv q k", f32)) ||
      failed(verifyBody(*this, getMaskBody(), "mask", "b h hkv q k", builder.getI1Type())))
    return failure();
  if (getSink().empty())
    return success();
  return verifyBody(*this, getSink().front(), "sink", "b h hkv q", f32);
}

bool VariantOp::scoreIsIdentity() {
  Block &body = getScoreBody();
  return cast<YieldOp>(body.back()).getValue() == body.getArgument(0);
}

bool VariantOp::maskIsTrue() {
  return matchPattern(cast<YieldOp>(getMaskBody().back()).getValue(), m_One());
}

Attribute VariantOp::findParameter(StringRef name) {
  for (Attribute parameter : getParameters()) {
    auto scalar = dyn_cast<ScalarAttr>(parameter);
    if (name == (scalar ? scalar.getName() : cast<CaptureAttr>(parameter).getName()))
      return parameter;
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Operations within a variant
//===----------------------------------------------------------------------===//

LogicalResult ParamOp::verify() {
  auto variant = (*this)->getParentOfType<VariantOp>();
  if (!variant)
    return success();
  auto scalar = dyn_cast_if_present<ScalarAttr>(variant.findParameter(getName()));
  if (!scalar)
    return emitOpError() << "reads '" << getName() << "', which is not a scalar parameter of @"
                         << variant.getSymName() << "; declare it there as #attn.scalar";
  if (scalar.getType() != getType())
    return emitOpError() << "gives " << getType() << ", but '" << getName() << "' is declared as "
                         << scalar.getType();
  return success();
}

LogicalResult CaptureExtentOp::verify() {
  auto variant = (*this)->getParentOfType<VariantOp>();
  if (!variant)
    return success();
  auto capture = dyn_cast_if_present<CaptureAttr>(variant.findParameter(getName()));
  if (!capture)
    return emitOpError() << "asks for '" << getName() << "', which is not a captured tensor of @"
                         << variant.getSymName() << "; declare it there as #attn.capture";
  if (int64_t(getAxis()) < 0 || getAxis() >= capture.getExtents().size())
    return emitOpError() << "asks for axis " << int64_t(getAxis()) << " of '" << getName()
                         << "', which has " << capture.getExtents().size() << " axes";
  return success();
}

LogicalResult ReadOp::verify() {
  if (getIndices().empty())
    return emitOpError() << "needs at least one index";
  auto variant = (*this)->getParentOfType<VariantOp>();
  if (!variant)
    return success();
  auto capture = dyn_cast_if_present<CaptureAttr>(variant.findParameter(getName()));
  if (!capture)
    return emitOpError() << "reads '" << getName() << "', which is not a captured tensor of @"
                         << variant.getSymName() << "; declare it there as #attn.capture";
  Type element = capture.getType();
  Type expected = isa<FloatType>(element) ? Float32Type::get(getContext()) : element;
  if (getType() != expected)
    return emitOpError() << "gives " << getType() << ", but '" << getName()
                         << "' is declared with elements of " << element << ", which are read as "
                         << expected;
  if (capture.getExtents().size() != getIndices().size())
    return emitOpError() << "has " << getIndices().size() << " indices, but '" << getName()
                         << "' has " << capture.getExtents().size()
                         << " axes; give one index for each axis";
  return success();
}

LogicalResult ReduceOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.getArgumentTypes() != TypeRange(getBound().getType()))
    return emitOpError() << "expects its block to take the index, an i32, but it takes ("
                         << body.getArgumentTypes() << ")";
  auto yield = dyn_cast_if_present<YieldOp>(body.empty() ? nullptr : &body.back());
  if (!yield || yield.getValue().getType() != getType())
    return emitOpError() << "expects its block to end with attn.yield of " << getType()
                         << ", the type of its result";
  if ((getKind() == Reduction::Sum) == getType().isInteger(1))
    return emitOpError() << stringifyReduction(getKind()) << " cannot combine " << getType()
                         << "; any and all combine i1, sum combines i32 or f32";
  return success();
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

LogicalResult GradientOp::verifyRegions() {
  if (failed(verifyArguments(*this, getScore().front(), "score", "s b h hkv q k")))
    return failure();
  if (getSink().empty())
    return success();
  return verifyArguments(*this, getSink().front(), "sink", "b h hkv q");
}

LogicalResult RoundsOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.getArgumentTypes() != TypeRange(getBound().getType()))
    return emitOpError() << "expects its block to take the index, an i32, but it takes ("
                         << body.getArgumentTypes() << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

template <typename Adaptor>
static OpFoldResult foldInts(Adaptor adaptor, int32_t (*compute)(int32_t, int32_t)) {
  auto lhs = dyn_cast_if_present<IntegerAttr>(adaptor.getLhs());
  auto rhs = dyn_cast_if_present<IntegerAttr>(adaptor.getRhs());
  if (!lhs || !rhs)
    return {};
  return IntegerAttr::get(lhs.getType(), compute(lhs.getInt(), rhs.getInt()));
}

OpFoldResult FloorDivOp::fold(FoldAdaptor adaptor) { return foldInts(adaptor, floorDivide); }
OpFoldResult FloorModOp::fold(FoldAdaptor adaptor) { return foldInts(adaptor, floorRemainder); }

OpFoldResult ToIntOp::fold(FoldAdaptor adaptor) {
  auto operand = dyn_cast_if_present<FloatAttr>(adaptor.getOperand());
  if (!operand)
    return {};
  return IntegerAttr::get(getType(), saturatingInt(operand.getValue().convertToFloat()));
}

} // namespace tesela::attn
