//===- CheckSchedule.h - Schedules that a target can run --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULE_CHECKSCHEDULE_H
#define TESELA_COMPILER_SCHEDULE_CHECKSCHEDULE_H

#include "schedule/Schedule.h"
#include "targets/host/VectorUnit.h"
#include "targets/nvvm/ChipFacts.h"

namespace tesela {

// Each error names the wrong field, its limit, and what to change.

/// The heads of a block must divide its rows. With dropout a block must have one head.
Status checkHeads(const Schedule &schedule, const KernelSpecification &specification);
Status checkCuda(const Schedule &schedule, const KernelSpecification &specification,
                 const ChipFacts &chip);
Status checkHost(const Schedule &schedule, ElementType input, const VectorUnit &unit);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULE_CHECKSCHEDULE_H
