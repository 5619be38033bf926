//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/GraphOwned.h"

#include "driver/CurrentContext.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace tesela::cuda {
namespace {

using Kept = std::shared_ptr<const void>;

/// The objects that are to be destroyed, and the thread that destroys them.
class Releases {
public:
  /// Lives until the process ends, because a graph may be destroyed at any time.
  static Releases &all() {
    static auto *releases = new Releases;
    return *releases;
  }

  /// Starts the thread. Throws std::system_error if the system gives none.
  void start() {
    std::lock_guard lock(mutex);
    if (!isStarted)
      std::thread([this] { run(); }).detach();
    isStarted = true;
  }

  void add(Kept kept) {
    std::lock_guard lock(mutex);
    waiting.push_back(std::move(kept));
    changed.notify_all();
  }

  void await() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return waiting.empty() && !isReleasing; });
  }

private:
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return !waiting.empty(); });
      Kept kept = std::move(waiting.front());
      waiting.pop_front();
      isReleasing = true;
      lock.unlock();
      kept.reset();
      lock.lock();
      isReleasing = false;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Kept> waiting;
  bool isStarted = false, isReleasing = false;
};

/// Called by the driver.
void release(void *pointer) {
  std::unique_ptr<Kept> kept(static_cast<Kept *>(pointer));
  Releases::all().add(std::move(*kept));
}

} // namespace

void awaitReleases() { Releases::all().await(); }

Status keepForGraph(const DriverApi &api, CUgraph_st *graph, Kept kept) {
  try {
    Releases::all().start();
  } catch (const std::system_error &) {
    return Error(Code::outOfMemory,
                 "the system cannot start the thread that releases the memory of graphs: end "
                 "threads or processes, or raise the limit of threads");
  }
  RelaxedCapture relaxed(api);
  CUuserObject_st *object = nullptr;
  auto owned = std::make_unique<Kept>(std::move(kept));
  if (Status status = api.check(
          api.cuUserObjectCreate(&object, owned.get(), release, 1, userObjectNoDestructorSync),
          "cuUserObjectCreate");
      !status)
    return status;
  (void)owned.release(); // the user object owns it now
  Status status = api.check(api.cuGraphRetainUserObject(graph, object, 1, graphTakesReference),
                            "cuGraphRetainUserObject");
  if (!status)
    api.cuUserObjectRelease(object, 1);
  return status;
}

} // namespace tesela::cuda
