//===- Float8.cpp - e4m3 as f32 ---------------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/Float8.h"

#include "targets/common/FloatBits.h"

using namespace mlir;

namespace tesela {

static constexpr uint32_t quietNaN = 0x7fc00000;
static constexpr int mantissaShift = 23 - 3, signShift = 31 - 7;
static constexpr uint32_t bias = (127 - 7) << 23; // difference of the two exponent biases

Value float8ToFloat(OpBuilder &builder, Location loc, Value bits) {
  FloatBits b(builder, loc, bits.getType());
  Value magnitude = b.mask(bits, 0x7f), moved = b.left(magnitude, mantissaShift);
  Value normal = b.add(moved, b.number(bias));
  // With exponent 0 the mantissa m counts units of 2^-9: (1 + m/8) · 2^-6 - 2^-6.
  Value withOne = b.asFloat(b.add(moved, b.number(bias + (1 << 23))));
  Value subnormal = b.asInteger(b.addFloat(withOne, -0x1p-6f));
  Value finite = b.select(b.below(magnitude, 0x08), subnormal, normal);
  Value chosen = b.select(b.below(magnitude, 0x7f), finite, b.number(quietNaN));
  return b.asFloat(b.unite(chosen, b.left(b.mask(bits, 0x80), signShift)));
}

Value floatToFloat8(OpBuilder &builder, Location loc, Value value) {
  FloatBits b(builder, loc, value.getType());
  Value bits = b.asInteger(value), magnitude = b.mask(bits, 0x7fffffff);
  Value odd = b.mask(b.right(magnitude, mantissaShift), 1);
  Value rounded = b.add(b.add(magnitude, odd), b.number((1 << (mantissaShift - 1)) - 1));
  Value normal = b.right(b.subtract(rounded, b.number(bias)), mantissaShift);
  // Below 2^-6 the unit is 2^-9, which is the unit of [2^14, 2^15) in f32.
  Value shifted = b.asInteger(b.addFloat(b.asFloat(magnitude), 0x1p14f));
  Value subnormal = b.subtract(shifted, b.number((127 + 14) << 23));
  Value finite = b.select(b.below(magnitude, (127 - 6) << 23), subnormal, normal);
  Value held = b.select(b.below(magnitude, 0x43e00000), finite, b.number(0x7e)); // 448
  Value chosen = b.select(b.below(magnitude, 0x7f800001), held, b.number(0x7f));
  return b.unite(chosen, b.right(b.mask(bits, 0x80000000), signShift));
}

} // namespace tesela
