//===- Tiers.h - A simple kernel first, the best one behind it --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_API_TIERS_H
#define TESELA_API_TIERS_H

#include "api/Replacement.h"
#include "tesela/RequestLimits.h"
#include "tesela/compiler/Compile.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace tesela {

struct ContextState;

/// Requests for kernels of a context that may begin with a simple schedule.
class Tiers {
public:
  /// `context` holds this.
  explicit Tiers(ContextState &context) : context(context) {}

  /// What ContextTuning::request gives, where that need not be compiled, or has no simple schedule
  /// (simpleSchedule()). Else the kernel of that schedule, as soon as it is there; the other one is
  /// then made in the background, and launches of this one run it from then on.
  Result<Kernel> request(const KernelSpecification &specification,
                         const std::optional<ProblemSizes> &sizes, const RequestLimits &limits);

private:
  ContextState &context;
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<Replacement>> replacements; ///< by what was asked

  std::shared_ptr<Replacement> replacementFor(const KernelSpecification &specification,
                                              const std::optional<ProblemSizes> &sizes);
};

} // namespace tesela

#endif // TESELA_API_TIERS_H
