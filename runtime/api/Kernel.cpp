//===- Kernel.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/State.h"
#include "backend/EnteredDevice.h"
#include "events/ProfilerRange.h"
#include "frontend/Dropout.h"
#include "tesela/KernelTensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace tesela {

Kernel::Kernel(std::shared_ptr<const State> state) : state(std::move(state)) {}

/// The kernel that launches outside of captures run now.
static const Kernel::State &runningState(const Kernel::State &state) {
  const Kernel::State *best = state.better ? state.better->inPlace() : nullptr;
  return best ? *best : state;
}

const KernelInfo &Kernel::info() const { return runningState(*state).info; }

Result<bool> Kernel::isBest(std::chrono::milliseconds wait) const {
  return state->better ? state->better->isMade(wait) : true;
}

static Status check(const LoadedKernel &kernel, const LaunchArguments &arguments,
                    CheckedArguments &checked, LaunchSizes &sizes) {
  Status status = checkArguments(kernel.plan.signature(), arguments,
                                 {kernel.backend->addressAlignment(), true}, checked);
  return status ? kernel.plan.measure(checked, sizes) : status;
}

static Status checkAll(const LoadedKernel &kernel, const LaunchArguments &arguments,
                       CheckedArguments &checked, LaunchSizes &sizes) {
  Status status = check(kernel, arguments, checked, sizes);
  return status ? kernel.plan.checkWorkspace(sizes, arguments.workspace) : status;
}

namespace {

/// A launch of one of a handle's kernels. If the handle has several (`tuned`, or another tier),
/// another kernel may have been launched in between, so this one knows nothing about captured
/// tensors.
struct HandleLaunch {
  TunedKernels *tuned;
  bool isOneTier;
  const LaunchArguments &arguments;
  void *stream;
};

} // namespace

static Status launchOne(const LoadedKernel &kernel, const HandleLaunch &launch) {
  const LaunchArguments &arguments = launch.arguments;
  CheckedArguments checked;
  LaunchSizes sizes;
  if (Status status = checkAll(kernel, arguments, checked, sizes); !status)
    return status.error().within("launching '" + kernel.info.variantName + "'");
  if (!launch.isOneTier || (launch.tuned && !launch.tuned->alone(kernel)))
    checked.capturesUnchanged = false;
  return kernel.plan.launch(*kernel.code, checked, sizes, launch.stream, &kernel.workspaces->get(),
                            arguments.workspace);
}

/// Launches, and verifies the first launch if the context asks for it.
static Status launchVerified(const LoadedKernel &kernel, const HandleLaunch &launch) {
  Status launched = launchOne(kernel, launch);
  if (launched && kernel.firstLaunch)
    return kernel.firstLaunch->check(kernel, launch.arguments, launch.stream);
  return launched;
}

static Status launchChosen(const LoadedKernel &kernel, const HandleLaunch &launch) {
  const LoadedKernel *chosen = launch.tuned ? launch.tuned->find(launch.arguments) : nullptr;
  if (!chosen || chosen == &kernel)
    return launchVerified(kernel, launch);
  Status launched = launchVerified(*chosen, launch);
  if (launched || !launch.tuned->swaps() || launched.error().isDefect())
    return launched;
  // A swapped-in kernel may fail to launch, for example because the caller's workspace is too
  // small. The first kernel may still work.
  return launchVerified(kernel, launch);
}

/// Launches and reports it as an event.
static Status launchAloud(const LoadedKernel &kernel, const HandleLaunch &launch,
                          const EventSink &events) {
  auto begin = std::chrono::steady_clock::now();
  Status status = launchChosen(kernel, launch);
  Event event;
  event.kind = Event::Kind::launch;
  event.variant = kernel.info.variantName;
  event.target = kernel.info.target;
  event.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  if (!status)
    event.failure = status.error();
  events.emit(event);
  return status;
}

std::vector<ScalarArgument> dropoutScalars(double probability, uint64_t seed, uint64_t offset) {
  std::vector<ScalarArgument> scalars;
  double values[] = {probability, double(uint32_t(seed)), double(seed >> 32),
                     double(uint32_t(offset)), double(offset >> 32)};
  // The scalars of the first query and key keep their defaults, because kernels of older bundles
  // know only these five.
  std::vector<Parameter> parameters = dropoutParameters();
  scalars.reserve(std::size(values));
  for (size_t number = 0; number < std::size(values); ++number)
    scalars.push_back({parameters[number].name, values[number]});
  return scalars;
}

static Status launchTier(const Kernel::State &state, bool isOneTier,
                         const LaunchArguments &arguments, void *stream) {
  const LoadedKernel &kernel = *state.kernel;
  HandleLaunch launch{state.tuned.get(), isOneTier, arguments, stream};
  ProfilerRange range("launch", kernel.info.variantName);
  if (state.events && state.events->wantsEvents())
    return launchAloud(kernel, launch, *state.events);
  return launchChosen(kernel, launch);
}

