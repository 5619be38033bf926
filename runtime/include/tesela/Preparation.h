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

/// The result of Context::prepare: a kernel that threads of the context are making. A handle that
/// is cheap to copy; all members may be called from any thread. Dropping it does not cancel. If the
/// context is destroyed first, an unfinished preparation is cancelled. In a child of fork() it is
/// cancelled too, unless the kernel was ready before.
class TESELA_EXPORT Preparation {
public:
  /// Whether get() would return without waiting.
  bool ready() const;
  /// Waits for at most `time`. Returns whether get() would return without waiting.
  bool waitFor(std::chrono::milliseconds time) const;
  /// Waits for the kernel. Returns the same answer each time. Code::deadlineExceeded once the time
  /// limit of prepare() has passed; Code::cancelled after cancel().
  Result<Kernel> get() const;
  /// Withdraws this request. Other requests for the same kernel are not affected.
  void cancel() const;

  struct State;
  explicit Preparation(std::shared_ptr<State> state) : state(std::move(state)) {}

private:
  std::shared_ptr<State> state;
};

} // namespace tesela

#endif // TESELA_PREPARATION_H
