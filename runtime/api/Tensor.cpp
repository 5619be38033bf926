//===- Tensor.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Tensor.h"

#include <algorithm>

namespace tesela {

/// Wraps instead of overflowing; the launch checks extents, not this function.
static int64_t product(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }

Tensor Tensor::contiguous(void *data, ElementType type, std::initializer_list<int64_t> extents) {
  Tensor tensor;
  tensor.data = data;
  tensor.type = type;
  tensor.rank = int(std::min<size_t>(extents.size(), maxRank));
  std::copy_n(extents.begin(), tensor.rank, tensor.extents.begin());
  int64_t stride = 1;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    tensor.strides[axis] = stride;
    stride = product(stride, tensor.extents[axis]);
  }
  return tensor;
}

Tensor Tensor::bshd(void *data, ElementType type, int64_t batch, int64_t heads, int64_t length,
                    int64_t headDim) {
  Tensor tensor = contiguous(data, type, {batch, heads, length, headDim});
  int64_t lengthStride = product(heads, headDim);
  tensor.strides = {product(length, lengthStride), headDim, lengthStride, 1};
  return tensor;
}

int64_t Tensor::elementCount() const {
  int64_t count = 1;
  for (int axis = 0; axis < rank; ++axis)
    count = product(count, extents[axis]);
  return count;
}

size_t Tensor::spanBytes() const {
  if (elementCount() == 0)
    return 0;
  int64_t last = 0;
  for (int axis = 0; axis < rank; ++axis)
    last += (extents[axis] - 1) * strides[axis];
  return size_t(last + 1) * elementSize(type);
}

std::string describe(const Tensor &tensor) {
  std::string text(elementTypeName(tensor.type));
  text += "[";
  for (int axis = 0; axis < std::min(tensor.rank, Tensor::maxRank); ++axis)
    text += (axis ? ", " : "") + std::to_string(tensor.extents[axis]);
  return text + "]";
}

} // namespace tesela
