//===- RecordingDriver.h - A CUDA driver that only notes --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// libcuda.so.1 for the tests of bundles, on plain memory: kernels do not run, what they would be
// given is noted. A program that links it finds it under the driver's name; others by
// LD_LIBRARY_PATH.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RECORDINGDRIVER_H
#define TESELA_TESTS_RECORDINGDRIVER_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace tesela::stub {

/// A kernel that was started, or a memset on a stream (kernel "memset").
struct StubLaunch {
  std::string kernel;
  unsigned grid = 0, block = 0, sharedBytes = 0;
  void *stream = nullptr;
  std::vector<std::string> parameters; ///< their bytes, as the module's PTX declares them
};

/// The one device's compute capability: 90 for sm_90, as from the start.
void setCapability(int sm);

/// What was started since the last call.
std::vector<StubLaunch> takeLaunches();

/// Where `address` lies: the bytes of its allocation, and the offset in it. 0 bytes: in none.
struct Place {
  size_t bytes = 0, offset = 0;
};
Place placeOf(uint64_t address);

/// Contexts, modules, allocations and pushed contexts that were not given back.
int liveCount();

/// The next call of `entry` gives `result`.
void failNext(const std::string &entry, int result);

} // namespace tesela::stub
#pragma GCC visibility pop

#endif // TESELA_TESTS_RECORDINGDRIVER_H
