//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "launch/Workspaces.h"

#include <algorithm>
#include <bit>

namespace tesela {

StreamWorkspace::~StreamWorkspace() {
  if (address)
    backend.release(address);
}

std::shared_ptr<StreamWorkspace> Workspaces::takeOldest(Streams &streams) {
  auto oldest = std::min_element(streams.begin(), streams.end(), [](const auto &a, const auto &b) {
    return a.second.lastUse < b.second.lastUse;
  });
  std::shared_ptr<StreamWorkspace> taken = std::move(oldest->second.workspace);
  streams.erase(oldest);
  return taken;
}

std::shared_ptr<StreamWorkspace> Workspaces::of(const StreamUse &use) {
  std::shared_ptr<StreamWorkspace> released; // after the lock: that waits for the GPU
  std::lock_guard lock(mutex);
  auto known = streams.find(use.stream);
  if (use.capture) {
    std::shared_ptr<StreamWorkspace> &workspace = graphs[{use.stream, use.capture}];
    if (!workspace && known != streams.end()) {
      // What the stream does not have, reserve() says.
      workspace = std::move(known->second.workspace);
      streams.erase(known);
      // The launch that made them is no part of the graph, which may run on any stream.
      std::lock_guard contents(workspace->mutex);
      workspace->summaries.clear();
    }
    if (!workspace)
      workspace = std::make_shared<StreamWorkspace>(*backend);
    return workspace;
  }
  if (known == streams.end()) {
    if (streams.size() == maxStreams)
      released = takeOldest(streams);
    known = streams.emplace(use.stream, Entry{std::make_shared<StreamWorkspace>(*backend)}).first;
  }
  known->second.lastUse = ++uses;
  return known->second.workspace;
}

Status Workspaces::reserve(StreamWorkspace &workspace, size_t bytes, const StreamUse &use) {
  if (bytes <= workspace.bytes)
    return Status::success();
  if (use.capture)
    return Error(
        Code::outOfMemory,
        "a graph that is being captured needs " + std::to_string(bytes) +
            " bytes of workspace, which cannot be allocated in a capture; launch once with "
            "these extents on the same stream before each capture, or pass a workspace");
  // Releasing waits for the launches that still read it.
  if (workspace.address)
    workspace.backend.release(workspace.address);
  workspace.address = nullptr;
  workspace.bytes = 0;
  workspace.layout.clear();
  workspace.summaries.clear();
  // A length that grows step by step allocates seldom.
  size_t rounded = bytes > (size_t(1) << 62) ? bytes : std::bit_ceil(bytes);
  Result<void *> address = workspace.backend.allocate(rounded);
  if (!address)
    return address.error().within("allocating the workspace of a kernel");
  workspace.address = *address;
  workspace.bytes = rounded;
  return Status::success();
}

} // namespace tesela
