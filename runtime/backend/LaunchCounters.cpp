//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "backend/LaunchCounters.h"

namespace tesela {

using namespace cuda;

// A line of its own for each counter; more streams than a process tends to have, in 64 KB.
static constexpr uint64_t counterBytes = 64, countersOfBlock = 1024;

Status LaunchCounters::grow() {
  DevicePointer block = 0;
  size_t bytes = counterBytes * countersOfBlock;
  if (Status status = api.check(api.cuMemAlloc_v2(&block, bytes), "cuMemAlloc"); !status)
    return status.error().within("allocating the counters of launches");
  if (Status status = api.check(api.cuMemsetD8_v2(block, 0, bytes), "cuMemsetD8"); !status) {
    api.cuMemFree_v2(block);
    return status;
  }
  if (Status status = api.check(api.cuStreamSynchronize(nullptr), "cuStreamSynchronize"); !status) {
    api.cuMemFree_v2(block);
    return status;
  }
  blocks.push_back(block);
  next = block;
  end = block + bytes;
  return Status::success();
}

void LaunchCounters::release() {
  for (DevicePointer block : blocks)
    api.cuMemFree_v2(block);
  blocks.clear();
}

Result<uint64_t> LaunchCounters::of(CUstream_st *stream) {
  int isCapturing = 0;
  unsigned long long id = 0;
  if (Status status =
          api.check(api.cuStreamIsCapturing(stream, &isCapturing), "cuStreamIsCapturing");
      !status)
    return status.error();
  if (Status status = api.check(api.cuStreamGetId(stream, &id), "cuStreamGetId"); !status)
    return status.error();
  std::lock_guard lock(mutex);
  // Memory cannot be allocated in a capture: launches outside of one keep some ready.
  if (next == end) {
    if (isCapturing)
      return Error(
          Code::outOfMemory,
          "a graph that is being captured takes more counters than are prepared; launch once "
          "outside of the capture, which prepares " +
              std::to_string(countersOfBlock) + " more");
    if (Status status = grow(); !status)
      return status.error();
  }
  if (!isCapturing)
    if (auto known = byStream.find(id); known != byStream.end())
      return known->second;
  uint64_t counter = next;
  next += counterBytes;
  if (!isCapturing)
    byStream.emplace(id, counter);
  return counter;
}

} // namespace tesela
