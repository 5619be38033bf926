//===- ChipFacts.h - What is known of each GPU ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_CHIPFACTS_H
#define TESELA_COMPILER_TARGETS_NVVM_CHIPFACTS_H

#include "tesela/Status.h"

#include <cstdint>

namespace tesela {

/// A compute capability. Sources: CUDA C++ Programming Guide 13.0, "Technical Specifications per
/// Compute Capability"; PTX ISA 9.0, "Release Notes" for the PTX versions.
struct ChipFacts {
  int sm;
  int ptxVersion;      ///< the first that knows the chip, and bmsk (7.6): 78 is PTX 7.8
  int64_t blockShared; ///< bytes of shared memory that one thread block can have
  int64_t chipShared;  ///< bytes of shared memory of a multiprocessor
  /// The first PTX version that knows the chip's own instructions (sm_90a: wgmma, setmaxnreg); 0
  /// where Tesela uses none.
  int acceleratedPtx = 0;
  /// A launch can begin while the one before it ends (griddepcontrol, PTX ISA 9.7.13).
  bool overlapsLaunches() const { return sm >= 90; }
  /// Not a fact but a choice: code for sm_NNa, which runs on this very chip only.
  bool accelerated = false;
};

/// Bytes of a multiprocessor's shared memory that CUDA takes for itself with each thread block
/// (CUDA C++ Programming Guide, compute capabilities 8.x to 12.x).
constexpr int64_t reservedShared = 1024;

/// The facts of `sm` (80 for sm_80); a newer chip of a known generation has its elder's. The error
/// lists what is known.
Result<ChipFacts> chipFacts(int sm);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_NVVM_CHIPFACTS_H
