//===- Schedule.cpp - Choosing how a kernel runs ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Schedule.h"

#include "schedule/CheckSchedule.h"
#include "schedule/Heuristics.h"
#include "targets/host/HostSchedule.h"

namespace tesela {

static Result<Schedule> chooseHostSchedule(const KernelSpecification &specification,
                                           const VariantTraits &variant) {
  VectorUnit unit = hostVectorUnit();
  // Where nothing is expected a launch may be a short one, to which large blocks do more harm than
  // they are worth to a long one.
  bool isLong = specification.expectedLength >= 4096 &&
                (specification.expectedQueries == 0 || specification.expectedQueries > 2048);
  HostChoices choices = hostChoices(specification.inputType, fewQueriesOf(specification),
                                    isLong && !variant.isScattered, unit);
  Schedule schedule;
  schedule.blockM = choices.blockM;
  schedule.blockN = choices.blockN;
  schedule.heads = specification.isAttention() && !specification.dropout ? choices.heads : 1;
  schedule.lanes = choices.lanes;
  schedule.productRows = choices.productRows;
  schedule.productVectors = choices.productVectors;
  schedule.productPairs = choices.productPairs;
  if (Status status = overrideSchedule(schedule, specification.schedule); !status)
    return status.error();
  if (Status status = checkHost(schedule, specification.inputType, unit); !status)
    return status.error();
  if (Status status = checkHeads(schedule, specification); !status)
    return status.error();
  return schedule;
}

Result<Schedule> chooseSchedule(const KernelSpecification &specification,
                                const VariantTraits &variant) {
  if (specification.target.kind == Target::Kind::host)
    return chooseHostSchedule(specification, variant);
  Result<ChipFacts> chip = chipFacts(specification.target.sm);
  if (!chip)
    return chip.error();
  // The number of consumers and the overlap decide what suits the rest, so their overrides come
  // first.
  Schedule wanted;
  wanted.queryStages = 0;
  bool hasRoles = chip->acceleratedPtx != 0 && specification.isAttention();
  wanted.consumers = hasRoles ? consumersFor(specification, variant) : 0;
  // The rounds of a reduction have no registers for the last block's P beside this block's S
  // (AssemblyTest).
  // A share of blocks that were found may be empty, and knows no block that its mask drops. With
  // one consumer two thread blocks a multiprocessor overlap instead.
  // Of a shared prefix blocks may be found where the variant's own have closed ranges.
  bool isShared = specification.isInParts() &&
                  (variant.isTested || wanted.consumers == 1 || specification.sharesPrefix());
  wanted.overlap = !variant.hasReductions && !isShared && !specification.hasNarrowKeys() &&
                   !hasWideHeads(specification) && !hasValuesOfKeys(specification);
  if (Status status = overrideSchedule(wanted, specification.schedule); !status)
    return status.error();
  Schedule schedule = !specification.isAttention()
                          ? templateHeuristic(specification, variant, wanted)
                      : wanted.consumers > 0 ? roleHeuristic(specification, variant, *chip, wanted)
                                             : multiplyHeuristic(specification, variant, *chip);
  if (Status status = overrideSchedule(schedule, specification.schedule); !status)
    return status.error();
  if (wanted.queryStages == 0 &&
      specification.isAttention()) // not overridden: what the other choices leave room for
    schedule.queryStages = queryStagesFor(schedule, specification, variant, *chip);
  if (Status status = checkCuda(schedule, specification, *chip); !status)
    return status.error();
  if (Status status = checkHeads(schedule, specification); !status)
    return status.error();
  return schedule;
}

} // namespace tesela
