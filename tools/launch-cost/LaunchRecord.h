//===- LaunchRecord.h - A launch as the driver alone takes it ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_COST_LAUNCHRECORD_H
#define TESELA_LAUNCH_COST_LAUNCHRECORD_H

#include "backend/Backend.h"
#include "driver/DriverApi.h"
#include "launch/LaunchPlan.h"
#include "tesela/Kernel.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tesela {

/// The driver's calls for one launch of a plan, with parameters that are ready. Their time is the
/// least that a launch can cost.
class LaunchRecord {
public:
  /// Launches `artifact` once with `arguments`, and records what the driver is given.
  static Result<std::unique_ptr<LaunchRecord>> create(const std::shared_ptr<const Backend> &backend,
                                                      const Artifact &artifact,
                                                      const LaunchArguments &arguments,
                                                      CUstream_st *stream);
  ~LaunchRecord();

  /// Calls cuLaunchKernel for each kernel.
  Status launch() const;
  /// Calls cuLaunchKernelEx for each kernel, with the launch attributes that Tesela uses.
  Status launchEx() const;
  /// Does everything that a launch of Tesela does, but starts no kernel.
  Status launchNothing() const;

  size_t kernels() const { return calls.size(); }
  int tensorMaps() const { return maps; }
  /// Kernels of a launch whose captured tensors are unchanged since the one before.
  size_t keptKernels() const { return kept; }

private:
  struct Parameter {
    alignas(128) std::byte bytes[128];
  };
  struct Call {
    CUfunc_st *function;
    unsigned grid, block, sharedBytes;
    bool overlaps;
    std::vector<Parameter> parameters;
    std::vector<void *> pointers;
  };
  class Forwarding;
  class Recorder;
  class Silent;
  class Counter;

  /// Launches the plan as Kernel::launch does, with `through` in place of the loaded code.
  Status launchThrough(const LoadedCode &through) const;

  std::shared_ptr<const Backend> backend;
  const cuda::DriverApi *api = nullptr;
  CUmod_st *module = nullptr;
  CUstream_st *stream = nullptr;
  std::shared_ptr<const LoadedCode> code; ///< owns the counters and zeros that parameters point to
  std::shared_ptr<Workspaces> workspaces;
  std::optional<LaunchPlan> plan;
  LaunchArguments arguments;
  std::vector<Call> calls;
  int maps = 0;
  size_t kept = 0;
};

} // namespace tesela

#endif // TESELA_LAUNCH_COST_LAUNCHRECORD_H
