//===- Elements.h - Elements of tensors in host memory ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CHECK_ELEMENTS_H
#define TESELA_CHECK_ELEMENTS_H

#include "tesela/Tensor.h"

#include <cstdint>

namespace tesela {

/// The element at `offset` (in elements) of f32, f16, bf16 or e4m3 data.
inline float loadFloat(const void *data, ElementType type, int64_t offset) {
  switch (type) {
  case ElementType::f16:
    return f16ToFloat(static_cast<const uint16_t *>(data)[offset]);
  case ElementType::bf16:
    return bf16ToFloat(static_cast<const uint16_t *>(data)[offset]);
  case ElementType::e4m3:
    return e4m3ToFloat(static_cast<const uint8_t *>(data)[offset]);
  default:
    return static_cast<const float *>(data)[offset];
  }
}

inline void storeFloat(void *data, ElementType type, int64_t offset, float value) {
  switch (type) {
  case ElementType::f16:
    static_cast<uint16_t *>(data)[offset] = floatToF16(value);
    return;
  case ElementType::bf16:
    static_cast<uint16_t *>(data)[offset] = floatToBf16(value);
    return;
  case ElementType::e4m3:
    static_cast<uint8_t *>(data)[offset] = floatToE4m3(value);
    return;
  default:
    static_cast<float *>(data)[offset] = value;
  }
}

/// The offset in elements of logical (row-major) element `index`.
inline int64_t elementOffset(const Tensor &tensor, int64_t index) {
  int64_t offset = 0;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    offset += index % tensor.extents[axis] * tensor.strides[axis];
    index /= tensor.extents[axis];
  }
  return offset;
}

} // namespace tesela

#endif // TESELA_CHECK_ELEMENTS_H
