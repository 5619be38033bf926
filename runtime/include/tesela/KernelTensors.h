//===- KernelTensors.h - The tensors of a kernel ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_KERNELTENSORS_H
#define TESELA_KERNELTENSORS_H

#include "tesela/Kernel.h"

#include <string_view>

namespace tesela {

/// The element type of the tensor `name` in launches of `kernel`, for example of "d_bias".
/// Code::invalidArgument: the kernel has no such tensor.
TESELA_EXPORT Result<ElementType> tensorType(const Kernel &kernel, std::string_view name);

} // namespace tesela

#endif // TESELA_KERNELTENSORS_H
