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

/// Threads that wait for work. Items are handed out one by one from a counter, since
/// they differ in length; the caller's thread takes part. Where runs of several pools are
/// under way in the process they share the processors: a run takes only those threads
/// besides the caller's that find a processor idle. A child of fork() has threads of its own,
/// whatever those of its parent were doing.
class ThreadPool {
public:
  /// Whether a caller may ask for so many.
  static Status checkThreads(int threads);

  /// `threads` in all, the caller's included; 0: as many as this process may use processors.
  explicit ThreadPool(int threads);

  int size() const { return workers.get().size(); }

  using Work = std::function<void(int64_t item, void *scratch)>;
  /// Calls `work` once for every item in [0, items) and returns when all are done.
  /// Each thread has `scratchBytes` of its own, aligned to 64 bytes, not
  /// initialised. Calls from several threads run one after the other; `work` must
  /// not call run. Fails where memory for the scratch ran out, and where `work` throws: then some
  /// items are left out.
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
    /// Of `wanted` workers so many as the process's other runs leave processors for.
    int reserve(int wanted);

    int most;            ///< threads of the process at work when a run of this pool begins
    std::mutex runMutex; ///< held for the length of a run

    std::mutex mutex; ///< guards what follows, as far as it is not atomic
    std::condition_variable wake, finished;
    bool stopping = false;
    uint64_t generation = 0; ///< counts runs, so that a worker sees a new one
    int busy = 0;            ///< workers inside the current run
    const Work *work = nullptr;
    Status failure;  ///< the first exception of the current run
    int helpers = 0; ///< workers that take part in the current run: those of index 1 to this
    int64_t items = 0;
    std::atomic<int64_t> next = 0;

    size_t scratchBytes = 0;
    std::vector<std::unique_ptr<void, Free>> scratch; ///< one a thread; 0 is the caller's
    std::vector<std::thread> threads;
  };
  PerProcess<Workers> workers;
};

} // namespace tesela

#endif // TESELA_HOST_THREADPOOL_H
