//===- ScheduleCandidates.h - What a tuner may try --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULECANDIDATES_H
#define TESELA_COMPILER_SCHEDULECANDIDATES_H

#include "frontend/Interpreter.h"
#include "tesela/compiler/Compile.h"

namespace tesela {

/// A kernel, a launch that its schedule should suit, and the machine.
struct CandidateRequest {
  /// Choices that its schedule names are kept in every candidate.
  KernelSpecification specification;
  /// The extents, and a value for each parameter of the variant, captured tensors in host memory.
  Bindings bindings;
  int processors = 0; ///< multiprocessors, or the host's threads; 0: what the chip's table says
};

struct ScheduleCandidate {
  /// Every choice, as overrides: KernelSpecification::schedule = this gives this schedule, whatever
  /// the heuristic of some version chooses.
  std::string schedule;
  /// The cost model's time of the launch. Good for an order, not for more.
  double predictedMilliseconds = 0;
  bool isHeuristic = false; ///< what compile() would choose
};

/// The schedules that the target's verifier accepts, the fastest by the cost model first; the
/// heuristic's is among them. Fails where compile() would fail before it makes code. From any
/// thread.
Result<std::vector<ScheduleCandidate>> scheduleCandidates(const CandidateRequest &request);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULECANDIDATES_H
