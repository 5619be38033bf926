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

/// The fields of #tile.schedule that the host uses.
struct HostChoices {
  int64_t blockM; ///< rows of a work item
  int64_t blockN; ///< keys of one step
  int64_t heads;  ///< query heads that share the rows
  int64_t vectorLength, productRows, productVectors;
  bool productPairs;
};

/// The choices for inputs of `type` on a CPU with `unit`, the same for all head dimensions
/// (measured: docs/decisions/host-target.md). `fewQueries` is a power of two that the number of
/// queries is not expected to exceed; 0 if there are many queries. `areBlocksLarge`: queries and
/// keys are expected to be many, and each row's keys to form one run.
HostChoices hostChoices(ElementType type, int64_t fewQueries, bool areBlocksLarge,
                        const VectorUnit &unit);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_HOSTSCHEDULE_H
