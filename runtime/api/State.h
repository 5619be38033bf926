//===- State.h - The contents of the public handles -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_API_STATE_H
#define TESELA_API_STATE_H

#include "api/Preparations.h"
#include "api/Replacement.h"
#include "api/Tiers.h"
#include "backend/Backend.h"
#include "cache/DiskCache.h"
#include "cache/OnceMap.h"
#include "cache/ShippedKernels.h"
#include "check/FirstLaunch.h"
#include "events/EventSink.h"
#include "launch/LaunchPlan.h"
#include "system/PerProcess.h"
#include "tesela/Context.h"
#include "tesela/compiler/Compile.h"
#include "tune/ContextTuning.h"

#include <atomic>
#include <memory>
#include <optional>

namespace tesela {

/// A kernel in the memory cache, shared by all its handles. It does not refer to its context,
/// because the context's cache owns it.
struct LoadedKernel {
  std::shared_ptr<const Backend> backend;
  LaunchPlan plan;
  std::shared_ptr<const LoadedCode> code;
  std::unique_ptr<PerProcess<Workspaces>> workspaces; ///< a launch locks its workspace
  KernelInfo info; ///< without origin and stages, which belong to a request
  std::unique_ptr<FirstLaunch> firstLaunch; ///< verifies the first launch; null: no verification
  std::string key;                          ///< of the cache entry, for events; "": a bundle
};

struct Kernel::State {
  std::shared_ptr<const LoadedKernel> kernel;
  KernelInfo info;
  std::shared_ptr<const EventSink> events; ///< where launches are reported; null: nowhere
  std::shared_ptr<TunedKernels> tuned;     ///< by the sizes of launches; null: only `kernel`
  std::shared_ptr<Replacement> better;     ///< for a simple kernel; null: there is none
};

/// Whether a launch of the kernel can need a workspace. If not, its size is 0 for all
/// arguments.
bool mayTakeWorkspace(const Kernel::State &state);

/// What orders launches of the kernel on `stream`, and whether they become part of a graph.
Result<StreamUse> streamUseOf(const Kernel::State &state, void *stream);

struct ContextState {
  std::shared_ptr<Backend> backend;
  std::shared_ptr<const EventSink> events;
  std::optional<DiskCache> disk;
  std::optional<ShippedKernels> shipped; ///< present if there is a disk cache; searched after it
  OnceMap<LoadedKernel> memory;
  std::shared_ptr<OnceMap<std::string>> oracles =
      std::make_shared<OnceMap<std::string>>(); ///< cubins; the key is the source
  std::atomic<int64_t> compileCount = 0;
  int threads = 0;
  bool verify = false;                 ///< whether first launches are verified
  std::optional<ContextTuning> tuning; ///< always present; uses the members before it
  bool hasTiers = false;               ///< whether all kernels may start with a simple schedule
  Tiers tiers{*this};
  Preparations preparations; ///< the last member: it is destroyed first, because it uses the others

  explicit ContextState(size_t mostKernels) : memory(mostKernels) {}
};

/// Loads `artifact` into `backend` and checks its plan. `assembler`: what made its code, if not the
/// backend's own. `key`: of LoadedKernel.
Result<std::shared_ptr<const LoadedKernel>>
loadKernel(const Artifact &artifact, const Backend &backend,
           std::unique_ptr<FirstLaunch> firstLaunch = nullptr, const std::string &assembler = "",
           const std::string &key = "");

/// The options from which `specification` was made, without a schedule.
KernelOptions optionsOf(const KernelSpecification &specification);

/// Code::unsupported if `options` name another template than attention's, for which there is no
/// `what` ("a bundle").
Status checkIsAttention(const KernelOptions &options, const std::string &what);

/// The constants of `options` in the compiler's form.
std::vector<ConstantValue> constantsOf(const KernelOptions &options);

/// The compiler's specification for `options`, for `defaultTarget` if they name no target. Checks
/// what can be checked without the variant.
Result<KernelSpecification> makeSpecification(const KernelOptions &options,
                                              const std::string &defaultTarget);

/// Checks sizes, each of which must be at least `least`, and that the heads can share keys and
/// values.
Status checkSizes(const ProblemSizes &sizes, int64_t least);

/// A parameter in the form of the public headers.
VariantParameter describeParameter(const Parameter &parameter);

/// Whether templates come from a folder. Then nothing that was compiled before may be reused.
bool templateFolderInUse();

} // namespace tesela

#endif // TESELA_API_STATE_H
