//===- BestAttempt.h - The first kernel that is not serialised --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_ASSEMBLE_BESTATTEMPT_H
#define TESELA_ASSEMBLE_BESTATTEMPT_H

#include "assemble/Ptxas.h"

#include "tesela/compiler/Compile.h"

#include <optional>

namespace tesela {

/// Compiles `specification` in several attempts. Returns the result of `finish` (which assembles,
/// and may load) for the first kernel that the assembler does not serialise; else the last
/// attempt's error.
template <typename T, typename Finish>
Result<T> bestAttempt(const KernelSpecification &specification, CompileTimes *times,
                      const RequestLimits &limits, Finish finish) {
  CompileAttempts attempts(specification);
  std::optional<Error> serialised;
  while (attempts.hasMore()) {
    Result<Artifact> artifact = attempts.next(times, limits);
    if (!artifact)
      return serialised.value_or(artifact.error());
    Result<T> result = finish(std::move(*artifact));
    if (result || serialisationWarning(result.error().message()).empty())
      return result;
    serialised = result.error();
  }
  return *serialised;
}

} // namespace tesela

#endif // TESELA_ASSEMBLE_BESTATTEMPT_H
