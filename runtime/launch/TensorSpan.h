//===- TensorSpan.h - Checks that sizes fit 63 bits -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_TENSORSPAN_H
#define TESELA_LAUNCH_TENSORSPAN_H

#include "tesela/Status.h"
#include "tesela/Tensor.h"

namespace tesela {

/// Whether an extent is 0. Correct even where the product of the extents overflows.
bool hasNoElements(const Tensor &tensor);

/// Whether checkSpan() would succeed.
bool spanFits(const Tensor &tensor);

/// Kernels and host code count elements and bytes in int64_t. Code::invalidArgument: the number of
/// elements does not fit, or the distance in bytes between the first element and another one does
/// not: the sum over the axes of (extent - 1) * stride * element size. `is` begins the message: "q
/// is bf16[2, 8, 1024, 128]". Extents must not be negative; strides may be. Strides of extents of 1
/// are ignored.
Status checkSpan(const std::string &is, const Tensor &tensor);

} // namespace tesela

#endif // TESELA_LAUNCH_TENSORSPAN_H
