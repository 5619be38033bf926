//===- TaskThreads.h - Threads that run tasks -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_TASKTHREADS_H
#define TESELA_SYSTEM_TASKTHREADS_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tesela {

/// Runs tasks in the order of their coming, on as many threads as there are tasks, up to a limit.
/// Tasks do not throw. All tasks have run when it is gone.
class TaskThreads {
public:
  explicit TaskThreads(int limit) : limit(limit) {}
  ~TaskThreads();

  /// Throws std::system_error where there is no thread yet and the system gives none.
  void add(std::function<void()> task);

private:
  void run();

  const int limit;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  int idle = 0;
  bool closing = false;
  std::vector<std::thread> threads;
};

} // namespace tesela

#endif // TESELA_SYSTEM_TASKTHREADS_H
