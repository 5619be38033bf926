//===- Heuristics.h - Schedules that suit a kernel on a GPU -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULE_HEURISTICS_H
#define TESELA_COMPILER_SCHEDULE_HEURISTICS_H

#include "schedule/Schedule.h"
#include "targets/nvvm/ChipFacts.h"

namespace tesela {

/// The largest number of query heads in a block: a tensor copy brings a warpgroup's 64 rows.
constexpr int64_t mostHeads = 64;

/// Values of tiles (pipe-count-registers) that a thread can hold beside everything else: without
/// roles (255 registers), and with 1, 2 or 3 consumers if no finder needs registers
/// (RoleRegisters.h gives each thread 256, 232 or 160).
inline constexpr int64_t tileRegisters[] = {224, 224, 208, 128};

/// How many values of tiles a thread of an attention consumer will hold: accumulators of S and O;
/// with `overlap` also the last block's P beside this block's S. It is an estimate before there is
/// IR. PtxTest compares it with the count of pipe-count-registers.
inline int64_t heldRegisters(int64_t blockN, const KernelSpecification &specification,
                             bool overlap) {
  int64_t columns = blockN + paddedValueDim(specification);
  if (hasWideHeads(specification)) // two warpgroups share the columns
    return columns / 4;
  return columns / 2 + (overlap ? blockN / 4 : 0);
}

/// The columns of a panel of queries, and how many registers of a thread hold it: the 128 threads
/// of a warpgroup share its 64 rows, and a register has two elements of 16 bits.
inline constexpr int64_t columnsOfPanel = 64, registersOfPanel = 16;

/// The most panels of queries that a consumer of wide heads can keep in registers.
int64_t mostQueryPanels(int64_t blockN, const KernelSpecification &specification);

/// If the expected queries are few: their number, rounded up to a power of two. Otherwise 0.
int64_t fewQueriesOf(const KernelSpecification &specification);

/// How many consumers suit the expected length. Three reuse each key and value more often. Two
/// waste less of a short or a masked row of blocks. One has enough rows for few queries.
int64_t consumersFor(const KernelSpecification &specification, const VariantTraits &variant);

/// A schedule for attention by warpgroups with roles, with the consumers and overlap of `wanted`.
Schedule roleHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                       const ChipFacts &chip, const Schedule &wanted);

/// How many stages of queries fit beside the other choices of `schedule`.
int64_t queryStagesFor(Schedule schedule, const KernelSpecification &specification,
                       const VariantTraits &variant, const ChipFacts &chip);

/// A schedule for attention with mma.sync.
Schedule multiplyHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                           const ChipFacts &chip);

/// A schedule for the kernels of a template that is not attention, with the consumers of `wanted`.
Schedule templateHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                           const Schedule &wanted);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULE_HEURISTICS_H
