//===- StubState.h - The state of the stub ----------------------*- C++ -*-===//
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
  std::atomic<int> mostSharedBytes = 48 * 1024; ///< the most that a launch may request
};
struct CUstream_st {
  CUctx_st *context;
  uint64_t id;
  bool blocking;
  std::atomic<bool> lives = true;
  std::atomic<uint64_t> capture = 0;
  CUgraph_st *graph = nullptr; ///< the graph that the capture makes
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

/// The other functions that exported launchers in C (runtime/bundle/launcher) call.
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

/// Streams that are not pointers: the default one (null or 1) and the per-thread one (2).
constexpr uint64_t defaultStreamId = 1, threadStreamId = 2;

inline std::mutex mutex; ///< guards what follows, except atomics
inline std::vector<StubDevice> devices(2);
inline std::atomic<int> version = 13000;
inline std::atomic<bool> initialized = false;
inline CUctx_st contexts[16];
inline std::set<const CUmod_st *> modules;
inline std::set<const CUevent_st *> events;
inline std::set<const CUlinkState_st *> linkStates;
inline std::map<DevicePointer, std::pair<std::unique_ptr<char[]>, size_t>> allocations;
/// Includes destroyed streams, so that the use of an old handle is reported and does not crash.
inline std::vector<std::unique_ptr<CUstream_st>> streams;
inline std::atomic<int> liveStreams = 0;
inline std::atomic<int> captures = 0; ///< number of active captures
inline std::atomic<uint64_t> nextCapture = 1;
inline std::set<uint64_t> brokenCaptures;
inline std::map<uint64_t, CUgraph_st> graphs;         ///< the key is the capture's number
inline std::set<const CUuserObject_st *> userObjects; ///< objects that no graph owns

inline std::atomic<int> calls[entryCount];
inline std::atomic<int> failingEntry = -1, failingCall = 0, failingResult = 0;
inline std::atomic<bool> recording = false;
inline std::vector<StubLaunch> launches;

inline thread_local CUctx_st *contextStack[64];
inline thread_local int contextDepth = 0;
inline thread_local int captureMode = 0; // CU_STREAM_CAPTURE_MODE_GLOBAL
/// The thread runs a user object's callback, in which no function of the driver may be called.
inline thread_local bool isDestroying = false;

} // namespace tesela::stub

#endif // TESELA_TESTS_STUBSTATE_H
