//===- Heuristics.h - What suits a kernel on a GPU --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULE_HEURISTICS_H
#define TESELA_COMPILER_SCHEDULE_HEURISTICS_H

#include "schedule/Schedule.h"
#include "targets/nvvm/ChipFacts.h"

namespace tesela {

/// Query heads of a block at most: a tensor copy brings the rows of a warpgroup, which has 64.
constexpr int64_t mostHeads = 64;

/// Values of tiles (pipe-count-registers) that a thread can hold beside everything else: without
/// roles, of 255 registers; of 1, 2 or 3 consumers, where no finder takes registers
/// (RoleRegisters.h deals 256, 232 or 160).
inline constexpr int64_t tileRegisters[] = {224, 224, 208, 128};

/// What a thread of a consumer of attention will hold of tiles: accumulators of S and O; and with
/// `overlap` the last block's P beside this block's S. An estimate before there is IR; PtxTest
/// holds it against what pipe-count-registers counts.
inline int64_t heldRegisters(int64_t blockN, const KernelSpecification &specification,
                             bool overlap) {
  int64_t columns = blockN + paddedValueDim(specification);
  if (hasWideHeads(specification)) // cut in two
    return columns / 4;
  return columns / 2 + (overlap ? blockN / 4 : 0);
}

/// Where the expected queries are few, the power of two that they do not exceed; else 0.
int64_t fewQueriesOf(const KernelSpecification &specification);

/// How many consumers suit the expected length: three reuse each key and value more, two waste less
/// of a short or a masked row of blocks; one has rows enough for few queries.
int64_t consumersFor(const KernelSpecification &specification, const VariantTraits &variant);

/// Attention by warpgroups with roles, with the consumers and the overlap of `wanted`.
Schedule roleHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                       const ChipFacts &chip, const Schedule &wanted);

/// Stages of the queries that the other choices of `schedule` leave room for.
int64_t queryStagesFor(Schedule schedule, const KernelSpecification &specification,
                       const VariantTraits &variant, const ChipFacts &chip);

/// Attention by mma.sync.
Schedule multiplyHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                           const ChipFacts &chip);

/// The kernels of a template that is not attention, with the consumers of `wanted`.
Schedule templateHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                           const Schedule &wanted);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULE_HEURISTICS_H
