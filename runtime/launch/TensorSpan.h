//===- TensorSpan.h - Do a tensor's sizes fit 63 bits? ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_TENSORSPAN_H
#define TESELA_LAUNCH_TENSORSPAN_H

#include "tesela/Status.h"
#include "tesela/Tensor.h"

namespace tesela {

/// An extent is 0. Unlike elementCount() == 0 it is also right where the product wraps.
bool hasNoElements(const Tensor &tensor);

/// Whether checkSpan() succeeds.
bool spanFits(const Tensor &tensor);

/// Kernels and host code count elements and bytes in int64_t. Code::invalidArgument where the
/// number of elements leaves it, or the distance in bytes between the first element and another:
/// the sum over the axes of (extent - 1) * stride * element size. `is` begins the sentence:
/// "q is bf16[2, 8, 1024, 128]". No extent is negative; strides may be, those of extents of 1
/// are ignored.
Status checkSpan(const std::string &is, const Tensor &tensor);

} // namespace tesela

#endif // TESELA_LAUNCH_TENSORSPAN_H
