//===- CudaStub.cpp - The driver's functions on plain memory --------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "StubState.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

using namespace tesela::stub;
using namespace tesela::cuda;

namespace {

/// Counts the call. Returns the error that the call must return at once, or 0.
int enter(Entry entry) {
  calls[entry].fetch_add(1, std::memory_order_relaxed);
  if (isDestroying)
    return errorNotPermitted;
  if (failingEntry.load(std::memory_order_relaxed) == entry && failingCall.fetch_sub(1) == 1)
    return failingResult;
  bool needsInit = entry != entry_cuInit && entry != entry_cuDriverGetVersion &&
                   entry != entry_cuGetErrorName && entry != entry_cuGetErrorString;
  return needsInit && !initialized ? int(errorNotInitialized) : 0;
}

CUctx_st *currentContext() { return contextDepth ? contextStack[contextDepth - 1] : nullptr; }

bool isContext(const CUctx_st *context) {
  return context >= contexts && context < std::end(contexts) && context->retained > 0;
}

void breakCaptures() {
  std::lock_guard lock(mutex);
  for (auto &stream : streams)
    if (stream->capture)
      brokenCaptures.insert(stream->capture);
}

/// Checks for a call that needs a context. `unsafe`: a capture forbids the call on all threads.
int checkContext(bool unsafe = false) {
  if (!isContext(currentContext()))
    return errorInvalidContext;
  if (unsafe && captures && captureMode != captureModeRelaxed) {
    breakCaptures();
    return errorCaptureUnsupported;
  }
  return 0;
}

bool isDefault(const CUstream_st *stream) { return reinterpret_cast<uintptr_t>(stream) <= 1; }
bool isPointer(const CUstream_st *stream) { return reinterpret_cast<uintptr_t>(stream) > 2; }

/// Checks for a call that puts work on a stream or waits for it.
int checkStream(CUstream_st *stream) {
  if (int failure = checkContext())
    return failure;
  if (isPointer(stream))
    return stream->lives && stream->context == currentContext() ? 0 : int(errorInvalidHandle);
  if (!isDefault(stream) || !captures)
    return 0;
  std::lock_guard lock(mutex);
  for (auto &each : streams)
    if (each->capture && each->blocking)
      return errorCaptureImplicit;
  return 0;
}

uint64_t captureOf(const CUstream_st *stream) {
  return isPointer(stream) ? stream->capture.load() : 0;
}
uint64_t numberOf(const CUstream_st *stream) {
  return isPointer(stream) ? stream->id : isDefault(stream) ? defaultStreamId : threadStreamId;
}

StubDevice *deviceOf(int device) {
  return device >= 0 && size_t(device) < devices.size() ? &devices[device] : nullptr;
}

/// Writes into the error log that the options name.
void writeErrorLog(unsigned count, const int *options, void **values) {
  char *buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == jitErrorLogBuffer)
      buffer = static_cast<char *>(values[i]);
    if (options[i] == jitErrorLogBufferSizeBytes)
      size = reinterpret_cast<size_t>(values[i]);
  }
  if (buffer && size > 0)
    std::strncpy(buffer, "the stub's log", size - 1);
}

void record(StubLaunch launch, CUstream_st *stream) {
  launch.device = currentContext()->device;
  launch.stream = numberOf(stream);
  launch.capture = captureOf(stream);
  std::lock_guard lock(mutex);
  launches.push_back(std::move(launch));
}

int launchKernel(CUfunc_st *function, unsigned grid, unsigned block, unsigned sharedBytes,
                 CUstream_st *stream, void **parameters, bool overlaps) {
  if (int failure = checkStream(stream))
    return failure;
  if (!function || function->context != currentContext())
    return errorInvalidHandle;
  if (grid == 0 || grid > 0x7fffffff || block == 0 || block > 1024 ||
      int(sharedBytes) > function->mostSharedBytes)
    return errorInvalidValue;
  if (!recording.load(std::memory_order_relaxed))
    return 0;
  StubLaunch launch{function->kernel->name, 0, 0, 0, grid, block, sharedBytes, overlaps, {}};
  for (size_t size : function->kernel->parameterBytes)
    launch.parameters.emplace_back(static_cast<const char *>(*parameters++), size);
  record(std::move(launch), stream);
  return 0;
}

} // namespace

