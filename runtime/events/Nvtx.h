//===- Nvtx.h - NVTX's tables between program and profiler ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_EVENTS_NVTX_H
#define TESELA_EVENTS_NVTX_H

#include <cstddef>
#include <cstdint>

namespace tesela::nvtx {

/// NvtxExportTableID.
enum ExportTable : uint32_t { callbacksTable = 1, versionTable = 3 };
/// NvtxCallbackModule.
enum Module {
  coreModule = 1,
  cudaModule,
  openClModule,
  cudaRuntimeModule,
  core2Module,
  syncModule
};
/// NvtxCallbackIdCore, only the functions that are used.
enum CoreFunction { rangePushA = 9, rangePop = 11 };
/// The number of a module's functions plus 1, NVTX_CBID_..._SIZE: index 0 is no function.
constexpr unsigned coreSize = 16, cudaSize = 9, openClSize = 15, cudaRuntimeSize = 7,
                   core2Size = 16, syncSize = 7;

using Function = void (*)();

/// NvtxExportTableCallbacks. A module's table has for each function the address of its
/// pointer.
struct Callbacks {
  size_t size;
  int (*functionTable)(int module, Function ***table, unsigned *size);
};

/// NvtxExportTableVersionInfo.
struct VersionInfo {
  size_t size;
  uint32_t version, reserved;
  void (*setInjectionVersion)(uint32_t version);
};

using GetExportTable = const void *(*)(uint32_t id);
/// The type of InitializeInjectionNvtx2, which the profiler's library exports. It returns 0 if the
/// profiler does not want to listen.
using Initialize = int (*)(GetExportTable getExportTable);

} // namespace tesela::nvtx

#endif // TESELA_EVENTS_NVTX_H
