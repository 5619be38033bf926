//===- Workspaces.h - Memory that a kernel's launches share -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What some launches of a plan write and others read. Launches of one stream run one after the
// other, so each stream has one memory, which is kept for the next call and grows where that needs
// more. A graph may run beside anything: the launches that are captured into one take the stream's
// memory with them for good, make all summaries anew in it, and the next call outside of the
// capture allocates another. So a graph must not run before what its stream had been given before
// the capture is done; and as with LaunchCounters, two instances of one graph must not run at the
// same time.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_WORKSPACES_H
#define TESELA_LAUNCH_WORKSPACES_H

#include "backend/Backend.h"
#include "tesela/Tensor.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tesela {

/// The memory of one kernel on one stream, or in one graph.
struct StreamWorkspace {
  explicit StreamWorkspace(const Backend &backend) : backend(backend) {}
  StreamWorkspace(const StreamWorkspace &) = delete;
  StreamWorkspace &operator=(const StreamWorkspace &) = delete;
  ~StreamWorkspace();

  const Backend &backend;
  std::mutex mutex; ///< held from the first to the last launch of a call
  void *address = nullptr;
  size_t bytes = 0;
  /// What describes the contents: of what extents the memory was laid out, and by parameter from
  /// which tensor each summary was made.
  std::vector<int64_t> layout;
  struct Summary {
    bool made = false;
    Tensor source;
  };
  std::vector<Summary> summaries;
  uint64_t changes = 0; ///< Workspaces::changes() when they were made
};

/// All members may be called from several threads at once.
class Workspaces {
public:
  /// Of so many streams the memory is kept, as many as a GPU of compute capability 8.0 or later
  /// runs grids at a time; that of the one used longest ago goes for another's. So a program that
  /// makes and destroys streams without end needs no more.
  static constexpr size_t maxStreams = 128;

  explicit Workspaces(std::shared_ptr<const Backend> backend) : backend(std::move(backend)) {}

  /// The workspace of the next launches of that use, to be held until they have been started. Its
  /// mutex is not held.
  std::shared_ptr<StreamWorkspace> of(const StreamUse &use);
  /// Makes `workspace`, whose mutex is held, at least `bytes` long; what it held is lost where it
  /// grows.
  static Status reserve(StreamWorkspace &workspace, size_t bytes, const StreamUse &use);

  /// A launch in other memory came, and captured tensors may have changed before it: summaries that
  /// were made until now do not stand, on any stream.
  void capturesChanged() { ++changeCount; }
  uint64_t changes() const { return changeCount; }

private:
  struct Entry {
    std::shared_ptr<StreamWorkspace> workspace;
    uint64_t lastUse = 0;
  };
  using Streams = std::map<uint64_t, Entry>;
  static std::shared_ptr<StreamWorkspace> takeOldest(Streams &streams);

  std::shared_ptr<const Backend> backend;
  std::atomic<uint64_t> changeCount = 0;
  std::mutex mutex;
  uint64_t uses = 0;
  Streams streams; ///< outside of captures, by the stream's number
  /// By the stream's number and the capture's.
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<StreamWorkspace>> graphs;
};

} // namespace tesela

#endif // TESELA_LAUNCH_WORKSPACES_H
