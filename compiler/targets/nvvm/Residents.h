//===- Residents.h - Thread blocks of a multiprocessor ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_RESIDENTS_H
#define TESELA_COMPILER_TARGETS_NVVM_RESIDENTS_H

#include "llvm/ADT/StringRef.h"

namespace tesela {

/// A number of a kernel: as many bytes of shared memory its thread blocks take at least
/// (pipe-place-buffers). Where a launch has as many of them as all multiprocessors run at once, a
/// multiprocessor that took more than its part would leave another one idle.
inline constexpr llvm::StringLiteral leastSharedAttr = "pipe.least_shared_bytes";

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_NVVM_RESIDENTS_H
