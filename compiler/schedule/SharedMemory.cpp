//===- SharedMemory.cpp - Shared memory of a forward kernel -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Schedule.h"

#include <algorithm>

namespace tesela {

/// The columns that a head of `headDim` 16-bit elements takes in a buffer: rows are padded to 128
/// bytes (`!pipe.buffer`).
static int64_t bufferColumns(int64_t headDim) { return (headDim + 63) / 64 * 64; }

/// The same for 8-bit elements.
static int64_t narrowColumns(int64_t headDim) { return (headDim + 127) / 128 * 128; }

/// Bytes of keys and values: the stages into which they are copied, and their widened form.
static int64_t keyBytes(const Schedule &schedule, const KernelSpecification &specification) {
  int64_t qk = specification.headDimQk, v = specification.headDimV;
  bool isOneTensor = hasValuesOfKeys(specification);
  int64_t wide = schedule.blockN * (bufferColumns(qk) + (isOneTensor ? 0 : bufferColumns(v))) *
                 elementSize(specification.inputType);
  if (!specification.hasNarrowKeys())
    return schedule.stages * wide;
  // A single warp widens keys in its registers.
  if (schedule.consumers == 0 && schedule.warps == 1)
    wide = 0;
  return schedule.stages * schedule.blockN * (narrowColumns(qk) + narrowColumns(v)) + wide;
}

/// Bytes of barriers, and of the data with which blocks are found.
static int64_t controlBytes(const Schedule &schedule) {
  int64_t barriers = schedule.consumers > 0
                         ? 16 * (schedule.consumers * schedule.queryStages + 2 * schedule.stages)
                         : 0;
  if (schedule.persistent)
    barriers += 2 * (16 + 16) + 16; // the channel of work items, and the number of the last item
  // If blocks are found one by one: the channels that name them, the numbers that come with their
  // keys (pipe-split-roles), and the memory of each warp that finds blocks (BlockFinder.h).
  bool hasRoles = schedule.consumers > 0;
  int64_t finding = hasRoles ? (16 + 16) * (2 + 32) + 16 * schedule.stages : 0;
  finding += (hasRoles ? 1 : schedule.warps) * 272;
  return barriers + finding;
}

int64_t sharedBytes(const Schedule &schedule, const KernelSpecification &specification) {
  int64_t size = elementSize(specification.inputType);
  // The output uses the queries' buffer if it fits. With roles and unequal widths it has its own.
  // The output of wide heads is stored directly from registers. P lies in shared memory, and rows
  // of it are joined there.
  if (hasWideHeads(specification))
    return size * schedule.blockM *
               (bufferColumns(specification.headDimQk) + bufferColumns(schedule.blockN)) +
           keyBytes(schedule, specification) + 2 * 4 * schedule.blockM + controlBytes(schedule);
  bool beside = schedule.consumers > 0 &&
                (schedule.outputBuffer || specification.headDimQk != specification.headDimV);
  int64_t columnsQk = bufferColumns(specification.headDimQk),
          columnsV = bufferColumns(specification.headDimV);
  int64_t query = schedule.blockM * (beside ? schedule.queryStages * columnsQk + columnsV
                                            : std::max(columnsQk, columnsV));
  return size * query + keyBytes(schedule, specification) + controlBytes(schedule);
}

} // namespace tesela
