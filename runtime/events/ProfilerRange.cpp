//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "events/ProfilerRange.h"

#include "events/Nvtx.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

namespace tesela {

using namespace nvtx;

namespace {

/// A module's functions: null until the profiler sets them.
template <unsigned size> struct FunctionTable {
  std::array<Function, size> functions{};
  std::array<Function *, size + 1> pointers{}; ///< the first and the last are null

  FunctionTable() {
    for (unsigned i = 1; i < size; ++i)
      pointers[i] = &functions[i];
  }
};

struct Tables {
  FunctionTable<coreSize> core;
  // Never called, but a profiler may ask for every table.
  FunctionTable<cudaSize> cuda;
  FunctionTable<openClSize> openCl;
  FunctionTable<cudaRuntimeSize> cudaRuntime;
  FunctionTable<core2Size> core2;
  FunctionTable<syncSize> sync;
};

Tables &tables() {
  static Tables all;
  return all;
}

int functionTable(int module, Function ***table, unsigned *size) {
  auto give = [&](auto &functions) {
    if (table)
      *table = functions.pointers.data();
    if (size)
      *size = unsigned(functions.functions.size());
    return 1;
  };
  switch (module) {
  case coreModule:
    return give(tables().core);
  case cudaModule:
    return give(tables().cuda);
  case openClModule:
    return give(tables().openCl);
  case cudaRuntimeModule:
    return give(tables().cudaRuntime);
  case core2Module:
    return give(tables().core2);
  case syncModule:
    return give(tables().sync);
  default:
    return 0;
  }
}

const void *exportTable(uint32_t id) {
  static const Callbacks callbacks = {sizeof(Callbacks), functionTable};
  static const VersionInfo version = {sizeof(VersionInfo), 3, 0, [](uint32_t) {}};
  return id == callbacksTable ? static_cast<const void *>(&callbacks)
         : id == versionTable ? static_cast<const void *>(&version)
                              : nullptr;
}

/// The functions that the profiler gave; null if none listens.
struct Profiler {
  int (*push)(const char *message) = nullptr;
  int (*pop)() = nullptr;

  Profiler() {
    const char *path = secure_getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : nullptr; // never closed
    auto initialize = reinterpret_cast<Initialize>(
        library ? dlsym(library, "InitializeInjectionNvtx2") : nullptr);
    if (!initialize || !initialize(exportTable))
      return;
    const auto &functions = tables().core.functions;
    if (!functions[rangePushA] || !functions[rangePop])
      return;
    push = reinterpret_cast<decltype(push)>(functions[rangePushA]);
    pop = reinterpret_cast<decltype(pop)>(functions[rangePop]);
  }
};

const Profiler &profiler() {
  static const Profiler found;
  return found;
}

} // namespace

bool ProfilerRange::isHeard() { return profiler().push != nullptr; }

ProfilerRange::ProfilerRange(const char *what, const std::string &name) {
  const Profiler &listener = profiler();
  if (!listener.push)
    return;
  char message[160]; // longer messages are truncated
  std::snprintf(message, sizeof message, "tesela: %s %s", what, name.c_str());
  listener.push(message);
  pushed = true;
}

ProfilerRange::~ProfilerRange() {
  if (pushed)
    profiler().pop();
}

} // namespace tesela
