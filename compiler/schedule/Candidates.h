//===- Candidates.h - The schedules that a tuner may try --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULE_CANDIDATES_H
#define TESELA_COMPILER_SCHEDULE_CANDIDATES_H

#include "schedule/Schedule.h"

namespace tesela {

/// The legal schedules around the heuristic's: all extents of blocks in the target's table, each
/// with the choices that the heuristic makes beside such blocks and with any one of these changed.
/// The heuristic's own comes first; none is there twice. What `specification.schedule` names is the
/// same in all. `sharing`: query heads of a key/value head.
Result<std::vector<Schedule>> legalSchedules(const KernelSpecification &specification,
                                             const VariantTraits &variant, int64_t sharing);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULE_CANDIDATES_H
