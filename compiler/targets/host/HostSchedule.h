//===- HostSchedule.h - Block extents for the CPU ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_HOSTSCHEDULE_H
#define TESELA_COMPILER_TARGETS_HOST_HOSTSCHEDULE_H

#include "tesela/ElementType.h"

#include <cstdint>

namespace tesela {

struct HostBlocks {
  int64_t blockM; ///< queries of a work item
  int64_t blockN; ///< keys of one step
};

/// The default of #tile.schedule's block_m and block_n on the host, for inputs of
/// `type` and head dimensions `headDimQk`, `headDimV`. Multiples of 16.
/// Measured: docs/decisions/host-target.md.
HostBlocks hostBlocks(ElementType type, int64_t headDimQk, int64_t headDimV);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_HOSTSCHEDULE_H
