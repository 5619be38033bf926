//===- ProfilerRange.h - Ranges on a profiler's timeline --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// NVTX without its headers. A profiler (Nsight Systems, Nsight Compute) names a library in the
// variable NVTX_INJECTION64_PATH; a program that has something to say opens it, hands it a table of
// pointers, and calls what it has put there. These tables are the contract between any program and
// any profiler: they never change, only grow. Where the headers are found, a test holds what stands
// in Nvtx.h against them. Source: NVTX 3, nvtxDetail/nvtxInit.h and nvtxTypes.h.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_EVENTS_PROFILERRANGE_H
#define TESELA_EVENTS_PROFILERRANGE_H

#include <string>

namespace tesela {

/// From its making to its end the calling thread's time stands under "tesela: WHAT NAME", where a
/// profiler listens. Else it costs a test. Allocates nothing.
class ProfilerRange {
public:
  ProfilerRange(const char *what, const std::string &name);
  ProfilerRange(const ProfilerRange &) = delete;
  ProfilerRange &operator=(const ProfilerRange &) = delete;
  ~ProfilerRange();

  /// Whether a profiler listens; found out once a process.
  static bool isHeard();

private:
  bool pushed = false;
};

} // namespace tesela

#endif // TESELA_EVENTS_PROFILERRANGE_H
