//===- Residents.h - Thread blocks per multiprocessor -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_RESIDENTS_H
#define TESELA_COMPILER_TARGETS_NVVM_RESIDENTS_H

#include "llvm/ADT/StringRef.h"

namespace tesela {

/// A kernel's attribute: the least bytes of shared memory that each of its thread blocks takes
/// (pipe-place-buffers). If a launch has just as many thread blocks as all multiprocessors can run
/// at once, a multiprocessor that took more than its part would leave another one idle.
inline constexpr llvm::StringLiteral leastSharedAttr = "pipe.least_shared_bytes";

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_NVVM_RESIDENTS_H
