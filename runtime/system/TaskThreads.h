//===- TaskThreads.h - Threads that run tasks -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_TASKTHREADS_H
#define TESELA_SYSTEM_TASKTHREADS_H

#include "system/PerProcess.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tesela {

/// Runs tasks in the order of their coming, on as many threads as there are tasks, up to a limit.
/// Tasks do not throw. All tasks have run when it is gone. A child of fork() has threads of its
/// own, and none of its parent's tasks.
class TaskThreads {
public:
  explicit TaskThreads(int limit);

  /// Throws std::system_error where there is no thread yet and the system gives none.
  void add(std::function<void()> task);

private:
  struct Queue {
    explicit Queue(int limit) : limit(limit) {}
    ~Queue();
    void add(std::function<void()> task);
    void run();

    const int limit;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    int idle = 0;
    bool closing = false;
    std::vector<std::thread> threads;
  };
  PerProcess<Queue> queue;
};

} // namespace tesela

#endif // TESELA_SYSTEM_TASKTHREADS_H
