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

/// The driver's calls of one launch of a plan, with parameters that are ready: what it costs at
/// least.
class LaunchRecord {
public:
  /// Starts `artifact`'s launches once with `arguments`, and notes what the driver is given.
  static Result<std::unique_ptr<LaunchRecord>> create(std::shared_ptr<const Backend> backend,
                                                      const Artifact &artifact,
                                                      const LaunchArguments &arguments,
                                                      CUstream_st *stream);
  ~LaunchRecord();

  /// cuLaunchKernel for each kernel.
  Status launch() const;
  /// cuLaunchKernelEx for each kernel, which begins when Tesela's own launch would let it.
  Status launchEx() const;
  /// All that a launch of Tesela does, but for starting the kernels.
  Status launchNothing() const;

  size_t kernels() const { return calls.size(); }
  int tensorMaps() const { return maps; }

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

  /// As Kernel::launch, of the plan itself.
  Status launchThrough(const LoadedCode &through) const;

  std::shared_ptr<const Backend> backend;
  const cuda::DriverApi *api = nullptr;
  CUmod_st *module = nullptr;
  CUstream_st *stream = nullptr;
  std::shared_ptr<const LoadedCode> code; ///< whose counters and zeros the parameters name
  std::shared_ptr<Workspaces> workspaces;
  std::optional<LaunchPlan> plan;
  LaunchArguments arguments;
  std::vector<Call> calls;
  int maps = 0;
};

} // namespace tesela

#endif // TESELA_LAUNCH_COST_LAUNCHRECORD_H
