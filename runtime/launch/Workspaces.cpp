//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "launch/Workspaces.h"

#include <algorithm>
#include <bit>

namespace tesela {

StreamWorkspace::~StreamWorkspace() {
  if (address && !isGiven)
    backend.release(address);
}

/// The entry of `key`, marked as used. If it is new and there are too many entries, the one used
/// longest ago is removed and its memory goes to `released`.
template <typename Entries>
Workspaces::Entry &Workspaces::enter(Entries &entries, typename Entries::key_type key,
                                     std::shared_ptr<StreamWorkspace> &released) {
  auto known = entries.find(key);
  if (known == entries.end()) {
    if (entries.size() == maxStreams) {
      auto oldest =
          std::min_element(entries.begin(), entries.end(), [](const auto &a, const auto &b) {
            return a.second.lastUse < b.second.lastUse;
          });
      released = std::move(oldest->second.workspace);
      entries.erase(oldest);
    }
    known = entries.emplace(key, Entry()).first;
  }
  known->second.lastUse = ++uses;
  return known->second;
}

std::shared_ptr<StreamWorkspace> Workspaces::of(const StreamUse &use, size_t bytes) {
  std::shared_ptr<StreamWorkspace> released; // destroyed after the lock is released, because that
                                             // waits for the GPU
  std::lock_guard lock(mutex);
  if (use.isCaptured) {
    std::weak_ptr<StreamWorkspace> &known = graphs[{use.stream, use.capture}];
    std::shared_ptr<StreamWorkspace> workspace = known.lock();
    // Launches that were captured before may read a smaller workspace, so that one is not changed.
    if (!workspace || workspace->bytes < bytes) {
      known = workspace = std::make_shared<StreamWorkspace>(*backend);
      std::erase_if(graphs, [](const auto &each) { return each.second.expired(); });
    }
    return workspace;
  }
  Entry &entry = enter(streams, use.stream, released);
  if (!entry.workspace)
    entry.workspace = std::make_shared<StreamWorkspace>(*backend);
  return entry.workspace;
}

std::shared_ptr<StreamWorkspace> Workspaces::of(const StreamUse &use,
                                                const LaunchWorkspace &memory) {
  std::shared_ptr<StreamWorkspace> released;
  std::lock_guard lock(mutex);
  auto address = reinterpret_cast<uintptr_t>(memory.address);
  if (use.isCaptured) // the graph will write it
    given.erase({address, 0});
  Entry &entry = enter(given, {address, use.isCaptured ? use.capture + 1 : 0}, released);
  if (!entry.workspace || entry.workspace->bytes != memory.bytes)
    entry.workspace = std::make_shared<StreamWorkspace>(*backend, memory);
  return entry.workspace;
}

Status Workspaces::reserve(StreamWorkspace &workspace, size_t bytes) {
  if (bytes <= workspace.bytes)
    return Status::success();
  // Releasing waits for launches that still read the memory.
  if (workspace.address)
    workspace.backend.release(workspace.address);
  workspace.address = nullptr;
  workspace.bytes = 0;
  workspace.layout.clear();
  workspace.summaries.clear();
  // Rounded up, so that lengths that grow step by step rarely allocate.
  size_t rounded = bytes > (size_t(1) << 62) ? bytes : std::bit_ceil(bytes);
  Result<void *> address = workspace.backend.allocate(rounded);
  if (!address)
    return address.error().within("allocating the workspace of a kernel");
  workspace.address = *address;
  workspace.bytes = rounded;
  return Status::success();
}

} // namespace tesela
