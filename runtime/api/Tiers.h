//===- Tiers.h - A simple kernel first, then the best -----------*- C++ -*-===//
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

/// Requests for a context's kernels that may start with a simple schedule.
class Tiers {
public:
  /// `context` owns this object.
  explicit Tiers(ContextState &context) : context(context) {}

  /// The kernel of ContextTuning::request(), if it need not be compiled or has no simple schedule
  /// (simpleSchedule()). Otherwise the simple kernel, as soon as it is ready; the best one is then
  /// made in the background, and later launches run it.
  Result<Kernel> request(const KernelSpecification &specification,
                         const std::optional<ProblemSizes> &sizes, const RequestLimits &limits);

private:
  ContextState &context;
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<Replacement>> replacements; ///< by the request

  std::shared_ptr<Replacement> replacementFor(const KernelSpecification &specification,
                                              const std::optional<ProblemSizes> &sizes);
};

} // namespace tesela

#endif // TESELA_API_TIERS_H
