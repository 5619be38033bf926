//===- ThreadPool.h - Work items on all cores -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_HOST_THREADPOOL_H
#define TESELA_HOST_THREADPOOL_H

#include "system/PerProcess.h"
#include "tesela/Status.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tesela {

/// Threads that wait for work. Threads take items one by one from a counter, because items differ
/// in length; the caller's thread takes part. If runs of several pools are active in the process,
/// they share the processors: besides the caller's thread, a run uses only threads for which a
/// processor is idle. A child of fork() has its own threads, whatever those of its parent were
/// doing.
class ThreadPool {
public:
  /// Fails if `threads` is negative or too large.
  static Status checkThreads(int threads);

  /// `threads` includes the caller's; 0: as many as this process may use processors.
  explicit ThreadPool(int threads);

  int size() const { return workers.get().size(); }

  using Work = std::function<void(int64_t item, void *scratch)>;
  /// Calls `work` once for every item in [0, items) and returns when all are done.
  /// Each thread has `scratchBytes` of its own, aligned to 64 bytes, uninitialised.
  /// Calls from several threads run one after another; `work` must not call run. Fails
  /// if memory for the scratch runs out or `work` throws; then some items are left
  /// out.
  Status run(int64_t items, size_t scratchBytes, const Work &work) {
    return workers.get().run(items, scratchBytes, work);
  }

private:
  class Workers {
  public:
    explicit Workers(int count);
    ~Workers();
    int size() const { return int(threads.size()) + 1; }
    Status run(int64_t items, size_t scratchBytes, const Work &work);

  private:
    struct Free {
      void operator()(void *memory) const { std::free(memory); }
    };
    void worker(int index);
    void takeItems(int index);
    /// How many of `wanted` workers this run may use, given the other runs of the process.
    int reserve(int wanted);

    int most;            ///< the most threads of the process at work when a run of this pool begins
    std::mutex runMutex; ///< held during a run

    std::mutex mutex; ///< guards what follows, except atomics
    std::condition_variable wake, finished;
    bool stopping = false;
    uint64_t generation = 0; ///< counts runs, so that a worker notices a new one
    int busy = 0;            ///< workers inside the current run
    const Work *work = nullptr;
    Status failure;  ///< the first exception of the current run
    int helpers = 0; ///< workers 1 to `helpers` take part in the current run
    int64_t items = 0;
    std::atomic<int64_t> next = 0;

    size_t scratchBytes = 0;
    std::vector<std::unique_ptr<void, Free>> scratch; ///< one per thread; 0 is the caller's
    std::vector<std::thread> threads;
  };
  PerProcess<Workers> workers;
};

} // namespace tesela

#endif // TESELA_HOST_THREADPOOL_H
