//===- RecordingDriver.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "RecordingDriver.h"

#include "driver/DriverApi.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

using namespace tesela::cuda;
using namespace tesela::stub;

struct CUctx_st {};
struct CUfunc_st {
  std::string kernel;
  std::vector<size_t> parameterBytes;
};
struct CUmod_st {
  std::string ptx;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};

namespace {

std::mutex mutex;
int capability = 90;
CUctx_st context;
int contexts = 0, modules = 0, pushed = 0;
std::map<DevicePointer, size_t> allocations;
std::vector<StubLaunch> launches;
std::string failingEntry;
int failingResult = 0;

int enter(const char *entry) {
  if (failingEntry != entry)
    return 0;
  failingEntry.clear();
  return failingResult;
}

/// "  .param .align 64 .b8 name[128]": 128; ".param .u64 name": 8.
size_t parameterBytes(const std::string &declaration) {
  for (size_t dot = declaration.find('.'); dot != std::string::npos;
       dot = declaration.find('.', dot + 1)) {
    const char *text = declaration.c_str() + dot + 1;
    size_t bits = std::strchr("usfb", *text) ? size_t(std::atoi(text + 1)) : 0;
    size_t bracket = declaration.find('[');
    if (bits > 0)
      return bits / 8 *
             (bracket == std::string::npos ? 1
                                           : size_t(std::atoi(declaration.c_str() + bracket + 1)));
  }
  return 0;
}

std::vector<size_t> parametersOf(const std::string &ptx, size_t entry) {
  std::vector<size_t> all;
  size_t end = ptx.find("\n)", entry);
  for (size_t begin = ptx.find('(', entry) + 1; begin < end;) {
    size_t comma = std::min(ptx.find(',', begin), end);
    if (size_t bytes = parameterBytes(ptx.substr(begin, comma - begin)))
      all.push_back(bytes);
    begin = comma + 1;
  }
  return all;
}

} // namespace

namespace tesela::stub {

void setCapability(int sm) { capability = sm; }

std::vector<StubLaunch> takeLaunches() {
  std::lock_guard lock(mutex);
  return std::exchange(launches, {});
}

Place placeOf(uint64_t address) {
  std::lock_guard lock(mutex);
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin())
    return {};
  auto [begin, bytes] = *--after;
  return address < begin + bytes ? Place{bytes, size_t(address - begin)} : Place{};
}

int liveCount() {
  std::lock_guard lock(mutex);
  return contexts + modules + pushed + int(allocations.size());
}

void failNext(const std::string &entry, int result) {
  failingEntry = entry;
  failingResult = result;
}

} // namespace tesela::stub

#pragma GCC visibility push(default)
extern "C" {

int cuInit(unsigned) { return enter("cuInit"); }

int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}

int cuGetErrorName(int, const char **text) {
  *text = "CUDA_ERROR_OF_THE_TEST";
  return 0;
}

int cuGetErrorString(int, const char **text) {
  *text = "as the test asked for";
  return 0;
}

int cuDeviceGetCount(int *count) {
  *count = 1;
  return 0;
}

int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? enter("cuDeviceGet") : 101; // CUDA_ERROR_INVALID_DEVICE
}

int cuDeviceGetName(char *name, int length, int) {
  std::strncpy(name, "recording device", size_t(length));
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == computeCapabilityMajor   ? capability / 10
           : attribute == computeCapabilityMinor ? capability % 10
                                                 : 132;
  return enter("cuDeviceGetAttribute");
}

int cuDeviceTotalMem_v2(size_t *bytes, int) {
  *bytes = size_t(1) << 37;
  return 0;
}

int cuDevicePrimaryCtxRetain(CUctx_st **retained, int) {
  if (int failure = enter("cuDevicePrimaryCtxRetain"))
    return failure;
  std::lock_guard lock(mutex);
  ++contexts;
  *retained = &context;
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int) {
  std::lock_guard lock(mutex);
  --contexts;
  return 0;
}

int cuCtxPushCurrent_v2(CUctx_st *) {
  if (int failure = enter("cuCtxPushCurrent_v2"))
    return failure;
  std::lock_guard lock(mutex);
  ++pushed;
  return 0;
}

int cuCtxPopCurrent_v2(CUctx_st **popped) {
  std::lock_guard lock(mutex);
  --pushed;
  *popped = &context;
  return 0;
}

int cuStreamGetId(CUstream_st *stream, unsigned long long *id) {
  *id = reinterpret_cast<uintptr_t>(stream);
  return 0;
}

int cuStreamIsCapturing(CUstream_st *, int *status) {
  *status = 0;
  return 0;
}

int cuStreamGetCaptureInfo(CUstream_st *, int *status, unsigned long long *id) {
  *status = 0;
  *id = 0;
  return 0;
}

int cuModuleLoadDataEx(CUmod_st **module, const void *image, unsigned, int *, void **) {
  if (int failure = enter("cuModuleLoadDataEx"))
    return failure;
  std::lock_guard lock(mutex);
  ++modules;
  *module = new CUmod_st{static_cast<const char *>(image), {}};
  return 0;
}

