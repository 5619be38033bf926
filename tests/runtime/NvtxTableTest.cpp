//===- NvtxTableTest.cpp - Nvtx.h against NVTX's own headers --------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Built if the CUDA toolkit is found.
//
//===----------------------------------------------------------------------===//
#include "events/Nvtx.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#define NVTX_EXPORT_API
#include <nvtx3/nvToolsExt.h>

using namespace tesela::nvtx;

static_assert(int(callbacksTable) == NVTX_ETID_CALLBACKS &&
              int(versionTable) == NVTX_ETID_VERSIONINFO);
static_assert(int(coreModule) == NVTX_CB_MODULE_CORE && int(cudaModule) == NVTX_CB_MODULE_CUDA &&
              int(openClModule) == NVTX_CB_MODULE_OPENCL &&
              int(cudaRuntimeModule) == NVTX_CB_MODULE_CUDART &&
              int(core2Module) == NVTX_CB_MODULE_CORE2 && int(syncModule) == NVTX_CB_MODULE_SYNC);
static_assert(int(rangePushA) == NVTX_CBID_CORE_RangePushA &&
              int(rangePop) == NVTX_CBID_CORE_RangePop);
static_assert(coreSize == NVTX_CBID_CORE_SIZE && cudaSize == NVTX_CBID_CUDA_SIZE &&
              openClSize == NVTX_CBID_OPENCL_SIZE && cudaRuntimeSize == NVTX_CBID_CUDART_SIZE &&
              core2Size == NVTX_CBID_CORE2_SIZE && syncSize == NVTX_CBID_SYNC_SIZE);
static_assert(sizeof(Callbacks) == sizeof(NvtxExportTableCallbacks) &&
              sizeof(VersionInfo) == sizeof(NvtxExportTableVersionInfo));
static_assert(NVTX_VERSION == 3);
#endif
