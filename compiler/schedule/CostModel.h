//===- CostModel.h - In which order schedules are tried ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A formula for the time of a launch, from the machine's table and from what the schedule makes of
// the launch: docs/decisions/tuning.md. It tells which of two schedules is worth trying first and
// leaves the choice to measurements.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULE_COSTMODEL_H
#define TESELA_COMPILER_SCHEDULE_COSTMODEL_H

#include "schedule/Schedule.h"
#include "targets/nvvm/ChipFacts.h"
#include "targets/nvvm/ChipSpeeds.h"

#include <vector>

namespace tesela {

/// The tiles of a row of blocks that a kernel computes.
struct RowTiles {
  int64_t full = 0, partial = 0;
};

/// A kernel's launch, apart from its schedule.
struct CostedLaunch {
  int64_t headDimQk = 0, headDimV = 0;
  int64_t elementBytes = 2;
  bool isMasked = false;
  /// Of the score, for each pair: operations in f32, and exponentials, tanh and the like.
  double scoreOperations = 0, scoreExponentials = 0;
  Extents extents;
};

struct GpuMachine {
  ChipFacts facts;
  ChipSpeeds speeds;
  int64_t blockSharedBytes = 0; ///< that the kernel takes with this schedule
};

/// Work items of a launch: a row of blocks for each batch, key/value head and group of heads.
int64_t workItemsOf(const Schedule &schedule, const Extents &extents);
/// Positions of queries in a row of blocks.
int64_t rowPositions(const Schedule &schedule);

// Milliseconds of a launch. `rows`: rows of blocks of a head, evenly spaced over all; each stands
// for the same number of work items.
double predictedMilliseconds(const Schedule &schedule, const CostedLaunch &launch,
                             const std::vector<RowTiles> &rows, const GpuMachine &machine);
double predictedMilliseconds(const Schedule &schedule, const CostedLaunch &launch,
                             const std::vector<RowTiles> &rows, int threads);

/// When `items` that take the times `times` in turn, each as often as the others, are all done on
/// `workers` that take the longest first.
double makespan(std::vector<double> times, int64_t items, int64_t workers);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULE_COSTMODEL_H
