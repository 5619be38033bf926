//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/TaskThreads.h"

#include <system_error>

namespace tesela {

TaskThreads::TaskThreads(int limit) : queue([limit] { return std::make_unique<Queue>(limit); }) {}

void TaskThreads::add(std::function<void()> task) { queue.get().add(std::move(task)); }

TaskThreads::Queue::~Queue() {
  {
    std::lock_guard lock(mutex);
    closing = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void TaskThreads::Queue::add(std::function<void()> task) {
  std::lock_guard lock(mutex);
  tasks.push_back(std::move(task));
  try {
    if (idle < int(tasks.size()) && int(threads.size()) < limit)
      threads.emplace_back([this] { run(); });
  } catch (const std::system_error &) {
    if (threads.empty()) { // else the others do it
      tasks.pop_back();
      throw;
    }
  }
  changed.notify_one();
}

void TaskThreads::Queue::run() {
  std::unique_lock lock(mutex);
  while (true) {
    ++idle;
    changed.wait(lock, [&] { return closing || !tasks.empty(); });
    --idle;
    if (tasks.empty())
      return;
    std::function<void()> task = std::move(tasks.front());
    tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr; // what it holds goes without the lock
    lock.lock();
  }
}

} // namespace tesela
