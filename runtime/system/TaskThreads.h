//===- TaskThreads.h - Threads that run tasks -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_TASKTHREADS_H
#define TESELA_SYSTEM_TASKTHREADS_H

#include "system/PerProcess.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tesela {

/// Runs tasks on up to `limit` threads, as many as there are tasks. More urgent tasks run first;
/// equally urgent ones in the order in which they were added. Tasks must not throw. The destructor
/// waits for all tasks. A child of fork() has its own threads and none of its parent's tasks.
class TaskThreads {
public:
  /// The value may change while the task waits.
  using Urgency = std::shared_ptr<const std::atomic<int>>;

  explicit TaskThreads(int limit);

  /// Throws std::system_error if there is no thread yet and none can be created. No urgency:
  /// 0.
  void add(std::function<void()> task, Urgency urgency = nullptr);

private:
  struct Task {
    std::function<void()> run;
    Urgency urgency;
  };
  struct Queue {
    explicit Queue(int limit) : limit(limit) {}
    ~Queue();
    void add(Task task);
    void run();
    Task takeMostUrgent();

    const int limit;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Task> tasks;
    int idle = 0;
    bool closing = false;
    std::vector<std::thread> threads;
  };
  PerProcess<Queue> queue;
};

} // namespace tesela

#endif // TESELA_SYSTEM_TASKTHREADS_H
