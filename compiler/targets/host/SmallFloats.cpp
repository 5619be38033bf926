//===- SmallFloats.cpp - bf16, f16 and e4m3 as f32 --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/SmallFloats.h"

#include "targets/common/Float8.h"
#include "targets/common/FloatBits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {

namespace {

/// Rounds away the lowest `count` bits of `bits`, to nearest, ties to even.
Value roundAway(FloatBits &b, Value bits, uint32_t count) {
  Value odd = b.mask(b.right(bits, count), 1);
  Value up = b.add(b.add(bits, odd), b.number((1u << (count - 1)) - 1));
  return b.mask(up, ~((1u << count) - 1));
}

constexpr uint32_t signBit = 0x80000000, magnitudeBits = 0x7fffffff, infinity = 0x7f800000;

/// For CPUs without F16C: a multiplication rebiases the exponents, and also makes f16's subnormal
/// numbers normal.
Value halfToFloat(FloatBits &b, Value bits16) {
  Value h = b.widen(bits16);
  Value magnitude = b.left(b.mask(h, 0x7fff), 13);
  Value finite = b.asInteger(b.multiply(b.asFloat(magnitude), 0x1p112f));
  Value special = b.unite(magnitude, b.number(infinity));
  Value chosen = b.select(b.atLeast(magnitude, 0x7c00 << 13), special, finite);
  return b.asFloat(b.unite(chosen, b.left(b.mask(h, 0x8000), 16)));
}

Value floatToHalf(FloatBits &b, Value value) {
  Value bits = b.asInteger(value);
  Value magnitude = b.mask(bits, magnitudeBits);
  Value rebiased = b.multiply(b.asFloat(magnitude), 0x1p-112f);
  Value finite = b.right(b.asInteger(rebiased), 13);
  Value special = b.select(b.atLeast(magnitude, infinity + 1), b.number(0x7e00), b.number(0x7c00));
  Value chosen = b.select(b.atLeast(magnitude, infinity), special, finite);
  return b.narrow(b.unite(chosen, b.right(b.mask(bits, signBit), 16)), 16);
}

Value roundToHalf(CodeBuilder &builder, FloatBits &b, Value value) {
  Value bits = b.asInteger(value);
  Value magnitude = b.mask(bits, magnitudeBits);
  Value normal = roundAway(b, magnitude, 13);
  normal = b.select(b.atLeast(normal, 0x47800000), b.number(infinity), normal); // 2^16
  // Below 2^-14 the unit of f16 is 2^-24, which is the unit of [0.5, 1) in f32.
  Value shifted = arith::AddFOp::create(builder, b.asFloat(magnitude), b.real(0.5f));
  Value subnormal = b.asInteger(arith::SubFOp::create(builder, shifted, b.real(0.5f)));
  Value finite = b.select(b.atLeast(magnitude, 0x38800000), normal, subnormal);
  Value chosen = b.select(b.atLeast(magnitude, infinity + 1), b.number(0x7fc00000), finite);
  return b.asFloat(b.unite(chosen, b.mask(bits, signBit)));
}

Value roundToBf16(CodeBuilder &builder, FloatBits &b, Value value) {
  Value bits = b.asInteger(value);
  Value isNan = arith::CmpFOp::create(builder, arith::CmpFPredicate::UNO, value, value);
  Value quiet = b.mask(b.unite(bits, b.number(0x00400000)), 0xffff0000);
  return b.asFloat(b.select(isNan, quiet, roundAway(b, bits, 16)));
}

} // namespace

Type storageType(Type element) {
  if (isa<Float8E4M3FNType>(element))
    return IntegerType::get(element.getContext(), 8);
  return element.isF16() || element.isBF16() ? IntegerType::get(element.getContext(), 16) : element;
}

Value toFloat(CodeBuilder &builder, const VectorUnit &unit, Type element, Value bits) {
  FloatBits b(builder, builder.getLoc(), bits.getType());
  if (element.isBF16())
    return b.asFloat(b.left(b.widen(bits), 16));
  if (isa<Float8E4M3FNType>(element))
    return float8ToFloat(builder, builder.getLoc(), b.widen(bits));
  if (!element.isF16())
    return bits;
  if (!unit.f16c)
    return halfToFloat(b, bits);
  Value half =
      arith::BitcastOp::create(builder, CodeBuilder::likeShape(bits.getType(), element), bits);
  return arith::ExtFOp::create(builder,
                               CodeBuilder::likeShape(bits.getType(), builder.getF32Type()), half);
}

Value toBits(CodeBuilder &builder, const VectorUnit &unit, Type element, Value value) {
  FloatBits b(builder, builder.getLoc(), value.getType());
  if (element.isBF16())
    return b.narrow(b.right(b.asInteger(value), 16), 16);
  if (isa<Float8E4M3FNType>(element))
    return b.narrow(floatToFloat8(builder, builder.getLoc(), value), 8);
  if (!element.isF16())
    return value;
  if (!unit.f16c)
    return floatToHalf(b, value);
  Value half =
      arith::TruncFOp::create(builder, CodeBuilder::likeShape(value.getType(), element), value);
  return arith::BitcastOp::create(
      builder, CodeBuilder::likeShape(value.getType(), builder.getI16Type()), half);
}

Value roundTo(CodeBuilder &builder, const VectorUnit &unit, Type element, Value value) {
  FloatBits b(builder, builder.getLoc(), value.getType());
  if (element.isBF16())
    return roundToBf16(builder, b, value);
  if (isa<Float8E4M3FNType>(element))
    return float8ToFloat(builder, builder.getLoc(),
                         floatToFloat8(builder, builder.getLoc(), value));
  if (!element.isF16())
    return value;
  if (!unit.f16c)
    return roundToHalf(builder, b, value);
  return toFloat(builder, unit, element, toBits(builder, unit, element, value));
}

} // namespace tesela
