//===- RequestLimits.h - Deadline and cancellation --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_REQUESTLIMITS_H
#define TESELA_REQUESTLIMITS_H

#include "tesela/Status.h"

#include <chrono>
#include <optional>
#include <stop_token>

namespace tesela {

/// The limits of a request. They are checked between the stages of a compilation and wherever a
/// request waits, so the request ends some time after its limit, not at once.
struct RequestLimits {
  std::stop_token cancelled; ///< the default one is never cancelled
  std::optional<std::chrono::steady_clock::time_point> deadline;

  /// Code::cancelled or Code::deadlineExceeded if a limit is reached, else success.
  Status check() const {
    if (cancelled.stop_requested())
      return Error(Code::cancelled, "the request was cancelled");
    if (deadline && std::chrono::steady_clock::now() >= *deadline)
      return Error(Code::deadlineExceeded,
                   "the request was not done by its deadline: give it more time, or ask earlier");
    return Status::success();
  }
  bool areNone() const { return !cancelled.stop_possible() && !deadline; }
};

} // namespace tesela

#endif // TESELA_REQUESTLIMITS_H
