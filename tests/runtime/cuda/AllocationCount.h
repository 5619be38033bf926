//===- AllocationCount.h - How often a thread asks for memory ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RUNTIME_CUDA_ALLOCATIONCOUNT_H
#define TESELA_TESTS_RUNTIME_CUDA_ALLOCATIONCOUNT_H

namespace tesela {

/// Calls of operator new by the calling thread so far. The program's operators are replaced by ones
/// that count.
long allocationsSoFar();

} // namespace tesela

#endif // TESELA_TESTS_RUNTIME_CUDA_ALLOCATIONCOUNT_H
