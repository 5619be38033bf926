//===- State.h - What the public handles hold -------------------*- C++ -*-===//
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

/// A kernel as the memory cache keeps it, shared by all handles. It does not
/// refer to its context: the context's cache holds it.
struct LoadedKernel {
  std::shared_ptr<const Backend> backend;
  LaunchPlan plan;
  std::shared_ptr<const LoadedCode> code;
  std::unique_ptr<PerProcess<Workspaces>> workspaces; ///< a launch locks its own as long as it runs
  KernelInfo info; ///< without origin and stages, which belong to a request
  std::unique_ptr<FirstLaunch> firstLaunch; ///< to be verified; null: it is not
  std::string key;                          ///< of its entry, for events; "": of a bundle
};

struct Kernel::State {
  std::shared_ptr<const LoadedKernel> kernel;
  KernelInfo info;
  std::shared_ptr<const EventSink> events; ///< where launches are told; none: nowhere
  std::shared_ptr<TunedKernels> tuned;     ///< by the sizes of launches; null: `kernel` alone
  std::shared_ptr<Replacement> better;     ///< of a simple kernel; null: there is none
};

/// Whether some launch of the kernel may take a workspace. Where none does, the arguments need not
/// be looked at to say so.
bool mayTakeWorkspace(const Kernel::State &state);

/// What launches of the kernel on `stream` run after. In a capture: they become part of a graph.
Result<StreamUse> streamUseOf(const Kernel::State &state, void *stream);

struct ContextState {
  std::shared_ptr<Backend> backend;
  std::shared_ptr<const EventSink> events;
  std::optional<DiskCache> disk;
  std::optional<ShippedKernels> shipped; ///< where there is a disk cache, below that
  OnceMap<LoadedKernel> memory;
  std::shared_ptr<OnceMap<std::string>> oracles =
      std::make_shared<OnceMap<std::string>>(); ///< cubins by source
  std::atomic<int64_t> compileCount = 0;
  int threads = 0;
  bool verify = false;                 ///< the first launch of each kernel
  std::optional<ContextTuning> tuning; ///< always there; uses what stands before it
  bool hasTiers = false;               ///< whether all kernels may begin with a simple schedule
  Tiers tiers{*this};
  Preparations preparations; ///< the last member: it goes first, and uses the others until then

  explicit ContextState(size_t mostKernels) : memory(mostKernels) {}
};

/// `artifact` loaded into `backend`, its plan checked. `assembler`: what made its code, where that
/// is not the backend's own. `key`: LoadedKernel's.
Result<std::shared_ptr<const LoadedKernel>>
loadKernel(const Artifact &artifact, const Backend &backend,
           std::unique_ptr<FirstLaunch> firstLaunch = nullptr, const std::string &assembler = "",
           const std::string &key = "");

/// The options that `specification` was made of, without a schedule.
KernelOptions optionsOf(const KernelSpecification &specification);

/// Code::unsupported where `options` name another template than attention's, of which there is no
/// `what` ("a bundle").
Status checkIsAttention(const KernelOptions &options, const std::string &what);

/// The values of `options` as the compiler takes them.
std::vector<ConstantValue> constantsOf(const KernelOptions &options);

/// `options` as the compiler takes them, for `defaultTarget` where they name none. Checks
/// what can be told without the variant.
Result<KernelSpecification> makeSpecification(const KernelOptions &options,
                                              const std::string &defaultTarget);

/// A parameter as the public headers have it.
VariantParameter describeParameter(const Parameter &parameter);

/// While templates come from a folder, what was compiled before says nothing.
bool templateFolderInUse();

} // namespace tesela

#endif // TESELA_API_STATE_H
