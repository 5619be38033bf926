//===- Kernel.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/State.h"

namespace tesela {

Kernel::Kernel(std::shared_ptr<const State> state) : state(std::move(state)) {}

const KernelInfo &Kernel::info() const { return state->info; }

static Result<CheckedArguments> check(const LoadedKernel &kernel,
                                      const LaunchArguments &arguments) {
  Result<CheckedArguments> checked = checkArguments(kernel.plan.signature(), arguments,
                                                    {kernel.backend->addressAlignment(), true});
  if (!checked)
    return checked;
  if (Status status = kernel.plan.checkItems(checked->extents); !status)
    return status.error();
  if (Status status = kernel.plan.checkCaptures(*checked); !status)
    return status.error();
  return checked;
}

Status Kernel::launch(const LaunchArguments &arguments, void *stream) const {
  Result<CheckedArguments> checked = check(*state->kernel, arguments);
  if (!checked)
    return checked.error().within("launching '" + state->info.variantName + "'");
  return state->kernel->plan.launch(*state->kernel->code, *checked, stream,
                                    state->kernel->workspaces.get());
}

Status Kernel::checkArguments(const LaunchArguments &arguments) const {
  Result<CheckedArguments> checked = check(*state->kernel, arguments);
  return checked ? Status::success() : Status(checked.error());
}

} // namespace tesela
