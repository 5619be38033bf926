//===- CudaStub.h - A CUDA driver without a GPU, for tests -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A libcuda.so.1 for tests: all functions of driver/DriverApi.h, on plain memory. Kernels do not
// run; their parameters are recorded. The stub enforces those rules of the driver that matter to
// Tesela: handles must be alive, the context must be the module's, and a capture into a graph
// forbids allocations (unless relaxed) and waiting for its stream and the default stream. A program
// that links the stub finds it by the driver's name and controls it by the functions below.
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

/// Objects that were not given back.
struct Live {
  int contexts = 0, modules = 0, allocations = 0, streams = 0, events = 0, linkStates = 0;
  int pushed = 0; ///< contexts on the calling thread's stack
  bool operator==(const Live &) const = default;
};

/// A kernel that was launched, or a memset on a stream (kernel "memset").
struct StubLaunch {
  std::string kernel;
  int device = 0;
  uint64_t stream = 0;  ///< the stream's number
  uint64_t capture = 0; ///< the capture that recorded it; 0: it was started
  unsigned grid = 0, block = 0, sharedBytes = 0;
  bool overlaps = false;               ///< whether it may begin while the previous one ends
  std::vector<std::string> parameters; ///< the bytes of each; empty if the image is no text
};

/// Two H200, CUDA 13.0, no failing call, all counts 0, no recording. Live objects stay.
void reset();
void setDevices(std::vector<StubDevice> devices);
void setVersion(int version);

/// The `call`-th call of `entry` from now on (1: the next) returns `result` and does nothing.
/// Exception: a call that gives something back does so, like the driver's when it reports an error
/// of an earlier launch. There is one such failure at a time; "" cancels it.
void failCall(const std::string &entry, int call, int result);
/// Whether that call has happened.
bool hasFailed();
/// Calls of `entry` since reset().
int callsOf(const std::string &entry);

Live live();
/// Bytes of device memory that are allocated.
size_t liveBytes();

/// The location of an address of device memory: the bytes of its allocation, and the offset in it.
/// 0 bytes: it is in none.
struct Place {
  size_t bytes = 0, offset = 0;
};
Place placeOf(uint64_t address);

/// Gives back live memory and modules that a program could not give back because the driver refused
/// the context.
void reclaim();

/// From now on launches are recorded; before they are only counted.
void recordLaunches();
std::vector<StubLaunch> takeLaunches();

/// From now on captures what is started on `stream`, in the most restrictive mode. Returns the
/// capture's number.
uint64_t beginCapture(CUstream_st *stream);
/// Ends the capture; true if nothing forbidden was done. The graph stays.
bool endCapture(CUstream_st *stream);
/// Destroys the graph of the capture with that number.
void destroyGraph(uint64_t capture);
/// Destroys the graphs of all captures.
void destroyGraphs();

} // namespace tesela::stub
#pragma GCC visibility pop

#endif // TESELA_TESTS_CUDASTUB_H
