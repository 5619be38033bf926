//===- Tuner.h - A race of one kernel's schedules ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_TUNER_H
#define TESELA_TUNE_TUNER_H

#include "events/EventSink.h"
#include "tesela/Tune.h"
#include "tune/TuneRecord.h"

namespace tesela {

/// What a race came to, and the record of it.
struct TunedKernel {
  TuneReport report;
  TuneRecord record;
};

/// Races the schedules of `options` for launches of `shape` on the device of `context`, in a
/// context of its own, so that neither its kernels nor its launches get in the way of the caller's.
/// Keeps nothing. Tells `events` of each trial. `threads`: of the host target.
Result<TunedKernel> raceSchedules(const Device &device, int threads, const EventSink &events,
                                  const KernelOptions &options, const TuneShape &shape,
                                  const TuneOptions &tuning);

} // namespace tesela

#endif // TESELA_TUNE_TUNER_H
