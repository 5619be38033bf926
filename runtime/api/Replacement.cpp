//===- Replacement.cpp - Replaces a simple kernel ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/Replacement.h"

#include "api/State.h"

#include <algorithm>

namespace tesela {

bool Replacement::isBegunCapture(uint64_t capture) {
  std::lock_guard lock(mutex);
  return std::ranges::find(captures, capture) != captures.end();
}

const Kernel::State &Replacement::choose(const Kernel::State &simple, void *stream) {
  if (failed.load(std::memory_order_relaxed))
    return simple;
  const Kernel::State *chosen = inPlace();
  if (chosen && !hasCaptures.load(std::memory_order_acquire))
    return *chosen;
  Result<StreamUse> use = streamUseOf(simple, stream);
  if (!use) // the launch reports the error
    return simple;
  if (chosen)
    return use->isCaptured && isBegunCapture(use->capture) ? simple : *chosen;
  if (use->isCaptured) {
    std::lock_guard lock(mutex);
    if (inPlace() && std::ranges::find(captures, use->capture) == captures.end())
      return *inPlace(); // another thread's launch has just replaced it
    if (std::ranges::find(captures, use->capture) == captures.end())
      captures.push_back(use->capture);
    hasCaptures.store(true, std::memory_order_release);
    return simple;
  }
  if (!best || best->ready()) {
    Result<Kernel> kernel = best ? best->get() : best.error();
    if (!kernel) {
      failed = true;
      return simple;
    }
    std::lock_guard lock(mutex);
    if (!keeper) {
      keeper = kernel->internal();
      running.store(keeper.get(), std::memory_order_release);
    }
    return *keeper;
  }
  return simple;
}

std::shared_ptr<const Kernel::State> Replacement::made() const {
  if (failed || !best || !best->ready())
    return nullptr;
  Result<Kernel> kernel = best->get();
  return kernel ? kernel->internal() : nullptr;
}

Result<bool> Replacement::isMade(std::chrono::milliseconds wait) const {
  auto failure = [](const Error &error) {
    return error.within(
        "the best schedule did not compile in the background, so launches continue with the "
        "simple one");
  };
  if (!best)
    return failure(best.error());
  if (!best->waitFor(wait))
    return false;
  Result<Kernel> kernel = best->get();
  return kernel ? Result<bool>(true) : failure(kernel.error());
}

} // namespace tesela
