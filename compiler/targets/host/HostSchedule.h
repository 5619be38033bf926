//===- HostSchedule.h - How kernels run on the CPU -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_HOSTSCHEDULE_H
#define TESELA_COMPILER_TARGETS_HOST_HOSTSCHEDULE_H

#include "targets/host/VectorUnit.h"
#include "tesela/ElementType.h"

#include <cstdint>

namespace tesela {

/// The fields of #tile.schedule that are the host's.
struct HostChoices {
  int64_t blockM; ///< queries of a work item
  int64_t blockN; ///< keys of one step
  int64_t lanes, productRows, productVectors;
  bool productPairs;
};

/// The choices for inputs of `type` and head dimensions `headDimQk`, `headDimV` on a CPU with
/// `unit`. Extents are multiples of 16. Measured: docs/decisions/host-target.md.
HostChoices hostChoices(ElementType type, int64_t headDimQk, int64_t headDimV,
                        const VectorUnit &unit);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_HOSTSCHEDULE_H
