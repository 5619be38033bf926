//===- Candidates.h - The schedules that a tuner may try --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULE_CANDIDATES_H
#define TESELA_COMPILER_SCHEDULE_CANDIDATES_H

#include "schedule/Schedule.h"

namespace tesela {

/// The legal schedules near the heuristic's choice: all extents of blocks in the target's table,
/// each with the heuristic's other choices for such blocks, and with each of these changed, one at
/// a time. The heuristic's own schedule comes first. No schedule occurs twice. All keep the fields
/// that `specification.schedule` names. `sharing`: query heads of a key/value head.
Result<std::vector<Schedule>> legalSchedules(const KernelSpecification &specification,
                                             const VariantTraits &variant, int64_t sharing);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULE_CANDIDATES_H
