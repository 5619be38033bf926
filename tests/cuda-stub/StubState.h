//===- StubState.h - What the stub of the driver knows ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_STUBSTATE_H
#define TESELA_TESTS_STUBSTATE_H

#include "CudaStub.h"
#include "StubImage.h"
#include "driver/DriverApi.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>

// The driver's opaque types.
struct CUctx_st {
  int device;
  std::atomic<int> retained = 0;
};
struct CUmod_st {
  CUctx_st *context;
  tesela::stub::StubImage image;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};
struct CUfunc_st {
  CUctx_st *context;
  const tesela::stub::StubImage::Kernel *kernel;
  std::atomic<int> mostSharedBytes = 48 * 1024; ///< what a launch may ask for
};
struct CUstream_st {
  CUctx_st *context;
  uint64_t id;
  bool blocking;
  std::atomic<bool> lives = true;
  std::atomic<uint64_t> capture = 0;
  CUgraph_st *graph = nullptr; ///< that the capture makes
};
struct CUuserObject_st {
  void *pointer;
  void (*destroy)(void *);
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUuserObject_st>> owned;
};
struct CUevent_st {};
struct CUlinkState_st {
  std::string ptx;
};

namespace tesela::stub {

using namespace cuda;

/// What exported launchers in C (runtime/bundle/launcher) call besides.
#define TESELA_STUB_LAUNCHER_TABLE(ENTRY)                                                          \
  ENTRY(cuMemcpyHtoD_v2, (DevicePointer to, const void *from, size_t bytes))                       \
  ENTRY(cuMemcpyDtoH_v2, (void *to, DevicePointer from, size_t bytes))                             \
  ENTRY(cuMemsetD8_v2, (DevicePointer address, unsigned char value, size_t bytes))

enum Entry {
#define ENTRY(name, parameters) entry_##name,
  TESELA_CUDA_DRIVER_TABLE(ENTRY) TESELA_STUB_LAUNCHER_TABLE(ENTRY)
#undef ENTRY
      entryCount
};
inline constexpr const char *entryNames[] = {
#define ENTRY(name, parameters) #name,
    TESELA_CUDA_DRIVER_TABLE(ENTRY) TESELA_STUB_LAUNCHER_TABLE(ENTRY)
#undef ENTRY
};

enum Result {
  errorInvalidValue = 1,
  errorNotInitialized = 3,
  errorInvalidDevice = 101,
  errorInvalidImage = 200,
  errorInvalidContext = 201,
  errorNotFound = 500,
  errorNotPermitted = 800,
  errorCaptureUnsupported = 900,
  errorCaptureImplicit = 906,
};

/// Streams that are no pointers: the default one (null or 1) and a thread's own (2).
constexpr uint64_t defaultStreamId = 1, threadStreamId = 2;

inline std::mutex mutex; ///< guards what follows, as far as it is not atomic
inline std::vector<StubDevice> devices(2);
inline std::atomic<int> version = 13000;
inline std::atomic<bool> initialized = false;
inline CUctx_st contexts[16];
inline std::set<const CUmod_st *> modules;
inline std::set<const CUevent_st *> events;
inline std::set<const CUlinkState_st *> linkStates;
inline std::map<DevicePointer, std::pair<std::unique_ptr<char[]>, size_t>> allocations;
/// Also those that were destroyed: a handle that is used too late is told, not followed.
inline std::vector<std::unique_ptr<CUstream_st>> streams;
inline std::atomic<int> liveStreams = 0;
inline std::atomic<int> captures = 0; ///< that are under way
inline std::atomic<uint64_t> nextCapture = 1;
inline std::set<uint64_t> brokenCaptures;
inline std::map<uint64_t, CUgraph_st> graphs;         ///< by the capture that made them
inline std::set<const CUuserObject_st *> userObjects; ///< that no graph has

inline std::atomic<int> calls[entryCount];
inline std::atomic<int> failingEntry = -1, failingCall = 0, failingResult = 0;
inline std::atomic<bool> recording = false;
inline std::vector<StubLaunch> launches;

inline thread_local CUctx_st *contextStack[64];
inline thread_local int contextDepth = 0;
inline thread_local int captureMode = 0; // CU_STREAM_CAPTURE_MODE_GLOBAL
/// The thread runs what a user object calls, where no function of the driver may be called.
inline thread_local bool isDestroying = false;

} // namespace tesela::stub

#endif // TESELA_TESTS_STUBSTATE_H
