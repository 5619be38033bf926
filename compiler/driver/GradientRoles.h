//===- GradientRoles.h - Warpgroups for gradients ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_GRADIENTROLES_H
#define TESELA_COMPILER_DRIVER_GRADIENTROLES_H

#include "tesela/compiler/Compile.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace tesela {

/// `specification` with two consumers, where it asks for gradients on a chip with warpgroup
/// products and leaves the consumers open; else nothing. They were 1.0 to 1.7 times as fast as
/// mma.sync with heads of 64 and 128 (docs/performance.md).
std::optional<KernelSpecification> withRoles(const KernelSpecification &specification);

/// What `attempt` gives with roles. Where a template does not lower with them, or needs more shared
/// memory than the chip has, what it gives without. The kernel's schedule tells which it was.
template <typename T>
Result<T> withBestRoles(const KernelSpecification &specification,
                        llvm::function_ref<Result<T>(const KernelSpecification &)> attempt) {
  if (std::optional<KernelSpecification> changed = withRoles(specification)) {
    Result<T> result = attempt(*changed);
    if (result.ok() || (result.error().code() != Code::unsupported &&
                        result.error().code() != Code::invalidArgument))
      return result;
  }
  return attempt(specification);
}

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_GRADIENTROLES_H
