//===- Workspaces.h - Memory that a kernel's launches share -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What some launches of a plan write and others read. Launches of one stream run one after the
// other, so each stream has one memory, which is kept for the next call and grows where that needs
// more. A graph may run beside anything: the launches that one stream puts into it share a memory
// of their own, which the graph keeps (GraphOwned.h), and make all summaries anew in it. Instances
// of a graph that run at the same time write the same numbers to it, since they read the same
// tensors.
//
// A caller's memory is only described here: what was made in it, as far as nobody else writes it.
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

/// The memory of one kernel on one stream, in one graph, or a caller's.
struct StreamWorkspace {
  explicit StreamWorkspace(const Backend &backend) : backend(backend) {}
  /// Of a caller's memory.
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

  /// The workspace of the next launches of that use, to be held until they have been started; in a
  /// capture, as long as the graph exists, and then it has `bytes` or is new. Its mutex is not
  /// held.
  std::shared_ptr<StreamWorkspace> of(const StreamUse &use, size_t bytes);
  /// What is known of the caller's memory, likewise.
  std::shared_ptr<StreamWorkspace> of(const StreamUse &use, const LaunchWorkspace &given);
  /// Makes `workspace`, whose mutex is held, at least `bytes` long; what it held is lost where it
  /// grows.
  static Status reserve(StreamWorkspace &workspace, size_t bytes);

  /// A launch in other memory came, and captured tensors may have changed before it: summaries that
  /// were made until now do not stand, on any stream.
  void capturesChanged() { ++changeCount; }
  uint64_t changes() const { return changeCount; }

private:
  struct Entry {
    std::shared_ptr<StreamWorkspace> workspace;
    uint64_t lastUse = 0;
  };
  /// By the stream's number, or by the address of a caller's memory and the capture's number plus 1.
  using Streams = std::map<uint64_t, Entry>;
  using Given = std::map<std::pair<uintptr_t, uint64_t>, Entry>;
  template <typename Entries>
  Entry &enter(Entries &entries, typename Entries::key_type key,
               std::shared_ptr<StreamWorkspace> &released);

  std::shared_ptr<const Backend> backend;
  std::atomic<uint64_t> changeCount = 0;
  std::mutex mutex;
  uint64_t uses = 0;
  Streams streams; ///< outside of captures
  Given given;
  /// By the stream's number and the capture's; graphs own them.
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<StreamWorkspace>> graphs;
};

} // namespace tesela

#endif // TESELA_LAUNCH_WORKSPACES_H