#pragma GCC visibility push(default)

#define ENTER(name)                                                                                \
  if (int failure = enter(entry_##name))                                                           \
  return failure
#define CHECK(check)                                                                               \
  if (int failure = check)                                                                         \
  return failure

extern "C" {

int cuInit(unsigned) {
  ENTER(cuInit);
  initialized = true;
  return 0;
}

int cuDriverGetVersion(int *number) {
  ENTER(cuDriverGetVersion);
  *number = version;
  return 0;
}

static const std::string *errorText(int error, bool name) {
  static const std::vector<std::pair<std::string, std::string>> texts = [] {
    std::vector<std::pair<std::string, std::string>> all;
    for (int error = 0; error < 1000; ++error)
      all.emplace_back("CUDA_ERROR_" + std::to_string(error),
                       "the stub was told to give " + std::to_string(error));
    return all;
  }();
  if (error < 0 || error >= 1000)
    return nullptr;
  return name ? &texts[error].first : &texts[error].second;
}

int cuGetErrorName(int error, const char **text) {
  ENTER(cuGetErrorName);
  const std::string *known = errorText(error, true);
  *text = known ? known->c_str() : nullptr;
  return known ? 0 : int(errorInvalidValue);
}

int cuGetErrorString(int error, const char **text) {
  ENTER(cuGetErrorString);
  const std::string *known = errorText(error, false);
  *text = known ? known->c_str() : nullptr;
  return known ? 0 : int(errorInvalidValue);
}

int cuDeviceGetCount(int *count) {
  ENTER(cuDeviceGetCount);
  std::lock_guard lock(mutex);
  *count = int(devices.size());
  return 0;
}

int cuDeviceGet(int *device, int ordinal) {
  ENTER(cuDeviceGet);
  std::lock_guard lock(mutex);
  *device = ordinal;
  return deviceOf(ordinal) ? 0 : int(errorInvalidDevice);
}

int cuDeviceGetName(char *name, int length, int device) {
  ENTER(cuDeviceGetName);
  std::lock_guard lock(mutex);
  if (!deviceOf(device))
    return errorInvalidDevice;
  std::strncpy(name, deviceOf(device)->name.c_str(), length);
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  ENTER(cuDeviceGetAttribute);
  std::lock_guard lock(mutex);
  const StubDevice *known = deviceOf(device);
  if (!known)
    return errorInvalidDevice;
  *value = attribute == computeCapabilityMajor   ? known->major
           : attribute == computeCapabilityMinor ? known->minor
                                                 : known->processors;
  return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  ENTER(cuDeviceTotalMem_v2);
  std::lock_guard lock(mutex);
  if (!deviceOf(device))
    return errorInvalidDevice;
  *bytes = deviceOf(device)->memoryBytes;
  return 0;
}

int cuDevicePrimaryCtxRetain(CUctx_st **context, int device) {
  ENTER(cuDevicePrimaryCtxRetain);
  std::lock_guard lock(mutex);
  if (!deviceOf(device) || device >= int(std::size(contexts)))
    return errorInvalidDevice;
  contexts[device].device = device;
  ++contexts[device].retained;
  *context = &contexts[device];
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  int failure = enter(entry_cuDevicePrimaryCtxRelease_v2);
  --contexts[device].retained;
  return failure;
}

int cuCtxGetCurrent(CUctx_st **context) {
  ENTER(cuCtxGetCurrent);
  *context = currentContext();
  return 0;
}

int cuCtxPushCurrent_v2(CUctx_st *context) {
  ENTER(cuCtxPushCurrent_v2);
  if (!isContext(context) || contextDepth == int(std::size(contextStack)))
    return errorInvalidContext;
  contextStack[contextDepth++] = context;
  return 0;
}

int cuCtxPopCurrent_v2(CUctx_st **context) {
  int failure = enter(entry_cuCtxPopCurrent_v2);
  if (contextDepth == 0)
    return errorInvalidContext;
  *context = contextStack[--contextDepth];
  return failure;
}

int cuStreamGetId(CUstream_st *stream, unsigned long long *id) {
  ENTER(cuStreamGetId);
  CHECK(checkContext());
  if (isPointer(stream) && !stream->lives)
    return errorInvalidHandle;
  if (captureOf(stream)) {
    breakCaptures();
    return errorCaptureUnsupported;
  }
  *id = numberOf(stream);
  return 0;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
  ENTER(cuThreadExchangeStreamCaptureMode);
  std::swap(captureMode, *mode);
  return 0;
}

int cuStreamGetCaptureInfo_v2(CUstream_st *stream, int *status, unsigned long long *id,
                              CUgraph_st **graph, CUgraphNode_st *const **, size_t *) {
  ENTER(cuStreamGetCaptureInfo_v2);
  CHECK(checkStream(stream));
  *id = captureOf(stream);
  *status = *id != 0;
  *graph = *id != 0 ? stream->graph : nullptr;
  return 0;
}

int cuUserObjectCreate(CUuserObject_st **object, void *pointer, void (*destroy)(void *), unsigned,
                       unsigned) {
  ENTER(cuUserObjectCreate);
  *object = new CUuserObject_st{pointer, destroy};
  std::lock_guard lock(mutex);
  userObjects.insert(*object);
  return 0;
}

int cuUserObjectRelease(CUuserObject_st *object, unsigned) {
  ENTER(cuUserObjectRelease);
  {
    std::lock_guard lock(mutex);
    if (userObjects.erase(object) == 0)
      return errorInvalidHandle;
  }
  object->destroy(object->pointer);
  delete object;
  return 0;
}

int cuGraphRetainUserObject(CUgraph_st *graph, CUuserObject_st *object, unsigned, unsigned flags) {
  ENTER(cuGraphRetainUserObject);
  std::lock_guard lock(mutex);
  if (!graph || flags != graphTakesReference || userObjects.erase(object) == 0)
    return errorInvalidValue;
  graph->owned.emplace_back(object);
  return 0;
}

int cuStreamCreate(CUstream_st **stream, unsigned flags) {
  ENTER(cuStreamCreate);
  CHECK(checkContext());
  std::lock_guard lock(mutex);
  auto made = std::make_unique<CUstream_st>();
  made->context = currentContext();
  made->id = streams.size() + 100;
  made->blocking = flags != streamNonBlocking;
  *stream = made.get();
  streams.push_back(std::move(made));
  ++liveStreams;
  return 0;
}

int cuStreamDestroy_v2(CUstream_st *stream) {
  int failure = enter(entry_cuStreamDestroy_v2);
  if (!isPointer(stream) || !stream->lives.exchange(false))
    return errorInvalidHandle;
  --liveStreams;
  return failure;
}

int cuStreamSynchronize(CUstream_st *stream) {
  ENTER(cuStreamSynchronize);
  CHECK(checkStream(stream));
  if (captureOf(stream)) {
    breakCaptures();
    return errorCaptureUnsupported;
  }
  return 0;
}

int cuModuleLoadDataEx(CUmod_st **module, const void *image, unsigned count, int *options,
                       void **values) {
  if (int failure = enter(entry_cuModuleLoadDataEx)) {
    writeErrorLog(count, options, values);
    return failure;
  }
  CHECK(checkContext(true));
  auto made = std::make_unique<CUmod_st>();
  made->context = currentContext();
  if (!made->image.read(image))
    return errorInvalidImage;
  std::lock_guard lock(mutex);
  *module = made.release();
  modules.insert(*module);
  return 0;
}

int cuModuleUnload(CUmod_st *module) {
  int failure = enter(entry_cuModuleUnload);
  CHECK(checkContext(true));
  std::lock_guard lock(mutex);
  if (!modules.erase(module))
    return errorInvalidHandle;
  delete module;
  return failure;
}

int cuModuleGetFunction(CUfunc_st **function, CUmod_st *module, const char *name) {
  ENTER(cuModuleGetFunction);
  std::lock_guard lock(mutex);
  const StubImage::Kernel *kernel = module->image.find(name);
  if (!kernel)
    return errorNotFound;
  module->functions.push_back(std::make_unique<CUfunc_st>(module->context, kernel));
  *function = module->functions.back().get();
  return 0;
}

int cuFuncGetAttribute(int *value, int attribute, CUfunc_st *) {
  ENTER(cuFuncGetAttribute);
  *value = attribute == numberOfRegisters ? 168 : 0;
  return 0;
}

int cuFuncSetAttribute(CUfunc_st *function, int attribute, int value) {
  ENTER(cuFuncSetAttribute);
  if (attribute == maxDynamicSharedSizeBytes)
    function->mostSharedBytes = value;
  return 0;
}

int cuLaunchKernel(CUfunc_st *function, unsigned gridX, unsigned gridY, unsigned gridZ,
                   unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                   CUstream_st *stream, void **parameters, void **) {
  ENTER(cuLaunchKernel);
  return launchKernel(function, gridX * gridY * gridZ, blockX * blockY * blockZ, sharedBytes,
                      stream, parameters, /*overlaps=*/false);
}

int cuLaunchKernelEx(const LaunchConfig *config, CUfunc_st *function, void **parameters, void **) {
  ENTER(cuLaunchKernelEx);
  bool overlaps = false;
  for (unsigned i = 0; i < config->attributeCount; ++i)
    overlaps |= config->attributes[i].id == launchProgrammaticStreamSerialization &&
                config->attributes[i].value != 0;
  return launchKernel(function, config->gridX * config->gridY * config->gridZ,
                      config->blockX * config->blockY * config->blockZ, config->sharedBytes,
                      config->stream, parameters, overlaps);
}

int cuMemAlloc_v2(DevicePointer *address, size_t bytes) {
  ENTER(cuMemAlloc_v2);
  CHECK(checkContext(true));
  std::lock_guard lock(mutex);
  if (bytes == 0)
    return errorInvalidValue;
  if (bytes > deviceOf(currentContext()->device)->memoryBytes)
    return errorOutOfMemory;
  constexpr size_t alignment = 512; // the alignment of the driver
  auto memory = std::make_unique_for_overwrite<char[]>(bytes + alignment);
  *address = (reinterpret_cast<uintptr_t>(memory.get()) + alignment - 1) / alignment * alignment;
  constexpr size_t mostPoisoned = 1 << 16; // so that memory is not 0 by chance
  std::memset(reinterpret_cast<void *>(*address), 0xa5, std::min(bytes, mostPoisoned));
  allocations[*address] = {std::move(memory), bytes};
  return 0;
}

int cuMemFree_v2(DevicePointer address) {
  int failure = enter(entry_cuMemFree_v2);
  CHECK(checkContext(true));
  std::lock_guard lock(mutex);
  return allocations.erase(address) ? failure : int(errorInvalidValue);
}

int cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes, CUstream_st *stream) {
  ENTER(cuMemcpyHtoDAsync_v2);
  CHECK(checkStream(stream));
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes, CUstream_st *stream) {
  ENTER(cuMemcpyDtoHAsync_v2);
  CHECK(checkStream(stream));
  std::memcpy(to, reinterpret_cast<void *>(from), bytes);
  return 0;
}

int cuMemcpyHtoD_v2(DevicePointer to, const void *from, size_t bytes) {
  ENTER(cuMemcpyHtoD_v2);
  CHECK(checkContext(true));
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return 0;
}

int cuMemcpyDtoH_v2(void *to, DevicePointer from, size_t bytes) {
  ENTER(cuMemcpyDtoH_v2);
  CHECK(checkContext(true));
  std::memcpy(to, reinterpret_cast<void *>(from), bytes);
  return 0;
}

int cuMemsetD8_v2(DevicePointer address, unsigned char value, size_t bytes) {
  ENTER(cuMemsetD8_v2);
  CHECK(checkStream(nullptr));
  std::memset(reinterpret_cast<void *>(address), value, bytes);
  return 0;
}

int cuMemsetD8Async(DevicePointer address, unsigned char value, size_t bytes, CUstream_st *stream) {
  ENTER(cuMemsetD8Async);
  CHECK(checkStream(stream));
  if (!captureOf(stream))
    std::memset(reinterpret_cast<void *>(address), value, bytes);
  if (recording)
    record({"memset", 0, 0, 0, unsigned(bytes), 1, 0, /*overlaps=*/false, {}}, stream);
  return 0;
}

int cuEventCreate(CUevent_st **event, unsigned) {
  ENTER(cuEventCreate);
  CHECK(checkContext());
  std::lock_guard lock(mutex);
  *event = new CUevent_st;
  events.insert(*event);
  return 0;
}

int cuEventDestroy_v2(CUevent_st *event) {
  int failure = enter(entry_cuEventDestroy_v2);
  std::lock_guard lock(mutex);
  if (!events.erase(event))
    return errorInvalidHandle;
  delete event;
  return failure;
}

int cuEventRecord(CUevent_st *, CUstream_st *stream) {
  ENTER(cuEventRecord);
  return checkStream(stream);
}

int cuEventSynchronize(CUevent_st *) {
  ENTER(cuEventSynchronize);
  return checkContext(true);
}

int cuEventElapsedTime(float *milliseconds, CUevent_st *, CUevent_st *) {
  ENTER(cuEventElapsedTime);
  *milliseconds = 1;
  return 0;
}

int cuLinkCreate_v2(unsigned, int *, void **, CUlinkState_st **state) {
  ENTER(cuLinkCreate_v2);
  CHECK(checkContext());
  std::lock_guard lock(mutex);
  *state = new CUlinkState_st;
  linkStates.insert(*state);
  return 0;
}

int cuLinkAddData_v2(CUlinkState_st *state, int, void *data, size_t bytes, const char *, unsigned,
                     int *, void **) {
  ENTER(cuLinkAddData_v2);
  state->ptx.assign(static_cast<const char *>(data), bytes);
  return 0;
}

/// The cubin is the PTX itself.
int cuLinkComplete(CUlinkState_st *state, void **cubin, size_t *bytes) {
  ENTER(cuLinkComplete);
  *cubin = state->ptx.data();
  *bytes = state->ptx.size();
  return 0;
}

int cuLinkDestroy(CUlinkState_st *state) {
  int failure = enter(entry_cuLinkDestroy);
  std::lock_guard lock(mutex);
  if (!linkStates.erase(state))
    return errorInvalidHandle;
  delete state;
  return failure;
}

#ifndef TESELA_STUB_WITHOUT_TENSOR_MAPS
/// The map's bytes are the parameters, the address first.
int cuTensorMapEncodeTiled(CUtensorMap_st *map, int elementType, uint32_t rank, void *address,
                           const uint64_t *extents, const uint64_t *strideBytes,
                           const uint32_t *box, const uint32_t *elementStrides, int interleave,
                           int swizzle, int promotion, int fill) {
  ENTER(cuTensorMapEncodeTiled);
  if (!currentContext())
    return errorInvalidContext;
  bool fits = rank >= 1 && rank <= 5 && address && reinterpret_cast<uintptr_t>(address) % 16 == 0 &&
              reinterpret_cast<uintptr_t>(map) % 64 == 0;
  for (uint32_t axis = 0; fits && axis < rank; ++axis)
    fits = extents[axis] >= 1 && box[axis] >= 1 && box[axis] <= 256 && elementStrides[axis] == 1 &&
           (axis + 1 == rank ||
            (strideBytes[axis] % 16 == 0 && strideBytes[axis] < uint64_t(1) << 40));
  if (!fits)
    return errorInvalidValue;
  char bytes[128] = {};
  size_t at = 0;
  auto put = [&](const void *from, size_t size) {
    std::memcpy(bytes + at, from, size);
    at += size;
  };
  put(&address, sizeof address);
  put(extents, rank * sizeof *extents);
  put(strideBytes, (rank - 1) * sizeof *strideBytes);
  put(box, rank * sizeof *box);
  for (int each : {int(rank), elementType, interleave, swizzle, promotion, fill})
    bytes[at++] = char(each);
  std::memcpy(static_cast<void *>(map), bytes, sizeof bytes);
  return 0;
}

#define ENTRY(name, parameters) static_assert(std::is_same_v<decltype(&::name), int(*) parameters>);
TESELA_CUDA_DRIVER_TABLE(ENTRY)
TESELA_STUB_LAUNCHER_TABLE(ENTRY)
#undef ENTRY
#endif

} // extern "C"

#pragma GCC visibility pop