/// The kernel that launches of `arguments` run for good; if launches swap, the one that compile()
/// gave.
static const LoadedKernel &lastingKernel(const Kernel::State &state,
                                         const LaunchArguments &arguments) {
  bool lasts = state.tuned && !state.tuned->swaps();
  const LoadedKernel *chosen = lasts ? state.tuned->find(arguments) : nullptr;
  return chosen ? *chosen : *state.kernel;
}

/// Why the caller's workspace is too small for `state`'s kernel. Other errors are ignored.
static Status workspaceError(const Kernel::State &state, const LaunchArguments &arguments) {
  if (arguments.workspace.bytes == 0 || !mayTakeWorkspace(state))
    return Status::success();
  const LoadedKernel &kernel = lastingKernel(state, arguments);
  CheckedArguments checked;
  LaunchSizes sizes;
  return check(kernel, arguments, checked, sizes)
             ? kernel.plan.checkWorkspace(sizes, arguments.workspace)
             : Status::success();
}

Status Kernel::launch(const LaunchArguments &arguments, void *stream) const {
  if (!state->better)
    return launchTier(*state, /*isOneTier=*/true, arguments, stream);
  const bool wasReplaced = state->better->inPlace() != nullptr;
  const State *chosen = &state->better->choose(*state, stream);
  const bool isReplaced = state->better->inPlace() != nullptr;
  // The caller sized the workspace for the simple kernel if the best one was not ready then. The
  // caller could not know that this launch would find the best one.
  if (chosen != state.get())
    if (Status status = workspaceError(*chosen, arguments); !status) {
      if (wasReplaced && state->events && state->better->isFirstWithoutWorkspace())
        state->events->warn("'" + state->kernel->info.variantName +
                            "' is launched with its simple schedule, because the best one cannot "
                            "use the given workspace: " +
                            status.error().message());
      chosen = state.get();
    }
  return launchTier(*chosen, !isReplaced, arguments, stream);
}

static Status checkOf(const Kernel::State &state, const LaunchArguments &arguments) {
  CheckedArguments checked;
  LaunchSizes sizes;
  return checkAll(lastingKernel(state, arguments), arguments, checked, sizes);
}

Status Kernel::checkArguments(const LaunchArguments &arguments) const {
  const State &running = runningState(*state);
  Status status = checkOf(running, arguments);
  return status || &running == state.get() ? status : checkOf(*state, arguments);
}

bool mayTakeWorkspace(const Kernel::State &state) {
  bool hasOthers = state.better || (state.tuned && (state.tuned->swaps() || state.tuned->isUsed()));
  return hasOthers || state.kernel->plan.hasWorkspaces();
}

Result<StreamUse> streamUseOf(const Kernel::State &state, void *stream) {
  const LoadedCode &code = *state.kernel->code;
  EnteredDevice device(code);
  if (Status status = device.status(); !status)
    return status.error();
  return code.streamUse(stream, /*isNumbered=*/false);
}

Result<ElementType> tensorType(const Kernel &kernel, std::string_view name) {
  const Signature &signature = kernel.internal()->kernel->plan.signature();
  auto found = std::ranges::find(signature.tensors, name, &DeclaredTensor::name);
  if (found == signature.tensors.end())
    return Error(Code::invalidArgument,
                 fmt::format("the kernel has no tensor '{}'; it has {}", name, signature.names()));
  return found->type;
}

static Result<size_t> workspaceBytesOf(const Kernel::State &state,
                                       const LaunchArguments &arguments) {
  if (!mayTakeWorkspace(state))
    return size_t(0);
  const LoadedKernel &kernel = lastingKernel(state, arguments);
  CheckedArguments checked;
  LaunchSizes sizes;
  if (Status status = check(kernel, arguments, checked, sizes); !status)
    return status.error();
  size_t bytes = kernel.plan.workspaceBytes(sizes);
  // Enough for both kernels, because which one runs may change before the launch.
  bool swaps = state.tuned && state.tuned->swaps();
  const LoadedKernel *chosen = swaps ? state.tuned->find(arguments) : nullptr;
  CheckedArguments ofChosen;
  LaunchSizes sizesOfChosen;
  if (chosen && check(*chosen, arguments, ofChosen, sizesOfChosen))
    bytes = std::max(bytes, chosen->plan.workspaceBytes(sizesOfChosen));
  return bytes;
}

Result<size_t> Kernel::workspaceBytes(const LaunchArguments &arguments) const {
  Result<size_t> bytes = workspaceBytesOf(*state, arguments);
  std::shared_ptr<const State> best = state->better ? state->better->made() : nullptr;
  if (!bytes || !best)
    return bytes;
  Result<size_t> ofBest = workspaceBytesOf(*best, arguments);
  return ofBest ? std::max(*bytes, *ofBest) : bytes;
}

} // namespace tesela
