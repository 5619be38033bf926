//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "launch/TensorSpan.h"

#include <algorithm>

namespace tesela {

bool hasNoElements(const Tensor &tensor) {
  return std::any_of(tensor.extents.begin(), tensor.extents.begin() + tensor.rank,
                     [](int64_t extent) { return extent == 0; });
}

static bool countFits(const Tensor &tensor) {
  int64_t count = 1;
  for (int axis = 0; axis < tensor.rank; ++axis)
    if (__builtin_mul_overflow(count, tensor.extents[axis], &count))
      return false;
  return true;
}

static bool distancesFit(const Tensor &tensor) {
  // Byte offsets of the furthest elements before and after the first one.
  int64_t lowest = 0, highest = 0;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.extents[axis] == 1)
      continue;
    int64_t bytes;
    if (__builtin_mul_overflow(tensor.strides[axis], int64_t(elementSize(tensor.type)), &bytes) ||
        __builtin_mul_overflow(bytes, tensor.extents[axis] - 1, &bytes))
      return false;
    int64_t &furthest = bytes < 0 ? lowest : highest;
    if (__builtin_add_overflow(furthest, bytes, &furthest))
      return false;
  }
  return true;
}

bool spanFits(const Tensor &tensor) {
  return hasNoElements(tensor) || (countFits(tensor) && distancesFit(tensor));
}

Status checkSpan(const std::string &is, const Tensor &tensor) {
  if (spanFits(tensor))
    return Status::success();
  if (!countFits(tensor))
    return Error(Code::invalidArgument,
                 is + ", its number of elements must be below 2^63: split the problem over several "
                      "launches");
  std::string strides;
  for (int axis = 0; axis < tensor.rank; ++axis)
    strides += (axis ? ", " : "") + std::to_string(tensor.strides[axis]);
  return Error(
      Code::invalidArgument,
      is + " with the strides [" + strides +
          "], its elements must lie less than 2^63 bytes apart: pass strides, in elements, "
          "that stay within the tensor's memory");
}

} // namespace tesela
