//===- Replacement.h - Replaces a simple kernel -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel with two tiers starts with a simple schedule. The kernel with the best schedule is made
// in the background and replaces it at a launch, but never within a capture: a captured graph has
// one of the two from its first to its last launch. A launch whose workspace is too small for the
// best one runs the simple one.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_API_REPLACEMENT_H
#define TESELA_API_REPLACEMENT_H

#include "tesela/Kernel.h"
#include "tesela/Preparation.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

namespace tesela {

/// Shared by all handles of a kernel that start with the same simple one. All members may be called
/// from several threads at once.
class Replacement {
public:
  /// `best`: the preparation of the best kernel, or why there is none.
  explicit Replacement(Result<Preparation> best) : best(std::move(best)) {}

  /// The kernel for a launch on `stream`: `simple`, or the best one if it is ready and the stream
  /// does not capture. Once returned, the best one has replaced the simple one.
  const Kernel::State &choose(const Kernel::State &simple, void *stream);

  /// The best kernel, if it has replaced the simple one; else null.
  const Kernel::State *inPlace() const { return running.load(std::memory_order_acquire); }
  /// The best kernel if it is ready; null if not, or if it could not be made.
  std::shared_ptr<const Kernel::State> made() const;
  /// Whether the best kernel is ready, after waiting for `wait` at most; or its failure.
  Result<bool> isMade(std::chrono::milliseconds wait) const;
  /// Records that a caller's workspace was too small for the best one. Returns true the first time.
  bool isFirstWithoutWorkspace() { return !hadNoWorkspace.exchange(true); }

private:
  const Result<Preparation> best;
  std::atomic<const Kernel::State *> running = nullptr;
  std::atomic<bool> failed = false;
  std::atomic<bool> hadNoWorkspace = false;
  std::mutex mutex;                            ///< guards the rest
  std::shared_ptr<const Kernel::State> keeper; ///< keeps `running` alive
  std::vector<uint64_t> captures;              ///< captures with launches of the simple one
  std::atomic<bool> hasCaptures = false;

  bool isBegunCapture(uint64_t capture);
};

} // namespace tesela

#endif // TESELA_API_REPLACEMENT_H
