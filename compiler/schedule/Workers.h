//===- Workers.h - How many work items share keys ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// How many work items share the keys of a launch's sequences (templates/forward_in_parts.mlir), or
// the query heads of its key/value heads (templates/backward.mlir), is a compile-time constant,
// known before the schedule. The former decides which thread blocks suit a kernel, so both rules
// are in this file.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULE_WORKERS_H
#define TESELA_COMPILER_SCHEDULE_WORKERS_H

#include "schedule/Schedule.h"

namespace tesela {

/// The properties of a launch that the host knows.
struct SharedKeys {
  int64_t processors = 1; ///< the GPU's multiprocessors, the host's threads
  int64_t batch = 1;
  int64_t heads = 1;
  int64_t kvHeads = 1;
  int64_t queries = 1; ///< the most of any sequence
  int64_t keys = 0;    ///< the most of any sequence
};

/// The binding "workers" for launches of `specification`'s kernel. It must not have one yet.
int64_t workersFor(const KernelSpecification &specification, const SharedKeys &launch);

/// The most work items to which a kernel deals the query heads of key/value heads (`tile.work dealt
/// to`) if the caller does not bind it.
int64_t keyWorkersFor(const Target &target);

/// The same for kernels that add in turn (tile.order_additions).
int64_t keyWorkersInTurn(const Target &target);

/// If several sequences have equal lengths and long parts: how many neighbouring parts are joined.
int64_t sharesOfEqual(const KernelSpecification &specification);

/// How many warps of a thread block join the parts of a row.
int64_t joiningWarps(const Schedule &schedule, const KernelSpecification &specification);

/// Whether thread blocks of one warp suit the kernel.
bool suitsOneWarp(const KernelSpecification &specification, const VariantTraits &variant);

/// How many thread blocks a multiprocessor should run at once with `schedule`; 0: as many as fit.
int64_t residentsOf(const Schedule &schedule, const KernelSpecification &specification);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULE_WORKERS_H
