//===- ThreadPool.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "host/ThreadPool.h"

#include <algorithm>
#include <system_error>

namespace tesela {

ThreadPool::ThreadPool(int threads) {
  int count = threads > 0 ? threads : int(std::max(1u, std::thread::hardware_concurrency()));
  scratch.resize(count);
  workers.reserve(count);
  try {
    for (int index = 1; index < count; ++index)
      workers.emplace_back(&ThreadPool::worker, this, index);
  } catch (const std::system_error &) {
    // The machine gives no more threads: those that started do the work.
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread &thread : workers)
    thread.join();
}

void ThreadPool::takeItems(int index) {
  for (int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < items;)
    (*work)(item, scratch[index].get());
}

void ThreadPool::worker(int index) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return stopping || generation != seen; });
    if (stopping)
      return;
    seen = generation;
    if (!work) // woke after the run had ended
      continue;
    ++busy;
    lock.unlock();
    takeItems(index);
    lock.lock();
    if (--busy == 0)
      finished.notify_one();
  }
}

Status ThreadPool::run(int64_t itemCount, size_t bytes, const Work &function) {
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

  {
    std::lock_guard lock(mutex);
    work = &function;
    items = itemCount;
    next = 0;
    ++generation;
  }
  if (itemCount > 1)
    wake.notify_all();
  takeItems(0);
  std::unique_lock lock(mutex);
  finished.wait(lock, [&] { return busy == 0; });
  work = nullptr;
  return Status::success();
}

} // namespace tesela
