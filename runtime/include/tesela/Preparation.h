//===- Preparation.h - A kernel that is being made --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_PREPARATION_H
#define TESELA_PREPARATION_H

#include "tesela/Export.h"
#include "tesela/Kernel.h"

#include <chrono>
#include <memory>
#include <optional>

namespace tesela {

/// What Context::prepare gives: a kernel that is made on threads of the context. A cheap handle,
/// copied freely; all members may be called from any thread. Dropping it does not cancel. Where the
/// context goes first, what is not done by then is cancelled. So it is in a child of fork(), which
/// has the kernel only where it was ready.
class TESELA_EXPORT Preparation {
public:
  /// Whether get() answers at once.
  bool ready() const;
  /// Waits for at most `time`; whether get() answers at once.
  bool waitFor(std::chrono::milliseconds time) const;
  /// Waits for the kernel; the same answer each time. Code::deadlineExceeded as soon as the
  /// deadline of prepare() is over, Code::cancelled after cancel().
  Result<Kernel> get() const;
  /// Takes the request back. Others that asked for the same kernel get theirs.
  void cancel() const;

  struct State;
  explicit Preparation(std::shared_ptr<State> state) : state(std::move(state)) {}

private:
  std::shared_ptr<State> state;
};

} // namespace tesela

#endif // TESELA_PREPARATION_H
