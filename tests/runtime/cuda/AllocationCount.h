//===- AllocationCount.h - Counts allocations of a thread -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RUNTIME_CUDA_ALLOCATIONCOUNT_H
#define TESELA_TESTS_RUNTIME_CUDA_ALLOCATIONCOUNT_H

namespace tesela {

/// How often the calling thread has called operator new. The program's operators are replaced by
/// counting ones.
long allocationsSoFar();

} // namespace tesela

#endif // TESELA_TESTS_RUNTIME_CUDA_ALLOCATIONCOUNT_H
