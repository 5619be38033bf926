//===- BestAttempt.h - The first kernel that runs unserialised --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_ASSEMBLE_BESTATTEMPT_H
#define TESELA_ASSEMBLE_BESTATTEMPT_H

#include "assemble/Ptxas.h"

#include "tesela/compiler/Compile.h"

#include <optional>

namespace tesela {

/// What `finish` (it assembles, and may load) makes of the first kernel of `specification` that the
/// assembler does not serialise. Where there is none, the last one's error.
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
