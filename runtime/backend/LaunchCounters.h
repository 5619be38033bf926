//===- LaunchCounters.h - Work counters of running launches -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A persistent kernel takes its work items from a counter in device memory, which is 0 before and
// after each launch. Launches of one stream run one after the other, so each stream has one
// counter. A launch that is captured into a graph gets its own CounterTable (Artifact.h), because
// the graph may run at the same time as anything else, also as another instance of itself.
//
// The driver does not say when a stream is destroyed. So a stream's counter is released when as
// many other streams as a block has counters have had their first launch since. If the stream is
// used again, it gets another counter. For graphs the driver does say so (GraphOwned.h), and their
// tables return to the supply.
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

/// All members may be called from several threads. The device's context must be current, also when
/// a LaunchCounter is destroyed.
class LaunchCounters {
public:
  explicit LaunchCounters(const cuda::DriverApi &api) : api(api) {}

  /// Allocates the first counters, so that launches need not.
  Status create();
  /// Frees everything. No launch of the device may be running, and no graph may have a table.
  void release();
  /// The counter for the next launches with that use; hold it until they have been started. In a
  /// capture it is for one launch; hold it as long as the graph and this object exist.
  Result<LaunchCounter> of(const StreamUse &use);

private:
  using Block = std::shared_ptr<const cuda::DevicePointer>;
  /// Counters that no launch uses yet.
  struct Supply {
    Block block;
    uint64_t next = 0, end = 0;
    LaunchCounter take();
  };
  struct Entry {
    LaunchCounter counter;
    uint64_t generation = 0; ///< the one in which it was last used
  };
  Result<Block> allocate(size_t bytes);
  Status fill(Supply &supply);
  std::vector<LaunchCounter> takeUnused();
  Status fillTables();
  Result<LaunchCounter> takeTable();

  const cuda::DriverApi &api;
  std::mutex mutex;
  std::unordered_map<uint64_t, Entry> byStream; ///< the key is the stream's number
  uint64_t generation = 0;                      ///< number of blocks made for streams
  Supply streams;
  std::vector<Block> tableBlocks;
  std::vector<cuda::DevicePointer> tables; ///< all zeros, not used by a graph
  std::vector<cuda::DevicePointer> used;   ///< returned by graphs, not yet cleared
};

} // namespace tesela

#endif // TESELA_BACKEND_LAUNCHCOUNTERS_H
