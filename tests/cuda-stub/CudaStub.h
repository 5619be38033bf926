//===- CudaStub.h - A CUDA driver without a GPU, told what to do -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// libcuda.so.1 for tests: all functions of driver/DriverApi.h, on plain memory. Kernels do not run;
// what they would be given is recorded. It holds callers to the driver's rules as far as Tesela
// meets them: handles must live, the context must be the module's, a capture into a graph forbids
// allocations (unless relaxed), waiting for its stream and the default stream. A program that links
// it finds it under the driver's name, and tells it what to do by what stands here.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_CUDASTUB_H
#define TESELA_TESTS_CUDASTUB_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct CUstream_st;

#pragma GCC visibility push(default)
namespace tesela::stub {

struct StubDevice {
  std::string name = "NVIDIA H200";
  int major = 9, minor = 0;
  int processors = 132;
  size_t memoryBytes = size_t(141) << 30;
};

/// What is there and was not given back.
struct Live {
  int contexts = 0, modules = 0, allocations = 0, streams = 0, events = 0, linkStates = 0;
  int pushed = 0; ///< contexts on the calling thread's stack
  bool operator==(const Live &) const = default;
};

/// A kernel that was started, or a memset on a stream (kernel "memset").
struct StubLaunch {
  std::string kernel;
  int device = 0;
  uint64_t stream = 0;  ///< its number
  uint64_t capture = 0; ///< the capture that it became part of; 0: it was started
  unsigned grid = 0, block = 0, sharedBytes = 0;
  bool overlaps = false;               ///< it may begin while the one before it ends
  std::vector<std::string> parameters; ///< their bytes; none where the image is no text
};

/// Two H200, CUDA 13.0; no call fails, none is counted, nothing is recorded. What is live stays so.
void reset();
void setDevices(std::vector<StubDevice> devices);
void setVersion(int version);

/// The `call`-th call of `entry` from now on (1: the next) returns `result`. It does nothing then,
/// unless it gives something back: that it does all the same, as the driver's do when they tell of
/// an earlier launch. One failure at a time; "" takes it back.
void failCall(const std::string &entry, int call, int result);
/// Whether that call has come.
bool hasFailed();
/// Calls of `entry` since reset().
int callsOf(const std::string &entry);

Live live();
/// Device memory that is allocated.
size_t liveBytes();

/// Where an address of device memory lies: the bytes of its allocation, and the offset in it. 0
/// bytes: in none.
struct Place {
  size_t bytes = 0, offset = 0;
};
Place placeOf(uint64_t address);

/// Gives back the memory and the modules that are live: what a program could not, because the
/// driver refused the context that this needs.
void reclaim();

/// Launches are recorded from now on; else they only count.
void recordLaunches();
std::vector<StubLaunch> takeLaunches();

/// Captures what is started on `stream` from now on, in the mode that forbids most; the capture's
/// number.
uint64_t beginCapture(CUstream_st *stream);
/// Whether nothing that is forbidden was done during the capture. Its graph stays.
bool endCapture(CUstream_st *stream);
/// Destroys what the capture of that number has made.
void destroyGraph(uint64_t capture);
/// Destroys what all captures have made.
void destroyGraphs();

} // namespace tesela::stub
#pragma GCC visibility pop

#endif // TESELA_TESTS_CUDASTUB_H
