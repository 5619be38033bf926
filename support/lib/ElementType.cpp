//===- ElementType.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/ElementType.h"

#include <bit>
#include <cmath>

namespace tesela {

std::string_view elementTypeName(ElementType type) {
  switch (type) {
  case ElementType::f32:
    return "f32";
  case ElementType::f16:
    return "f16";
  case ElementType::bf16:
    return "bf16";
  case ElementType::i32:
    return "i32";
  case ElementType::boolean:
    return "bool";
  case ElementType::e4m3:
    return "e4m3";
  }
  return "unknown";
}

std::optional<ElementType> parseElementType(std::string_view name) {
  for (ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16, ElementType::i32,
                           ElementType::boolean, ElementType::e4m3})
    if (name == elementTypeName(type))
      return type;
  return std::nullopt;
}

int elementSize(ElementType type) {
  switch (type) {
  case ElementType::f32:
  case ElementType::i32:
    return 4;
  case ElementType::f16:
  case ElementType::bf16:
    return 2;
  case ElementType::boolean:
  case ElementType::e4m3:
    return 1;
  }
  return 0;
}

float bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

uint16_t floatToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) // keep the sign, make it quiet
    return uint16_t((bits >> 16) | 0x40);
  uint32_t roundingBias = 0x7fff + ((bits >> 16) & 1);
  return uint16_t((bits + roundingBias) >> 16);
}

float f16ToFloat(uint16_t bits) {
  int exponent = (bits >> 10) & 0x1f;
  float fraction = float(bits & 0x3ff);
  float magnitude;
  if (exponent == 0)
    magnitude = std::ldexp(fraction, -24);
  else if (exponent == 31)
    magnitude = fraction == 0 ? HUGE_VALF : NAN;
  else
    magnitude = std::ldexp(fraction + 1024.0f, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

uint16_t floatToF16(float value) {
  uint16_t sign = uint16_t(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value))
    return sign | 0x7e00;
  float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) // halfway to the next power of two after the largest f16
    return sign | 0x7c00;
  if (magnitude < 0x1p-14f) // subnormal: the unit is 2^-24; rint rounds to even
    return sign | uint16_t(std::rint(magnitude * 0x1p24f));
  uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  bits += 0xfff + ((bits >> 13) & 1);
  return sign | uint16_t((bits >> 13) - ((127 - 15) << 10));
}

float e4m3ToFloat(uint8_t bits) {
  int exponent = (bits >> 3) & 0xf;
  float fraction = float(bits & 7);
  float magnitude =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(fraction + 8, exponent - 10);
  if ((bits & 0x7f) == 0x7f)
    magnitude = NAN;
  return bits & 0x80 ? -magnitude : magnitude;
}

uint8_t floatToE4m3(float value) {
  uint8_t sign = uint8_t(std::signbit(value) ? 0x80 : 0);
  if (std::isnan(value))
    return sign | 0x7f;
  float magnitude = std::fmin(std::fabs(value), 448.0f);
  if (magnitude < 0x1p-6f) // subnormal: the unit is 2^-9; rint rounds to even
    return sign | uint8_t(std::rint(magnitude * 0x1p9f));
  uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  bits += 0x7ffff + ((bits >> 20) & 1);
  return sign | uint8_t((bits >> 20) - ((127 - 7) << 3));
}

float roundTo(ElementType type, float value) {
  switch (type) {
  case ElementType::bf16:
    return bf16ToFloat(floatToBf16(value));
  case ElementType::f16:
    return f16ToFloat(floatToF16(value));
  case ElementType::e4m3:
    return e4m3ToFloat(floatToE4m3(value));
  default:
    return value;
  }
}

} // namespace tesela
