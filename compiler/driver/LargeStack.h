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

/// Calls `work` once, on a thread with a stack of 64 MiB of which only the used pages are taken,
/// and waits. What it throws passes on. Where the system gives no such thread, in this one.
void runOnLargeStack(llvm::function_ref<void()> work);

/// What `work` gives there. Passes of ours, of MLIR and of LLVM recurse along chains of operations,
/// and a variant's may be thousands long; the stack of a caller's thread may be small (128 KiB with
/// musl, 1 MiB in Java's).
template <typename Work> auto onLargeStack(Work work) -> decltype(work()) {
  std::optional<decltype(work())> result;
  runOnLargeStack([&] { result.emplace(work()); });
  return std::move(*result);
}

} // namespace tesela

#endif // TESELA_DRIVER_LARGESTACK_H
