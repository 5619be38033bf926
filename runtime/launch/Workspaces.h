//===- Workspaces.h - Memory that a kernel's launches share -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Device memory that some launches of a plan write and later ones read. Launches of one stream run
// one after the other, so each stream has one memory, which is kept for the next call and grows if
// needed. A graph may run at the same time as anything else. So the launches that one stream
// records into a graph share a separate memory, which the graph owns (GraphOwned.h) and in which
// they compute all summaries anew. Instances of a graph that run at the same time read the same
// tensors, so they write equal numbers.
//
// For memory of a caller, this file records only what launches have computed into it.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_WORKSPACES_H
#define TESELA_LAUNCH_WORKSPACES_H

#include "backend/Backend.h"
#include "tesela/Kernel.h"
#include "tesela/Tensor.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tesela {

/// The memory of one kernel on one stream or in one graph, or memory of a caller.
struct StreamWorkspace {
  explicit StreamWorkspace(const Backend &backend) : backend(backend) {}
  /// Describes memory of a caller.
  StreamWorkspace(const Backend &backend, const LaunchWorkspace &given)
      : backend(backend), isGiven(true), address(given.address), bytes(given.bytes) {}
  StreamWorkspace(const StreamWorkspace &) = delete;
  StreamWorkspace &operator=(const StreamWorkspace &) = delete;
  ~StreamWorkspace();

  const Backend &backend;
  const bool isGiven = false;
  std::mutex mutex; ///< held from the first to the last launch of a call
  void *address = nullptr;
  size_t bytes = 0;
  /// A description of the contents: the extents by which the memory was laid out, and for each
  /// parameter the tensor from which its summary was computed.
  std::vector<int64_t> layout;
  struct Summary {
    bool made = false;
    Tensor source;
  };
  std::vector<Summary> summaries;
  uint64_t changes = 0; ///< Workspaces::changes() when the summaries were computed
};

/// All members may be called from several threads at once.
class Workspaces {
public:
  /// The memory of at most this many streams is kept: as many grids as a GPU of compute capability
  /// 8.0 or later runs at the same time. A new stream replaces the one used longest ago, so a
  /// program that creates and destroys streams forever needs no more memory.
  static constexpr size_t maxStreams = 128;

  explicit Workspaces(std::shared_ptr<const Backend> backend) : backend(std::move(backend)) {}

  /// The workspace for the next launches with that use. The caller holds it until they have been
  /// started; a captured graph holds it as long as it exists, and then the workspace has `bytes` or
  /// is new. Its mutex is not locked.
  std::shared_ptr<StreamWorkspace> of(const StreamUse &use, size_t bytes);
  /// The record of the caller's memory, for the same use.
  std::shared_ptr<StreamWorkspace> of(const StreamUse &use, const LaunchWorkspace &given);
  /// Makes `workspace` at least `bytes` long. The caller holds its mutex. If it grows, its contents
  /// are lost.
  static Status reserve(StreamWorkspace &workspace, size_t bytes);

  /// To call when a launch used other memory. Captured tensors may have changed before that launch,
  /// so summaries that were computed until now are invalid on all streams.
  void capturesChanged() { ++changeCount; }
  uint64_t changes() const { return changeCount; }

private:
  struct Entry {
    std::shared_ptr<StreamWorkspace> workspace;
    uint64_t lastUse = 0;
  };
  /// The key is the stream's number, or a caller's address with the capture's number plus 1.
  using Streams = std::map<uint64_t, Entry>;
  using Given = std::map<std::pair<uintptr_t, uint64_t>, Entry>;
  template <typename Entries>
  Entry &enter(Entries &entries, typename Entries::key_type key,
               std::shared_ptr<StreamWorkspace> &released);

  std::shared_ptr<const Backend> backend;
  std::atomic<uint64_t> changeCount = 0;
  std::mutex mutex;
  uint64_t uses = 0;
  Streams streams; ///< streams outside of captures
  Given given;
  /// The key is the stream's number and the capture's number. Graphs own the memory.
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<StreamWorkspace>> graphs;
};

} // namespace tesela

#endif // TESELA_LAUNCH_WORKSPACES_H