int cuModuleUnload(CUmod_st *module) {
  std::lock_guard lock(mutex);
  --modules;
  delete module;
  return 0;
}

int cuModuleGetFunction(CUfunc_st **function, CUmod_st *module, const char *name) {
  if (int failure = enter("cuModuleGetFunction"))
    return failure;
  std::lock_guard lock(mutex);
  size_t entry = module->ptx.find(".entry " + std::string(name) + "(");
  if (entry == std::string::npos)
    return 500; // CUDA_ERROR_NOT_FOUND
  module->functions.push_back(
      std::make_unique<CUfunc_st>(CUfunc_st{name, parametersOf(module->ptx, entry)}));
  *function = module->functions.back().get();
  return 0;
}

int cuFuncGetAttribute(int *value, int, CUfunc_st *) {
  *value = 0;
  return 0;
}

int cuFuncSetAttribute(CUfunc_st *, int, int) { return enter("cuFuncSetAttribute"); }

int cuLaunchKernel(CUfunc_st *function, unsigned gridX, unsigned gridY, unsigned gridZ,
                   unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                   CUstream_st *stream, void **parameters, void **) {
  if (int failure = enter("cuLaunchKernel"))
    return failure;
  StubLaunch launch{
      function->kernel, gridX * gridY * gridZ, blockX * blockY * blockZ, sharedBytes, stream, {}};
  for (size_t bytes : function->parameterBytes)
    launch.parameters.emplace_back(static_cast<const char *>(*parameters++), bytes);
  std::lock_guard lock(mutex);
  launches.push_back(std::move(launch));
  return 0;
}

int cuMemAlloc_v2(DevicePointer *address, size_t bytes) {
  if (int failure = enter("cuMemAlloc_v2"))
    return failure;
  void *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (!memory)
    return errorOutOfMemory;
  std::memset(memory, 0xa5, bytes);
  std::lock_guard lock(mutex);
  *address = reinterpret_cast<uintptr_t>(memory);
  allocations[*address] = bytes;
  return 0;
}

int cuMemFree_v2(DevicePointer address) {
  std::lock_guard lock(mutex);
  if (!allocations.erase(address))
    return 1; // CUDA_ERROR_INVALID_VALUE
  std::free(reinterpret_cast<void *>(address));
  return 0;
}

int cuMemcpyHtoD_v2(DevicePointer to, const void *from, size_t bytes) {
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return enter("cuMemcpyHtoD_v2");
}

int cuMemcpyDtoH_v2(void *to, DevicePointer from, size_t bytes) {
  std::memcpy(to, reinterpret_cast<void *>(from), bytes);
  return enter("cuMemcpyDtoH_v2");
}

int cuMemsetD8_v2(DevicePointer address, unsigned char value, size_t bytes) {
  if (int failure = enter("cuMemsetD8_v2"))
    return failure;
  std::memset(reinterpret_cast<void *>(address), value, bytes);
  return 0;
}

int cuMemsetD8Async(DevicePointer address, unsigned char value, size_t bytes, CUstream_st *stream) {
  if (int failure = enter("cuMemsetD8Async"))
    return failure;
  std::memset(reinterpret_cast<void *>(address), value, bytes);
  std::lock_guard lock(mutex);
  launches.push_back({"memset", unsigned(bytes), 1, 0, stream, {}});
  return 0;
}

int cuStreamSynchronize(CUstream_st *) { return enter("cuStreamSynchronize"); }

/// The map's bytes are all that it was asked for.
int cuTensorMapEncodeTiled(CUtensorMap_st *map, int elementType, uint32_t rank, void *address,
                           const uint64_t *extents, const uint64_t *strideBytes,
                           const uint32_t *box, const uint32_t *elementStrides, int interleave,
                           int swizzle, int promotion, int fill) {
  if (int failure = enter("cuTensorMapEncodeTiled"))
    return failure;
  if (reinterpret_cast<uintptr_t>(map) % 64 || rank < 1 || rank > 5)
    return 1;
  struct Asked {
    void *address;
    uint64_t extents[5], strideBytes[4];
    uint32_t box[5], rank;
    uint8_t elementType, interleave, swizzle, promotion, fill, isDense;
  } asked;
  static_assert(sizeof asked <= 128);
  std::memset(&asked, 0, sizeof asked); // the padding, too
  asked.address = address;
  asked.rank = rank;
  asked.isDense = true;
  for (uint32_t axis = 0; axis < rank; ++axis) {
    asked.extents[axis] = extents[axis];
    asked.box[axis] = box[axis];
    asked.isDense &= elementStrides[axis] == 1;
    if (axis + 1 < rank)
      asked.strideBytes[axis] = strideBytes[axis];
  }
  asked.elementType = uint8_t(elementType);
  asked.interleave = uint8_t(interleave);
  asked.swizzle = uint8_t(swizzle);
  asked.promotion = uint8_t(promotion);
  asked.fill = uint8_t(fill);
  std::memset(static_cast<void *>(map), 0, 128);
  std::memcpy(static_cast<void *>(map), &asked, sizeof asked);
  return 0;
}

} // extern "C"
#pragma GCC visibility pop
