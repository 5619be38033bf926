//===- ElementType.h - Element types of tensors and scalars -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_ELEMENTTYPE_H
#define TESELA_ELEMENTTYPE_H

#include "tesela/Export.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace tesela {

/// The C API uses the same numbers, and artifacts contain them.
enum class ElementType : int {
  f32 = 0,
  f16 = 1,
  bf16 = 2,
  i32 = 3,
  boolean = 4,
  /// 8 bits: a sign, 4 bits of exponent, 3 of mantissa; at most 448, no infinity (Micikevicius and
  /// others, "FP8 Formats for Deep Learning", arXiv:2209.05433; MLIR's f8E4M3FN). Only for tensors
  /// of a template; no variant captures it.
  e4m3 = 6
};

/// "f32", "f16", "bf16", "i32", "bool", "e4m3".
TESELA_EXPORT std::string_view elementTypeName(ElementType type);
TESELA_EXPORT std::optional<ElementType> parseElementType(std::string_view name);
/// Bytes of one element. A bool has one byte; 0 is false. 0 if `type` is none of these.
TESELA_EXPORT int elementSize(ElementType type);

// Conversions between f32 and the 16-bit formats, rounded to nearest even; NaN
// stays NaN.
TESELA_EXPORT float bf16ToFloat(uint16_t bits);
TESELA_EXPORT uint16_t floatToBf16(float value);
TESELA_EXPORT float f16ToFloat(uint16_t bits);
TESELA_EXPORT uint16_t floatToF16(float value);

// The same for e4m3. Values above 448 in magnitude become 448.
TESELA_EXPORT float e4m3ToFloat(uint8_t bits);
TESELA_EXPORT uint8_t floatToE4m3(float value);

/// `value` rounded to `type` (f32, f16, bf16 or e4m3) and back.
TESELA_EXPORT float roundTo(ElementType type, float value);

} // namespace tesela

#endif // TESELA_ELEMENTTYPE_H
