//===- LargeStack.h - Room for recursion along an expression ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DRIVER_LARGESTACK_H
#define TESELA_DRIVER_LARGESTACK_H

#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>
#include <utility>

namespace tesela {

/// Calls `work` once, on a thread with a stack of 64 MiB (only used pages take memory), and waits.
/// An exception is passed on. If the system cannot create such a thread, calls it on this thread.
void runOnLargeStack(llvm::function_ref<void()> work);

/// Returns the result of `work`, run by runOnLargeStack. Passes of Tesela, MLIR and LLVM recurse
/// along chains of operations, and those of a variant may have thousands of links. The stack of the
/// caller's thread may be small (128 KiB with musl, 1 MiB in Java).
template <typename Work> auto onLargeStack(Work work) -> decltype(work()) {
  std::optional<decltype(work())> result;
  runOnLargeStack([&] { result.emplace(work()); });
  return std::move(*result);
}

} // namespace tesela

#endif // TESELA_DRIVER_LARGESTACK_H
