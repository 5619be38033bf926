//===- Workers.h - Among how many work items keys are shared ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// How many work items share the keys of a launch's sequences (templates/forward_in_parts.mlir) is
// compiled in, and known before there is a schedule; which thread blocks suit a kernel follows from
// it. So both rules stand here.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULE_WORKERS_H
#define TESELA_COMPILER_SCHEDULE_WORKERS_H

#include "schedule/Schedule.h"

namespace tesela {

/// What the host knows of a launch.
struct SharedKeys {
  int64_t processors = 1; ///< the GPU's multiprocessors, the host's threads
  int64_t batch = 1;
  int64_t heads = 1;
  int64_t kvHeads = 1;
  int64_t queries = 1; ///< of a sequence at most
  int64_t keys = 0;    ///< likewise
};

/// The binding "workers" for launches of `specification`'s kernel, which has none yet.
int64_t workersFor(const KernelSpecification &specification, const SharedKeys &launch);

/// If several sequences are equal and their shares long, so many neighbouring shares are joined.
int64_t sharesOfEqual(const KernelSpecification &specification);

/// How many warps join the parts of a row.
int64_t joiningWarps(const Schedule &schedule, const KernelSpecification &specification);

/// Whether a thread block of one warp suits the kernel.
bool suitsOneWarp(const KernelSpecification &specification, const VariantTraits &variant);

/// How many thread blocks with `schedule` a multiprocessor should run at once; 0: as many as fit.
int64_t residentsOf(const Schedule &schedule, const KernelSpecification &specification);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULE_WORKERS_H
