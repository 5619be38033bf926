//===- Kernel.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/State.h"

namespace tesela {

Kernel::Kernel(std::shared_ptr<const State> state) : state(std::move(state)) {}

const KernelInfo &Kernel::info() const { return state->info; }

static Status check(const LoadedKernel &kernel, const LaunchArguments &arguments,
                    CheckedArguments &checked) {
  if (Status status = checkArguments(kernel.plan.signature(), arguments,
                                     {kernel.backend->addressAlignment(), true}, checked);
      !status)
    return status;
  if (Status status = kernel.plan.checkItems(checked.extents); !status)
    return status;
  return kernel.plan.checkCaptures(checked);
}

static Status checkAll(const LoadedKernel &kernel, const LaunchArguments &arguments,
                       CheckedArguments &checked) {
  Status status = check(kernel, arguments, checked);
  return status ? kernel.plan.checkWorkspace(checked, arguments.workspace) : status;
}

Status Kernel::launch(const LaunchArguments &arguments, void *stream) const {
  CheckedArguments checked;
  if (Status status = checkAll(*state->kernel, arguments, checked); !status)
    return status.error().within("launching '" + state->info.variantName + "'");
  return state->kernel->plan.launch(*state->kernel->code, checked, stream,
                                    state->kernel->workspaces.get(), arguments.workspace);
}

Status Kernel::checkArguments(const LaunchArguments &arguments) const {
  CheckedArguments checked;
  return checkAll(*state->kernel, arguments, checked);
}

Result<size_t> Kernel::workspaceBytes(const LaunchArguments &arguments) const {
  CheckedArguments checked;
  if (Status status = check(*state->kernel, arguments, checked); !status)
    return status.error();
  return state->kernel->plan.workspaceBytes(checked);
}

} // namespace tesela
