//===- Replacement.h - The kernel that takes another's place ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel with two tiers begins as that of a simple schedule. The one of the best schedule is made
// in the background and takes its place at a launch, never in the midst of a graph: what a stream
// captures has one of the two from its first to its last launch. A launch whose workspace is too
// small for the best one runs the simple one wherever it is.
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

/// Shared by all handles of a kernel that begin with the same simple one. All members may be called
/// from several threads at once.
class Replacement {
public:
  /// `best`: is being made; or why it is not.
  explicit Replacement(Result<Preparation> best) : best(std::move(best)) {}

  /// What a launch on `stream` runs: `simple` or, where it is there and the stream does not
  /// capture, the best one, which has taken the place then.
  const Kernel::State &choose(const Kernel::State &simple, void *stream);

  /// The best one after it has taken the place; null before.
  const Kernel::State *inPlace() const { return running.load(std::memory_order_acquire); }
  /// The best one where it is there; null before, and where it could not be made.
  std::shared_ptr<const Kernel::State> made() const;
  /// Whether it is there, after `wait` at most; its failure.
  Result<bool> isMade(std::chrono::milliseconds wait) const;
  /// Notes that a caller's workspace was too small for the best one; whether for the first time.
  bool isFirstWithoutWorkspace() { return !hadNoWorkspace.exchange(true); }

private:
  const Result<Preparation> best;
  std::atomic<const Kernel::State *> running = nullptr;
  std::atomic<bool> failed = false;
  std::atomic<bool> hadNoWorkspace = false;
  std::mutex mutex;                            ///< guards the rest
  std::shared_ptr<const Kernel::State> keeper; ///< of what runs
  std::vector<uint64_t> captures;              ///< that have launches of the simple one
  std::atomic<bool> hasCaptures = false;

  bool isBegunCapture(uint64_t capture);
};

} // namespace tesela

#endif // TESELA_API_REPLACEMENT_H
