//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "backend/LaunchCounters.h"

#include "driver/ClearMemory.h"
#include "driver/CurrentContext.h"
#include "tesela/compiler/Artifact.h"

namespace tesela {

using namespace cuda;

// Each counter has its own cache line. A block of 64 KB has more counters than most processes have
// streams.
static constexpr uint64_t counterBytes = 64, countersOfBlock = 1024;
// A block of 256 KB has as many tables as the launches of a typical model. At least `tablesAhead`
// are kept ready, so that captures rarely wait for memory.
static constexpr size_t tablesOfBlock = 256, tablesAhead = 32;

LaunchCounter LaunchCounters::Supply::take() {
  LaunchCounter counter{next, block};
  next += counterBytes;
  return counter;
}

Result<LaunchCounters::Block> LaunchCounters::allocate(size_t bytes) {
  DevicePointer address = 0;
  if (Status status = api.check(api.cuMemAlloc_v2(&address, bytes), "cuMemAlloc"); !status)
    return status.error().within("allocating the counters of launches");
  return Block(new DevicePointer(address), [&api = api](const DevicePointer *address) {
    RelaxedCapture relaxed(api);
    api.cuMemFree_v2(*address); // waits for launches that still use it
    delete address;
  });
}

Status LaunchCounters::fill(Supply &supply) {
  RelaxedCapture relaxed(api);
  size_t bytes = counterBytes * countersOfBlock;
  Result<Block> block = allocate(bytes);
  if (!block)
    return block.error();
  if (Status status = clearMemory(api, {{**block}}, bytes); !status)
    return status;
  uint64_t begin = **block;
  supply = {std::move(*block), begin, begin + bytes};
  return Status::success();
}

/// First clears the tables that graphs returned, then allocates more if these are too few.
Status LaunchCounters::fillTables() {
  RelaxedCapture relaxed(api);
  if (Status status = clearMemory(api, used, CounterTable::bytes); !status)
    return status;
  tables.insert(tables.end(), used.begin(), used.end());
  used.clear();
  if (tables.size() > tablesAhead)
    return Status::success();
  Result<Block> block = allocate(tablesOfBlock * CounterTable::bytes);
  if (!block)
    return block.error();
  if (Status status = clearMemory(api, {{**block}}, tablesOfBlock * CounterTable::bytes); !status)
    return status;
  for (size_t table = 0; table < tablesOfBlock; ++table)
    tables.push_back(**block + table * CounterTable::bytes);
  tableBlocks.push_back(std::move(*block));
  return Status::success();
}

Result<LaunchCounter> LaunchCounters::takeTable() {
  if (tables.size() <= tablesAhead)
    if (Status status = fillTables(); !status && tables.empty())
      return status.error();
  DevicePointer table = tables.back();
  tables.pop_back();
  return LaunchCounter{table + 1, std::shared_ptr<const void>(nullptr, [this, table](const void *) {
                         std::lock_guard lock(mutex);
                         used.push_back(table);
                       })};
}

Status LaunchCounters::create() { return fill(streams); }

void LaunchCounters::release() {
  byStream.clear();
  tables.clear();
  used.clear();
  tableBlocks.clear();
  streams = {};
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
  std::vector<LaunchCounter> unused; // destroyed after the lock is released, because freeing waits
                                     // for the GPU
  std::lock_guard lock(mutex);
  if (use.isCaptured)
    return takeTable();
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
