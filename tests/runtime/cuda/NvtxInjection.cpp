//===- NvtxInjection.cpp - A profiler that only records ranges ------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The library that NVTX_INJECTION64_PATH names in tests. Like a profiler it fills all
// tables of all modules. It refuses to work if a table is not as in NVTX 3. Allocates
// nothing.
//
//===----------------------------------------------------------------------===//
#include "events/Nvtx.h"

#include <cstdio>
#include <cstring>
#include <mutex>

using namespace tesela::nvtx;

namespace {

std::mutex mutex;
char lastMessage[160];
int pushes = 0;
thread_local int depth = 0;

void ignored() {}

int push(const char *message) {
  std::lock_guard lock(mutex);
  std::snprintf(lastMessage, sizeof lastMessage, "%s", message);
  ++pushes;
  return depth++;
}

int pop() { return --depth; }

} // namespace

#pragma GCC visibility push(default)
extern "C" {

int InitializeInjectionNvtx2(GetExportTable getExportTable) {
  auto *version = static_cast<const VersionInfo *>(getExportTable(versionTable));
  auto *callbacks = static_cast<const Callbacks *>(getExportTable(callbacksTable));
  if (!version || version->version != 3 || !callbacks || callbacks->size < sizeof(Callbacks))
    return 0;
  version->setInjectionVersion(3);
  const unsigned sizes[] = {coreSize, cudaSize, openClSize, cudaRuntimeSize, core2Size, syncSize};
  for (int module = coreModule; module <= syncModule; ++module) {
    Function **table = nullptr;
    unsigned size = 0;
    if (!callbacks->functionTable(module, &table, &size) || size != sizes[module - 1] || table[0] ||
        table[size])
      return 0;
    for (unsigned i = 1; i < size; ++i)
      *table[i] = ignored;
    if (module == coreModule) {
      *table[rangePushA] = reinterpret_cast<Function>(push);
      *table[rangePop] = reinterpret_cast<Function>(pop);
    }
  }
  return callbacks->functionTable(syncModule + 1, nullptr, nullptr) == 0;
}

/// The message of the last range that began on any thread, the number of ranges that began, and the
/// number that are open on the calling thread.
void nvtxTestState(char *message, size_t size, int *begun, int *open) {
  std::lock_guard lock(mutex);
  std::snprintf(message, size, "%s", lastMessage);
  *begun = pushes;
  *open = depth;
}

} // extern "C"
#pragma GCC visibility pop
