//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/TaskThreads.h"

#include <algorithm>
#include <system_error>

namespace tesela {

TaskThreads::TaskThreads(int limit) : queue([limit] { return std::make_unique<Queue>(limit); }) {}

void TaskThreads::add(std::function<void()> task, Urgency urgency) {
  queue.get().add({std::move(task), std::move(urgency)});
}

TaskThreads::Queue::~Queue() {
  {
    std::lock_guard lock(mutex);
    closing = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void TaskThreads::Queue::add(Task task) {
  std::lock_guard lock(mutex);
  tasks.push_back(std::move(task));
  try {
    if (idle < int(tasks.size()) && int(threads.size()) < limit)
      threads.emplace_back([this] { run(); });
  } catch (const std::system_error &) {
    if (threads.empty()) { // otherwise the existing threads run the task
      tasks.pop_back();
      throw;
    }
  }
  changed.notify_one();
}

/// Takes the first of the most urgent tasks. There must be a task, and the mutex must be held.
TaskThreads::Task TaskThreads::Queue::takeMostUrgent() {
  auto urgencyOf = [](const Task &task) { return task.urgency ? task.urgency->load() : 0; };
  auto most = std::ranges::max_element(tasks, {}, urgencyOf);
  Task task = std::move(*most);
  tasks.erase(most);
  return task;
}

void TaskThreads::Queue::run() {
  std::unique_lock lock(mutex);
  while (true) {
    ++idle;
    changed.wait(lock, [&] { return closing || !tasks.empty(); });
    --idle;
    if (tasks.empty())
      return;
    Task task = takeMostUrgent();
    lock.unlock();
    task.run();
    task = {}; // destroys what the task holds, without the lock
    lock.lock();
  }
}

} // namespace tesela
