//===- ScheduleCandidates.h - Schedules that a tuner may try ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULECANDIDATES_H
#define TESELA_COMPILER_SCHEDULECANDIDATES_H

#include "frontend/Interpreter.h"
#include "tesela/compiler/Compile.h"

namespace tesela {

/// A kernel, a launch for which a schedule is sought, and the machine.
struct CandidateRequest {
  /// Every candidate keeps the fields that its schedule names.
  KernelSpecification specification;
  /// The extents, and a value for each parameter of the variant. Captured tensors in host memory.
  Bindings bindings;
  int processors = 0; ///< multiprocessors, or threads of the host; 0: from the chip's table
};

struct ScheduleCandidate {
  /// Every field, as overrides. As KernelSpecification::schedule it gives this schedule, whatever
  /// the heuristic of another version chooses.
  std::string schedule;
  /// The time of the launch by the cost model. Use it only to order candidates.
  double predictedMilliseconds = 0;
  bool isHeuristic = false; ///< the schedule that compile() would choose
};

/// The schedules that the target's verifier accepts, ordered by the cost model, the fastest first.
/// The heuristic's schedule is among them. Fails if compile() would fail before it makes code. May
/// be called from any thread.
Result<std::vector<ScheduleCandidate>> scheduleCandidates(const CandidateRequest &request);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULECANDIDATES_H
