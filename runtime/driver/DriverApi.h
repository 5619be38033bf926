//===- DriverApi.h - The CUDA driver's entry points -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// libcuda is opened at run time and its functions are declared here by hand, so building needs no
// CUDA toolkit. If cuda.h is found, a test compares the table and the constants with it. Source:
// the CUDA Driver API reference.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_DRIVER_DRIVERAPI_H
#define TESELA_DRIVER_DRIVERAPI_H

#include "tesela/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// The driver's opaque types, as cuda.h declares them.
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUlinkState_st;
struct CUtensorMap_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUuserObject_st;

namespace tesela::cuda {

using DevicePointer = unsigned long long;

enum DeviceAttribute {
  multiprocessorCount = 16,
  computeCapabilityMajor = 75,
  computeCapabilityMinor = 76,
};

enum FunctionAttribute {
  sharedSizeBytes = 1,
  localSizeBytes = 3,
  numberOfRegisters = 4,
  maxDynamicSharedSizeBytes = 8,
};

/// CUjit_option: options of the driver's assembler.
enum JitOption {
  jitErrorLogBuffer = 5,
  jitErrorLogBufferSizeBytes = 6,
  jitInfoLogBuffer = 3,
  jitInfoLogBufferSizeBytes = 4,
  jitLogVerbose = 12,
};

/// CUjitInputType.
enum JitInput { jitInputPtx = 1 };

/// CUtensorMapDataType, -Interleave, -Swizzle, -L2promotion and -FloatOOBfill; only the used
/// values.
enum TensorMapOption {
  tensorMapUint8 = 0,
  tensorMapFloat16 = 6,
  tensorMapBfloat16 = 9,
  tensorMapInterleaveNone = 0,
  tensorMapSwizzle128B = 3,
  tensorMapPromotion256B = 3,
  tensorMapFillZeros = 0,
};

/// CUstreamCaptureMode and CUstream_flags; only the used values.
enum StreamOption { captureModeRelaxed = 2, streamNonBlocking = 1 };

/// CUuserObject_flags and CUuserObjectRetain_flags.
enum UserObjectOption { userObjectNoDestructorSync = 1, graphTakesReference = 1 };

/// CUstreamCaptureStatus.
enum CaptureStatus { captureNone = 0, captureActive = 1, captureInvalidated = 2 };

/// CUlaunchAttributeID: the kernel may begin while the previous one in the stream ends.
enum LaunchAttributeId { launchProgrammaticStreamSerialization = 6 };

/// CUlaunchAttribute, whose value is a union of 64 bytes.
struct LaunchAttribute {
  int id;
  alignas(8) int value;
  char rest[60];
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned gridX, gridY = 1, gridZ = 1, blockX, blockY = 1, blockZ = 1, sharedBytes;
  CUstream_st *stream;
  const LaunchAttribute *attributes;
  unsigned attributeCount;
};

/// CUresult; only the values that the code names. DriverErrors.cpp has all of them.
enum ResultCode {
  success = 0,
  errorOutOfMemory = 2,
  errorNoDevice = 100,
  errorInvalidHandle = 400,
};

/// A CUresult as an error for callers.
struct DriverError {
  int result;
  Code code;
  const char *remedy; ///< what to do; never empty
};
/// All codes that the driver does not document give the same answer.
const DriverError &driverError(int result);

/// The table: each function by its name in libcuda, with its parameters. All return a CUresult (an
/// int here).
#define TESELA_CUDA_DRIVER_TABLE(ENTRY)                                                            \
  ENTRY(cuInit, (unsigned int flags))                                                              \
  ENTRY(cuDriverGetVersion, (int *version))                                                        \
  ENTRY(cuGetErrorName, (int error, const char **text))                                            \
  ENTRY(cuGetErrorString, (int error, const char **text))                                          \
  ENTRY(cuDeviceGetCount, (int *count))                                                            \
  ENTRY(cuDeviceGet, (int *device, int ordinal))                                                   \
  ENTRY(cuDeviceGetName, (char *name, int length, int device))                                     \
  ENTRY(cuDeviceGetAttribute, (int *value, int attribute, int device))                             \
  ENTRY(cuDeviceTotalMem_v2, (size_t * bytes, int device))                                         \
  ENTRY(cuDevicePrimaryCtxRetain, (CUctx_st * *context, int device))                               \
  ENTRY(cuDevicePrimaryCtxRelease_v2, (int device))                                                \
  ENTRY(cuCtxGetCurrent, (CUctx_st * *context))                                                    \
  ENTRY(cuCtxPushCurrent_v2, (CUctx_st * context))                                                 \
  ENTRY(cuCtxPopCurrent_v2, (CUctx_st * *context))                                                 \
  ENTRY(cuStreamGetId, (CUstream_st * stream, unsigned long long *id))                             \
  ENTRY(cuThreadExchangeStreamCaptureMode, (int *mode))                                            \
  ENTRY(cuStreamGetCaptureInfo_v2,                                                                 \
        (CUstream_st * stream, int *status, unsigned long long *id, CUgraph_st **graph,            \
         CUgraphNode_st *const **dependencies, size_t *dependencyCount))                           \
  ENTRY(cuUserObjectCreate, (CUuserObject_st * *object, void *pointer, void (*destroy)(void *),    \
                             unsigned int count, unsigned int flags))                              \
  ENTRY(cuUserObjectRelease, (CUuserObject_st * object, unsigned int count))                       \
  ENTRY(cuGraphRetainUserObject,                                                                   \
        (CUgraph_st * graph, CUuserObject_st * object, unsigned int count, unsigned int flags))    \
  ENTRY(cuStreamCreate, (CUstream_st * *stream, unsigned int flags))                               \
  ENTRY(cuStreamDestroy_v2, (CUstream_st * stream))                                                \
  ENTRY(cuStreamSynchronize, (CUstream_st * stream))                                               \
  ENTRY(cuModuleLoadDataEx, (CUmod_st * *module, const void *image, unsigned int optionCount,      \
                             int *options, void **optionValues))                                   \
  ENTRY(cuModuleUnload, (CUmod_st * module))                                                       \
  ENTRY(cuModuleGetFunction, (CUfunc_st * *function, CUmod_st * module, const char *name))         \
  ENTRY(cuFuncGetAttribute, (int *value, int attribute, CUfunc_st *function))                      \
  ENTRY(cuFuncSetAttribute, (CUfunc_st * function, int attribute, int value))                      \
  ENTRY(cuLaunchKernel,                                                                            \
        (CUfunc_st * function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,         \
         unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int sharedBytes,  \
         CUstream_st *stream, void **parameters, void **extra))                                    \
  ENTRY(cuLaunchKernelEx,                                                                          \
        (const LaunchConfig *config, CUfunc_st *function, void **parameters, void **extra))        \
  ENTRY(cuMemAlloc_v2, (DevicePointer * address, size_t bytes))                                    \
  ENTRY(cuMemFree_v2, (DevicePointer address))                                                     \
  ENTRY(cuMemcpyHtoDAsync_v2,                                                                      \
        (DevicePointer to, const void *from, size_t bytes, CUstream_st *stream))                   \
  ENTRY(cuMemcpyDtoHAsync_v2, (void *to, DevicePointer from, size_t bytes, CUstream_st *stream))   \
  ENTRY(cuMemsetD8Async,                                                                           \
        (DevicePointer address, unsigned char value, size_t bytes, CUstream_st *stream))           \
  ENTRY(cuEventCreate, (CUevent_st * *event, unsigned int flags))                                  \
  ENTRY(cuEventDestroy_v2, (CUevent_st * event))                                                   \
  ENTRY(cuEventRecord, (CUevent_st * event, CUstream_st * stream))                                 \
  ENTRY(cuEventSynchronize, (CUevent_st * event))                                                  \
  ENTRY(cuEventElapsedTime, (float *milliseconds, CUevent_st *begin, CUevent_st *end))             \
  ENTRY(cuLinkCreate_v2,                                                                           \
        (unsigned int optionCount, int *options, void **optionValues, CUlinkState_st **state))     \
  ENTRY(cuLinkAddData_v2,                                                                          \
        (CUlinkState_st * state, int input, void *data, size_t bytes, const char *name,            \
         unsigned int optionCount, int *options, void **optionValues))                             \
  ENTRY(cuLinkComplete, (CUlinkState_st * state, void **cubin, size_t *bytes))                     \
  ENTRY(cuLinkDestroy, (CUlinkState_st * state))                                                   \
  ENTRY(cuTensorMapEncodeTiled,                                                                    \
        (CUtensorMap_st * map, int elementType, uint32_t rank, void *address,                      \
         const uint64_t *extents, const uint64_t *strideBytes, const uint32_t *box,                \
         const uint32_t *elementStrides, int interleave, int swizzle, int promotion, int fill))

/// libcuda's functions, and the conversion of their results.
struct DriverApi {
#define TESELA_ENTRY(name, parameters) int(*name) parameters = nullptr;
  TESELA_CUDA_DRIVER_TABLE(TESELA_ENTRY)
#undef TESELA_ENTRY
  int version = 0; ///< CUDA version of the driver: 13000 for 13.0
  /// This process is a child of fork() whose parent had opened the driver. The functions then do
  /// nothing but fail, because CUDA's own would crash or hang here.
  bool isParents = false;
  /// The first version with tensor maps, numbered streams, and PTX 8.0, which sm_90 needs.
  static constexpr int oldestVersion = 12000;

  /// Whether a launch may begin while the previous one ends. Since CUDA 12.3 graphs support that
  /// too. Before, launches never overlap, in graphs and elsewhere.
  bool overlapsLaunches() const { return version >= 12030; }

  /// Converts `result` of `call` to a Status. The message has the call, the driver's own text, and
  /// the remedy.
  Status check(int result, const char *call) const;
  /// "13.0".
  std::string versionText() const;

  /// Opens the driver by the first of `names` that works and initialises it. Code::notFound: there
  /// is none. Code::unsupported: it is older than `oldestVersion`.
  static Result<DriverApi> open(const std::vector<std::string> &names);
};

/// The process's driver. Once it is open, all calls return the same; until then each call tries
/// again. In a child of fork() DriverApi::isParents may be set.
Result<const DriverApi *> driver();

} // namespace tesela::cuda

#endif // TESELA_DRIVER_DRIVERAPI_H
