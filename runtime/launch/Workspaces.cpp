//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "launch/Workspaces.h"

#include <bit>

namespace tesela {

Workspaces::~Workspaces() {
  for (auto &[stream, workspace] : byStream)
    if (workspace && workspace->address)
      backend->release(workspace->address);
}

Result<StreamWorkspace *> Workspaces::of(void *stream) {
  Result<StreamUse> use = backend->streamUse(stream);
  if (!use)
    return use.error();
  std::lock_guard lock(mutex);
  std::unique_ptr<StreamWorkspace> &workspace = byStream[{use->stream, use->capture}];
  if (workspace)
    return workspace.get();
  if (use->capture) // takes over what the stream has; what it does not have, reserve() says
    workspace = std::move(byStream[{use->stream, 0}]);
  if (!workspace)
    workspace = std::make_unique<StreamWorkspace>();
  return workspace.get();
}

Status Workspaces::reserve(StreamWorkspace &workspace, size_t bytes, void *stream) {
  if (bytes <= workspace.bytes)
    return Status::success();
  Result<StreamUse> use = backend->streamUse(stream);
  if (!use)
    return use.error();
  if (use->capture)
    return Error(
        Code::outOfMemory,
        "a graph that is being captured needs " + std::to_string(bytes) +
            " bytes of workspace, which cannot be allocated in a capture; launch once with "
            "these extents on the same stream before each capture");
  // Releasing waits for the launches that still read it.
  if (workspace.address)
    backend->release(workspace.address);
  workspace.address = nullptr;
  workspace.bytes = 0;
  workspace.layout.clear();
  workspace.summarized.clear();
  // A length that grows step by step allocates seldom.
  size_t rounded = bytes > (size_t(1) << 62) ? bytes : std::bit_ceil(bytes);
  Result<void *> address = backend->allocate(rounded);
  if (!address)
    return address.error().within("allocating the workspace of a kernel");
  workspace.address = *address;
  workspace.bytes = rounded;
  return Status::success();
}

} // namespace tesela
