//===- LaunchCounters.h - Work counters of running launches -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A persistent kernel takes its work items from a counter in device memory, which is 0 before
// each launch and after it. Launches of one stream run one after the other, so each stream has one
// counter; a launch that is captured into a graph gets one of its own, since the graph may run
// beside anything. Two instances of one graph that run at the same time are the one case that
// shares a counter: CUDA programs that do so must capture twice.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_BACKEND_LAUNCHCOUNTERS_H
#define TESELA_BACKEND_LAUNCHCOUNTERS_H

#include "driver/DriverApi.h"

#include <mutex>
#include <unordered_map>
#include <vector>

namespace tesela {

/// All members may be called from several threads; the device's context must be current.
class LaunchCounters {
public:
  explicit LaunchCounters(const cuda::DriverApi &api) : api(api) {}

  /// Allocates the first counters, so that launches find them.
  Status create() { return grow(); }
  void release();
  /// The address of two zero u32 for the next launch on `stream`.
  Result<uint64_t> of(CUstream_st *stream);

private:
  Status grow();

  const cuda::DriverApi &api;
  std::mutex mutex;
  std::unordered_map<uint64_t, uint64_t> byStream; ///< the stream's id to its counter
  std::vector<cuda::DevicePointer> blocks;
  uint64_t next = 0, end = 0; ///< addresses that no launch has yet
};

} // namespace tesela

#endif // TESELA_BACKEND_LAUNCHCOUNTERS_H
