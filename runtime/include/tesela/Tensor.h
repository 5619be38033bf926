//===- Tensor.h - A view of a tensor in memory ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TENSOR_H
#define TESELA_TENSOR_H

#include "tesela/ElementType.h"
#include "tesela/Export.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace tesela {

/// A view: address, type, extents and strides. It does not own the memory.
struct Tensor {
  static constexpr int maxRank = 8;

  void *data = nullptr; ///< address of the first element; inputs are only read
  ElementType type = ElementType::bf16;
  int rank = 0;
  std::array<int64_t, maxRank> extents{}; ///< the first `rank` are used
  std::array<int64_t, maxRank> strides{}; ///< in elements; the first `rank` are used
  bool readOnly = false;                  ///< a launch refuses the tensor where a kernel writes it

  /// Row-major without gaps. At most maxRank extents.
  TESELA_EXPORT static Tensor contiguous(void *data, ElementType type,
                                         std::initializer_list<int64_t> extents);

  /// q, k, v or o as [batch, heads, length, headDim]; the memory has the same order
  /// ("BHSD").
  static Tensor bhsd(void *data, ElementType type, int64_t batch, int64_t heads, int64_t length,
                     int64_t headDim) {
    return contiguous(data, type, {batch, heads, length, headDim});
  }
  /// The same view [batch, heads, length, headDim] of memory in the order [batch, length, heads,
  /// headDim] ("BSHD").
  TESELA_EXPORT static Tensor bshd(void *data, ElementType type, int64_t batch, int64_t heads,
                                   int64_t length, int64_t headDim);

  /// The product of the extents.
  TESELA_EXPORT int64_t elementCount() const;
  /// Bytes from the first element to the end of the last one. Strides must not be negative.
  TESELA_EXPORT size_t spanBytes() const;
  /// The same view at another address, for example of a copy in a device's memory.
  Tensor at(void *address) const {
    Tensor moved = *this;
    moved.data = address;
    return moved;
  }
};

/// "bf16[2, 8, 1024, 128]".
TESELA_EXPORT std::string describe(const Tensor &tensor);

} // namespace tesela

#endif // TESELA_TENSOR_H
