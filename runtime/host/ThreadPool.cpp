//===- ThreadPool.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "host/ThreadPool.h"

#include "system/Caught.h"
#include "system/Processors.h"

#include <algorithm>
#include <system_error>

namespace tesela {

/// The low half counts working threads of all pools in the process, including callers. The high
/// half is the process's number, because a child of fork() finds its parent's count here.
static std::atomic<uint64_t> working = 0;
static constexpr int countBits = 32;
static_assert(std::atomic<uint64_t>::is_always_lock_free);

Status ThreadPool::checkThreads(int threads) {
  constexpr int mostThreads = 4096;
  if (threads >= 0 && threads <= mostThreads)
    return Status::success();
  return Error(Code::invalidArgument, "the number of threads is " + std::to_string(threads) +
                                          ", it must lie in [0, " + std::to_string(mostThreads) +
                                          "]; 0 means one for each usable processor");
}

ThreadPool::ThreadPool(int threads)
    : workers([threads] { return std::make_unique<Workers>(threads); }) {}

ThreadPool::Workers::Workers(int count) {
  int usable = usableProcessors();
  if (count <= 0)
    count = usable;
  most = std::max(count, usable); // a run that is alone uses all threads of its pool
  scratch.resize(count);
  threads.reserve(count);
  try {
    for (int index = 1; index < count; ++index)
      threads.emplace_back(&Workers::worker, this, index);
  } catch (const std::system_error &) {
    // The system gives no more threads. Those that started do the work.
  }
}

ThreadPool::Workers::~Workers() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void ThreadPool::Workers::takeItems(int index) {
  for (int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < items;) {
    Status done = caught([&]() -> Status {
      (*work)(item, scratch[index].get());
      return Status::success();
    });
    if (!done) {
      next = items; // so the other threads take no more items
      std::lock_guard lock(mutex);
      if (failure)
        failure = done;
    }
  }
}

void ThreadPool::Workers::worker(int index) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return stopping || generation != seen; });
    if (stopping)
      return;
    seen = generation;
    if (!work || index > helpers) // the run had ended before it woke, or it is not needed
      continue;
    ++busy;
    lock.unlock();
    takeItems(index);
    lock.lock();
    if (--busy == 0)
      finished.notify_one();
  }
}

int ThreadPool::Workers::reserve(int wanted) {
  const uint64_t none = processNumber() << countBits;
  uint64_t before = working.load(std::memory_order_relaxed), after;
  int granted;
  do {
    bool isOurs = before >> countBits == none >> countBits;
    uint64_t count = isOurs ? before - none : 0;
    granted = std::clamp(most - int(count) - 1, 0, wanted);
    after = none + count + 1 + uint64_t(granted);
  } while (!working.compare_exchange_weak(before, after));
  return granted;
}

Status ThreadPool::Workers::run(int64_t itemCount, size_t bytes, const Work &function) {
  if (itemCount <= 0)
    return Status::success();
  std::lock_guard running(runMutex);
  if (bytes > scratchBytes) {
    size_t rounded = (bytes + 63) / 64 * 64;
    scratchBytes = 0;
    for (std::unique_ptr<void, Free> &memory : scratch) {
      memory.reset(std::aligned_alloc(64, rounded));
      if (!memory)
        return Error(Code::outOfMemory, "no memory for " + std::to_string(scratch.size()) +
                                            " threads' scratch of " + std::to_string(rounded) +
                                            " bytes each; use fewer threads");
    }
    scratchBytes = rounded;
  }

  int granted = reserve(int(std::min<int64_t>(size(), itemCount)) - 1);
  {
    std::lock_guard lock(mutex);
    work = &function;
    items = itemCount;
    next = 0;
    failure = Status::success();
    helpers = granted;
    ++generation;
  }
  if (granted > 0)
    wake.notify_all();
  takeItems(0);
  std::unique_lock lock(mutex);
  finished.wait(lock, [&] { return busy == 0; });
  work = nullptr;
  working -= 1 + uint64_t(granted);
  return failure;
}

} // namespace tesela
