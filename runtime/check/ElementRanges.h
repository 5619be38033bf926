//===- ElementRanges.h - Visits many elements on all cores ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CHECK_ELEMENTRANGES_H
#define TESELA_CHECK_ELEMENTRANGES_H

#include "tesela/Tensor.h"

#include <cstdint>
#include <functional>

namespace tesela {

/// Calls work(first, end) for ranges that together contain each logical (row-major) element once.
/// Uses all cores if there are many elements, but works in order if elements may share memory.
/// `work` must not throw.
void forRanges(const Tensor &tensor, const std::function<void(int64_t first, int64_t end)> &work);

/// Calls visit(index, offset) for the logical elements from `first` to before `end`, in order. The
/// offset counts elements of memory.
template <typename Visit>
void forElements(const Tensor &tensor, int64_t first, int64_t end, Visit visit) {
  int64_t length = tensor.rank > 0 ? tensor.extents[tensor.rank - 1] : 1;
  int64_t stride = tensor.rank > 0 ? tensor.strides[tensor.rank - 1] : 0;
  for (int64_t index = first; index < end;) {
    int64_t row = index / length, place = index % length, offset = place * stride;
    for (int axis = tensor.rank - 2; axis >= 0; --axis) {
      offset += row % tensor.extents[axis] * tensor.strides[axis];
      row /= tensor.extents[axis];
    }
    for (; place < length && index < end; ++place, ++index, offset += stride)
      visit(index, offset);
  }
}

} // namespace tesela

#endif // TESELA_CHECK_ELEMENTRANGES_H
