//===- Kernel.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/State.h"
#include "events/ProfilerRange.h"

#include <chrono>

namespace tesela {

Kernel::Kernel(std::shared_ptr<const State> state) : state(std::move(state)) {}

const KernelInfo &Kernel::info() const { return state->info; }

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

static Status launchChecked(const LoadedKernel &kernel, const LaunchArguments &arguments,
                            void *stream) {
  CheckedArguments checked;
  LaunchSizes sizes;
  if (Status status = checkAll(kernel, arguments, checked, sizes); !status)
    return status.error().within("launching '" + kernel.info.variantName + "'");
  return kernel.plan.launch(*kernel.code, checked, sizes, stream, kernel.workspaces.get(),
                            arguments.workspace);
}

/// Launches and tells of it.
static Status launchAloud(const LoadedKernel &kernel, const EventSink &events,
                          const LaunchArguments &arguments, void *stream) {
  auto begin = std::chrono::steady_clock::now();
  Status status = launchChecked(kernel, arguments, stream);
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

Status Kernel::launch(const LaunchArguments &arguments, void *stream) const {
  const LoadedKernel &kernel = *state->kernel;
  ProfilerRange range("launch", kernel.info.variantName);
  if (state->events && state->events->wantsEvents())
    return launchAloud(kernel, *state->events, arguments, stream);
  return launchChecked(kernel, arguments, stream);
}

Status Kernel::checkArguments(const LaunchArguments &arguments) const {
  CheckedArguments checked;
  LaunchSizes sizes;
  return checkAll(*state->kernel, arguments, checked, sizes);
}

Result<size_t> Kernel::workspaceBytes(const LaunchArguments &arguments) const {
  CheckedArguments checked;
  LaunchSizes sizes;
  if (Status status = check(*state->kernel, arguments, checked, sizes); !status)
    return status.error();
  return state->kernel->plan.workspaceBytes(sizes);
}

} // namespace tesela
