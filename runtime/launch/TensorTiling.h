//===- TensorTiling.h - A launch's tensors for tensor copies ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_TENSORTILING_H
#define TESELA_LAUNCH_TENSORTILING_H

#include "backend/TensorMap.h"
#include "launch/CheckedArguments.h"

namespace tesela {

/// How tensor `index` of `arguments`, [batch, head, position, D] with the name `name`, is copied in
/// boxes of `boxRows` positions and `boxHeads` heads. An axis with stride 0 gets the extent 1 (see
/// coordinateStep). A tensor without elements becomes one row of zeros at `addressOfZeros`.
/// Allocates nothing. Code::unsupported: positions, or heads of a box, share one place in memory,
/// or a stride has 2^40 bytes or more.
Result<TensorTiling> tensorTiling(const CheckedArguments &arguments, int index,
                                  std::string_view name, int boxRows, int boxHeads,
                                  uint64_t addressOfZeros);

/// The factor between an index of `axis` (0 = batch, 1 = head) of `tensor` and its coordinate in
/// the tensor map: 0 if the stride is 0, else 1.
int32_t coordinateStep(const Tensor &tensor, int axis);

} // namespace tesela

#endif // TESELA_LAUNCH_TENSORTILING_H
