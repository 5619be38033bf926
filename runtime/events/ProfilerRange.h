//===- ProfilerRange.h - Ranges on a profiler's timeline --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// NVTX without its headers. A profiler (Nsight Systems, Nsight Compute) sets NVTX_INJECTION64_PATH
// to a library. The program opens that library, gives it a table of pointers, and later calls the
// functions that the library has put there. These tables are the contract between all programs and
// profilers: they may grow, but never change. If NVTX's headers are found, a test compares Nvtx.h
// with them. Source: NVTX 3, nvtxDetail/nvtxInit.h and nvtxTypes.h.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_EVENTS_PROFILERRANGE_H
#define TESELA_EVENTS_PROFILERRANGE_H

#include <string>

namespace tesela {

/// Marks the calling thread's time during its life as "tesela: WHAT NAME", if a profiler listens.
/// Else it costs one test. Allocates nothing.
class ProfilerRange {
public:
  ProfilerRange(const char *what, const std::string &name);
  ProfilerRange(const ProfilerRange &) = delete;
  ProfilerRange &operator=(const ProfilerRange &) = delete;
  ~ProfilerRange();

  /// Whether a profiler listens; determined once per process.
  static bool isHeard();

private:
  bool pushed = false;
};

} // namespace tesela

#endif // TESELA_EVENTS_PROFILERRANGE_H
