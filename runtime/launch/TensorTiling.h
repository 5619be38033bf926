//===- TensorTiling.h - A launch's tensors for tensor copies ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_TENSORTILING_H
#define TESELA_LAUNCH_TENSORTILING_H

#include "backend/TensorMap.h"
#include "launch/CheckedArguments.h"

namespace tesela {

/// How tensor `index` of `arguments`, [batch, head, position, D] and called `name`, is copied in
/// boxes of `boxRows` positions of `boxHeads` heads. An axis of stride 0 has the extent 1: see
/// coordinateStep. A tensor without elements is one row of zeros, which lies at `addressOfZeros`.
/// Does not allocate. Code::unsupported: positions, or the heads of a box, that share one place, or
/// a stride of 2^40 bytes or more.
Result<TensorTiling> tensorTiling(const CheckedArguments &arguments, int index,
                                  std::string_view name, int boxRows, int boxHeads,
                                  uint64_t addressOfZeros);

/// What an index of `axis` (0 = batch, 1 = head) of `tensor` is multiplied by to be a
/// coordinate in its tensor map: 0 where the stride is 0, else 1.
int32_t coordinateStep(const Tensor &tensor, int axis);

} // namespace tesela

#endif // TESELA_LAUNCH_TENSORTILING_H
