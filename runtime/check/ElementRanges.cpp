//===- ElementRanges.cpp --------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "check/ElementRanges.h"

#include "host/ThreadPool.h"

#include <algorithm>

namespace tesela {

void forRanges(const Tensor &tensor, const std::function<void(int64_t, int64_t)> &work) {
  // Starting a thread takes about 20 µs, and this many random numbers take a millisecond.
  constexpr int64_t elementsOfRange = int64_t(1) << 17;
  int64_t count = tensor.elementCount();
  bool areShared = false;
  for (int axis = 0; axis < tensor.rank; ++axis)
    areShared |= tensor.extents[axis] > 1 && tensor.strides[axis] == 0;
  if (count < 4 * elementsOfRange || areShared)
    return work(0, count);
  ThreadPool pool(0);
  // It cannot fail: there is no scratch, and `work` does not throw.
  (void)pool.run((count + elementsOfRange - 1) / elementsOfRange, 0, [&](int64_t item, void *) {
    work(item * elementsOfRange, std::min((item + 1) * elementsOfRange, count));
  });
}

} // namespace tesela
