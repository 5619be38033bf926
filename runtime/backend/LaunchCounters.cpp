//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "backend/LaunchCounters.h"

#include "driver/ClearMemory.h"
#include "driver/CurrentContext.h"

namespace tesela {

using namespace cuda;

// A line of its own for each counter; more streams than a process tends to have, in 64 KB.
static constexpr uint64_t counterBytes = 64, countersOfBlock = 1024;

LaunchCounter LaunchCounters::Supply::take() {
  LaunchCounter counter{next, block};
  next += counterBytes;
  return counter;
}

Status LaunchCounters::fill(Supply &supply) {
  RelaxedCapture relaxed(api);
  DevicePointer address = 0;
  size_t bytes = counterBytes * countersOfBlock;
  if (Status status = api.check(api.cuMemAlloc_v2(&address, bytes), "cuMemAlloc"); !status)
    return status.error().within("allocating the counters of launches");
  Block block(new DevicePointer(address), [&api = api](const DevicePointer *address) {
    RelaxedCapture relaxed(api);
    api.cuMemFree_v2(*address); // waits for the launches that still use it
    delete address;
  });
  if (Status status = clearMemory(api, address, bytes); !status)
    return status;
  supply = {std::move(block), address, address + bytes};
  return Status::success();
}

Status LaunchCounters::create() {
  Status status = fill(streams);
  if (status)
    status = fill(graphs);
  return status;
}

void LaunchCounters::release() {
  byStream.clear();
  kept.clear();
  streams = graphs = {};
}

std::vector<LaunchCounter> LaunchCounters::takeUnused() {
  std::vector<LaunchCounter> unused;
  for (auto each = byStream.begin(); each != byStream.end();) {
    bool isUsed = each->second.generation + 1 >= generation;
    if (!isUsed)
      unused.push_back(std::move(each->second.counter));
    each = isUsed ? std::next(each) : byStream.erase(each);
  }
  return unused;
}

Result<LaunchCounter> LaunchCounters::of(const StreamUse &use) {
  std::vector<LaunchCounter> unused; // go after the lock: freeing waits for the GPU
  std::lock_guard lock(mutex);
  if (use.capture) {
    // Memory cannot be allocated in a capture: launches outside of one keep some ready.
    if (graphs.next == graphs.end)
      return Error(
          Code::outOfMemory,
          "a graph that is being captured takes more counters than are prepared; launch once "
          "outside of the capture, which prepares " +
              std::to_string(countersOfBlock) + " more, or pass a workspace");
    return graphs.take();
  }
  if (graphs.next == graphs.end) {
    Block full = graphs.block;
    if (Status status = fill(graphs); !status)
      return status.error();
    if (full)
      kept.push_back(std::move(full));
  }
  if (auto known = byStream.find(use.stream); known != byStream.end()) {
    known->second.generation = generation;
    return known->second.counter;
  }
  if (streams.next == streams.end) {
    if (Status status = fill(streams); !status)
      return status.error();
    ++generation;
    unused = takeUnused();
  }
  return byStream.emplace(use.stream, Entry{streams.take(), generation}).first->second.counter;
}

} // namespace tesela
