//===- ChipSpeeds.h - How fast each GPU is ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_CHIPSPEEDS_H
#define TESELA_COMPILER_TARGETS_NVVM_CHIPSPEEDS_H

#include "tesela/Status.h"

#include <cstdint>

namespace tesela {

/// What a compute capability does in a clock, for the order in which schedules are tried. Sources:
/// NVIDIA's architecture whitepapers (dense 16-bit products with f32 sums, the product with the
/// most multiprocessors that is sold in number); CUDA C++ Programming Guide 13.0, "Arithmetic
/// Instructions" (f32 and special functions); the H200's as measured (docs/performance.md).
struct ChipSpeeds {
  int sm;
  int multiprocessors;
  double gigahertz;
  double multiplyFlops;  ///< a clock and multiprocessor, by mma.sync
  double warpgroupFlops; ///< likewise, by wgmma; 0 where there is none
  double exponentials;   ///< a clock and multiprocessor
  double additions;      ///< f32 operations a clock and multiprocessor
  int64_t cacheBytes;    ///< of the second level
  double bytesPerSecond; ///< of the memory
};

/// The speeds of `sm`; the error lists what is known.
Result<ChipSpeeds> chipSpeeds(int sm);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_NVVM_CHIPSPEEDS_H
