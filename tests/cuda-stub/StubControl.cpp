//===- StubControl.cpp - How tests control the stub -----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "StubState.h"

#include <utility>

namespace tesela::stub {

void reset() {
  std::lock_guard lock(mutex);
  devices.assign(2, {});
  version = 13000;
  failingEntry = -1;
  for (auto &count : calls)
    count = 0;
  recording = false;
  launches.clear();
  brokenCaptures.clear();
}

void setDevices(std::vector<StubDevice> all) {
  std::lock_guard lock(mutex);
  devices = std::move(all);
}

void setVersion(int number) { version = number; }

static int entryOf(const std::string &name) {
  for (int entry = 0; entry < entryCount; ++entry)
    if (name == entryNames[entry])
      return entry;
  return -1;
}

void failCall(const std::string &entry, int call, int result) {
  failingResult = result;
  failingCall = call;
  failingEntry = entryOf(entry);
}

bool hasFailed() { return failingCall <= 0; }

int callsOf(const std::string &entry) {
  int index = entryOf(entry);
  return index < 0 ? 0 : calls[index].load();
}

Live live() {
  std::lock_guard lock(mutex);
  Live all;
  for (const CUctx_st &context : contexts)
    all.contexts += context.retained;
  all.modules = int(modules.size());
  all.allocations = int(allocations.size());
  all.streams = liveStreams;
  all.events = int(events.size());
  all.linkStates = int(linkStates.size());
  all.pushed = contextDepth;
  return all;
}

size_t liveBytes() {
  std::lock_guard lock(mutex);
  size_t bytes = 0;
  for (auto &[address, memory] : allocations)
    bytes += memory.second;
  return bytes;
}

Place placeOf(uint64_t address) {
  std::lock_guard lock(mutex);
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin())
    return {};
  auto &[begin, memory] = *--after;
  return address < begin + memory.second ? Place{memory.second, size_t(address - begin)} : Place{};
}

void reclaim() {
  std::lock_guard lock(mutex);
  allocations.clear();
  for (const CUmod_st *module : modules)
    delete module;
  modules.clear();
}

void recordLaunches() { recording = true; }

std::vector<StubLaunch> takeLaunches() {
  std::lock_guard lock(mutex);
  return std::exchange(launches, {});
}

uint64_t beginCapture(CUstream_st *stream) {
  ++captures;
  uint64_t capture = nextCapture++;
  {
    std::lock_guard lock(mutex);
    stream->graph = &graphs[capture];
  }
  return stream->capture = capture;
}

void destroyGraph(uint64_t capture) {
  CUgraph_st graph;
  {
    std::lock_guard lock(mutex);
    graph = std::move(graphs[capture]);
    graphs.erase(capture);
  }
  isDestroying = true;
  for (const auto &object : graph.owned)
    object->destroy(object->pointer);
  isDestroying = false;
}

bool endCapture(CUstream_st *stream) {
  uint64_t capture = stream->capture.exchange(0);
  --captures;
  std::lock_guard lock(mutex);
  return brokenCaptures.count(capture) == 0;
}

void destroyGraphs() {
  std::vector<uint64_t> made;
  {
    std::lock_guard lock(mutex);
    for (const auto &[capture, graph] : graphs)
      made.push_back(capture);
  }
  for (uint64_t capture : made)
    destroyGraph(capture);
}

} // namespace tesela::stub
