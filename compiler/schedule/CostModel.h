//===- CostModel.h - The order in which schedules are tried -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A formula for the time of a launch. It uses the machine's table and the tiles that the schedule
// gives the launch: docs/decisions/tuning.md. It says which of two schedules should be tried first;
// measurements decide.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULE_COSTMODEL_H
#define TESELA_COMPILER_SCHEDULE_COSTMODEL_H

#include "schedule/Schedule.h"
#include "targets/nvvm/ChipFacts.h"
#include "targets/nvvm/ChipSpeeds.h"

#include <vector>

namespace tesela {

/// The number of tiles that a kernel computes for a row of blocks.
struct RowTiles {
  int64_t full = 0, partial = 0;
};

/// A kernel's launch, without its schedule.
struct CostedLaunch {
  int64_t headDimQk = 0, headDimV = 0;
  int64_t elementBytes = 2;
  bool isMasked = false;
  /// Operations of the score for each pair: in f32, and exponentials, tanh and the like.
  double scoreOperations = 0, scoreExponentials = 0;
  Extents extents;
};

struct GpuMachine {
  ChipFacts facts;
  ChipSpeeds speeds;
  int64_t blockSharedBytes = 0; ///< of the kernel with this schedule
};

/// The work items of a launch: a row of blocks for each batch, key/value head and group of heads.
int64_t workItemsOf(const Schedule &schedule, const Extents &extents);
/// The query positions in a row of blocks.
int64_t rowPositions(const Schedule &schedule);

// The predicted milliseconds of a launch. `rows`: some rows of blocks of a head, evenly spaced.
// Each stands for the same number of work items.
double predictedMilliseconds(const Schedule &schedule, const CostedLaunch &launch,
                             const std::vector<RowTiles> &rows, const GpuMachine &machine);
double predictedMilliseconds(const Schedule &schedule, const CostedLaunch &launch,
                             const std::vector<RowTiles> &rows, int threads);

/// The time at which all `items` are done on `workers`. The items take the times in `times` equally
/// often, and workers take the longest items first.
double makespan(std::vector<double> times, int64_t items, int64_t workers);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULE_COSTMODEL_H
