//===- KernelRequest.h - From a specification to a kernel -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_API_KERNELREQUEST_H
#define TESELA_API_KERNELREQUEST_H

#include "tesela/Kernel.h"
#include "tesela/RequestLimits.h"
#include "tesela/compiler/Compile.h"

namespace tesela {

struct ContextState;

/// The kernel of `specification`: from memory, from disk or compiled now. If several threads
/// request it at once, it is made once. A request whose limits end first gets Code::cancelled or
/// Code::deadlineExceeded.
Result<Kernel> requestKernel(ContextState &context, const KernelSpecification &specification,
                             const RequestLimits &limits);

} // namespace tesela

#endif // TESELA_API_KERNELREQUEST_H
