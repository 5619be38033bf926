//===- Tuner.h - Races the schedules of one kernel --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_TUNER_H
#define TESELA_TUNE_TUNER_H

#include "events/EventSink.h"
#include "tesela/Tune.h"
#include "tune/TuneRecord.h"

namespace tesela {

/// The result of a race, and its record.
struct TunedKernel {
  TuneReport report;
  TuneRecord record;
};

/// Races the schedules of `options` for launches of `shape` on `device`, in a separate context, so
/// that the caller's kernels and launches are not disturbed. Stores nothing. Reports each trial to
/// `events`. `threads`: of the host target.
Result<TunedKernel> raceSchedules(const Device &device, int threads, const EventSink &events,
                                  const KernelOptions &options, const TuneShape &shape,
                                  const TuneOptions &tuning);

} // namespace tesela

#endif // TESELA_TUNE_TUNER_H
