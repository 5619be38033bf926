//===- ChipSpeeds.h - How fast each GPU is ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_CHIPSPEEDS_H
#define TESELA_COMPILER_TARGETS_NVVM_CHIPSPEEDS_H

#include "tesela/Status.h"

#include <cstdint>

namespace tesela {

/// What a compute capability does per clock. It orders the schedules that are tried. Sources:
/// NVIDIA's architecture whitepapers (dense 16-bit products with f32 sums, of the product with the
/// most multiprocessors that is widely sold); CUDA C++ Programming Guide 13.0, "Arithmetic
/// Instructions" (f32 and special functions). The H200 was measured (docs/log).
struct ChipSpeeds {
  int sm;
  int multiprocessors;
  double gigahertz;
  double multiplyFlops;  ///< per clock and multiprocessor, by mma.sync
  double warpgroupFlops; ///< the same by wgmma; 0 if the chip has no wgmma
  double exponentials;   ///< per clock and multiprocessor
  double additions;      ///< f32 operations per clock and multiprocessor
  int64_t cacheBytes;    ///< bytes of the L2 cache
  double bytesPerSecond; ///< of device memory
};

/// The speeds of `sm`. The error lists the known chips.
Result<ChipSpeeds> chipSpeeds(int sm);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_NVVM_CHIPSPEEDS_H
