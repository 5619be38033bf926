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
  // If no length is expected, a launch may be short. Large blocks cost a short launch more than
  // they gain in a long one.
  bool isLong = specification.expectedLength >= 4096 &&
                (specification.expectedQueries == 0 || specification.expectedQueries > 2048);
  HostChoices choices = hostChoices(specification.inputType, fewQueriesOf(specification),
                                    isLong && !variant.isScattered, unit);
  Schedule schedule;
  schedule.blockM = choices.blockM;
  schedule.blockN = choices.blockN;
  schedule.heads = specification.isAttention() && !specification.dropout ? choices.heads : 1;
  schedule.vectorLength = choices.vectorLength;
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
  // The other choices depend on the number of consumers and on the overlap, so overrides of these
  // are applied first.
  Schedule wanted;
  wanted.queryStages = 0;
  bool hasRoles = chip->acceleratedPtx != 0 && specification.isAttention();
  wanted.consumers = hasRoles ? consumersFor(specification, variant) : 0;
  // No overlap with the rounds of a reduction: there are no registers for the last block's P beside
  // this block's S (AssemblyTest).
  // No overlap for parts of found blocks: overlap runs the first iteration of an empty loop, and an
  // empty part has no block that its mask drops. With one consumer, two thread blocks of a
  // multiprocessor overlap instead. With a shared prefix, blocks may be found even if the variant's
  // own mask has closed ranges.
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
      specification.isAttention()) // not overridden: as many as fit beside the other choices
    schedule.queryStages = queryStagesFor(schedule, specification, variant, *chip);
  if (Status status = checkCuda(schedule, specification, *chip); !status)
    return status.error();
  if (Status status = checkHeads(schedule, specification); !status)
    return status.error();
  return schedule;
}

} // namespace tesela
