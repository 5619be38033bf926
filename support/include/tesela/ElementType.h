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

/// The C API has the same numbers; they are written into artifacts.
enum class ElementType : int { f32 = 0, f16 = 1, bf16 = 2, i32 = 3, boolean = 4 };

/// "f32", "f16", "bf16", "i32", "bool".
TESELA_EXPORT std::string_view elementTypeName(ElementType type);
TESELA_EXPORT std::optional<ElementType> parseElementType(std::string_view name);
/// Bytes of one element; bool takes one, which is false where it is 0.
TESELA_EXPORT int elementSize(ElementType type);

// Conversions between f32 and the 16-bit formats, rounded to nearest even; NaN
// stays NaN.
TESELA_EXPORT float bf16ToFloat(uint16_t bits);
TESELA_EXPORT uint16_t floatToBf16(float value);
TESELA_EXPORT float f16ToFloat(uint16_t bits);
TESELA_EXPORT uint16_t floatToF16(float value);

/// `value` rounded to `type` (f32, f16 or bf16) and back.
TESELA_EXPORT float roundTo(ElementType type, float value);

} // namespace tesela

#endif // TESELA_ELEMENTTYPE_H
