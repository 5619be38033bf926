//===- LaunchCounters.h - Work counters of running launches -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A persistent kernel takes its work items from a counter in device memory, which is 0 before
// each launch and after it. Launches of one stream run one after the other, so each stream has one
// counter. A launch that is captured into a graph gets a CounterTable (Artifact.h) of its own,
// since the graph may run beside anything, and several instances of it at the same time.
//
// Nobody says when a stream is destroyed. A counter goes back once a block's number of other
// streams have had their first launch since its stream's last one; a stream that is used again has
// another one then. A graph says so (GraphOwned.h): its tables go back to the supply.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_BACKEND_LAUNCHCOUNTERS_H
#define TESELA_BACKEND_LAUNCHCOUNTERS_H

#include "backend/Backend.h"
#include "driver/DriverApi.h"

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace tesela {

/// All members may be called from several threads; the device's context must be current, also where
/// a LaunchCounter goes.
class LaunchCounters {
public:
  explicit LaunchCounters(const cuda::DriverApi &api) : api(api) {}

  /// Allocates the first counters, so that launches find them.
  Status create();
  /// No launch of the device is under way, and no graph has a table.
  void release();
  /// The counter for the next launches of that use, to be held until they have been started. In a
  /// capture it is one launch's, to be held as long as the graph exists and this does.
  Result<LaunchCounter> of(const StreamUse &use);

private:
  using Block = std::shared_ptr<const cuda::DevicePointer>;
  /// Counters that no launch has yet.
  struct Supply {
    Block block;
    uint64_t next = 0, end = 0;
    LaunchCounter take();
  };
  struct Entry {
    LaunchCounter counter;
    uint64_t generation = 0; ///< in which it was used last
  };
  Result<Block> allocate(size_t bytes);
  Status fill(Supply &supply);
  std::vector<LaunchCounter> takeUnused();
  Status fillTables();
  Result<LaunchCounter> takeTable();

  const cuda::DriverApi &api;
  std::mutex mutex;
  std::unordered_map<uint64_t, Entry> byStream; ///< by the stream's number
  uint64_t generation = 0;                      ///< counts the blocks for streams
  Supply streams;
  std::vector<Block> tableBlocks;
  std::vector<cuda::DevicePointer> tables; ///< all zeros, which no graph has
  std::vector<cuda::DevicePointer> used;   ///< which a graph had
};

} // namespace tesela

#endif // TESELA_BACKEND_LAUNCHCOUNTERS_H
