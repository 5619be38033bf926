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

/// The kernel of `specification`, from memory, from disk or compiled now. Asked for it at once from
/// several threads, it is made once; whose request is over by then gets Code::cancelled or
/// Code::deadlineExceeded, the others the kernel.
Result<Kernel> requestKernel(ContextState &context, const KernelSpecification &specification,
                             const RequestLimits &limits);

} // namespace tesela

#endif // TESELA_API_KERNELREQUEST_H
