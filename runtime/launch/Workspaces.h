//===- Workspaces.h - Memory that a kernel's launches share -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What some launches of a plan write and others read. Launches of one stream run one after the
// other, so each stream has one memory, which is kept for the next call and grows where that needs
// more. A graph may run beside anything: the launches that are captured into one take the stream's
// memory with them for good, and the next call outside of the capture allocates another. As with
// LaunchCounters, two instances of one graph must not run at the same time.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_WORKSPACES_H
#define TESELA_LAUNCH_WORKSPACES_H

#include "backend/Backend.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tesela {

/// The memory of one kernel on one stream.
struct StreamWorkspace {
  std::mutex mutex; ///< held from the first to the last launch of a call
  void *address = nullptr;
  size_t bytes = 0;
  /// What describes the contents: of what extents the memory was laid out, and by parameter from
  /// which tensor each summary was made (empty: none was).
  std::vector<int64_t> layout;
  std::vector<std::vector<int64_t>> summarized;
};

/// All members may be called from several threads at once.
class Workspaces {
public:
  explicit Workspaces(std::shared_ptr<const Backend> backend) : backend(std::move(backend)) {}
  ~Workspaces();

  /// The workspace of the next launches on `stream`; it lives as long as this. Its mutex is not
  /// held.
  Result<StreamWorkspace *> of(void *stream);
  /// Makes `workspace`, whose mutex is held, at least `bytes` long; what it held is lost where it
  /// grows.
  Status reserve(StreamWorkspace &workspace, size_t bytes, void *stream);

private:
  std::shared_ptr<const Backend> backend;
  std::mutex mutex;
  /// By the stream's id and the capture's, 0 outside of one.
  std::map<std::pair<uint64_t, uint64_t>, std::unique_ptr<StreamWorkspace>> byStream;
};

} // namespace tesela

#endif // TESELA_LAUNCH_WORKSPACES_H
