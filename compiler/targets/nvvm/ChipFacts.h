//===- ChipFacts.h - Facts about each GPU -----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_CHIPFACTS_H
#define TESELA_COMPILER_TARGETS_NVVM_CHIPFACTS_H

#include "tesela/Status.h"

#include <cstdint>

namespace tesela {

/// Facts about a compute capability. Sources: CUDA C++ Programming Guide 13.0, "Technical
/// Specifications per Compute Capability"; PTX ISA 9.0, "Release Notes" for the PTX versions.
struct ChipFacts {
  int sm;
  int ptxVersion;      ///< 78 is PTX 7.8: the first that has the chip and bmsk (7.6)
  int64_t blockShared; ///< most bytes of shared memory for one thread block
  int64_t chipShared;  ///< bytes of shared memory of a multiprocessor
  /// The first PTX version that has the chip's own instructions (sm_90a: wgmma, setmaxnreg); 0 if
  /// Tesela uses none of them.
  int acceleratedPtx = 0;
  /// Whether a launch can begin while the one before it ends (griddepcontrol, PTX ISA 9.7.13).
  bool overlapsLaunches() const { return sm >= 90; }
  /// Not a fact but a choice: compile for sm_NNa, which runs on this chip only.
  bool accelerated = false;
};

/// Bytes of a multiprocessor's shared memory that CUDA takes for itself with each thread block
/// (CUDA C++ Programming Guide, compute capabilities 8.x to 12.x).
constexpr int64_t reservedShared = 1024;

/// The facts of `sm` (80 for sm_80). A chip that is not in the table is an error
/// (Code::unsupported), which lists the known chips.
Result<ChipFacts> chipFacts(int sm);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_NVVM_CHIPFACTS_H
