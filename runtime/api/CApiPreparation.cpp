//===- CApiPreparation.cpp - tesela/c/preparation.h -----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApi.h"
#include "tesela/c/preparation.h"

using namespace tesela;
using namespace tesela::c;

struct tesela_preparation {
  Preparation preparation;
  Device device;
};

tesela_code tesela_prepare(tesela_context *context, const tesela_kernel_options *options,
                           int64_t milliseconds, tesela_preparation **preparation) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(preparation, "preparation"); !status)
      return status;
    if (!context)
      return noHandle("context", "tesela_context_create");
    Result<KernelOptions> chosen = kernelOptions(options);
    if (!chosen)
      return chosen.error();
    std::optional<std::chrono::milliseconds> time;
    if (milliseconds > 0)
      time = bounded(milliseconds);
    Result<Preparation> prepared = context->context.prepare(*chosen, time);
    if (!prepared)
      return prepared.error();
    *preparation = new tesela_preparation{std::move(*prepared), context->context.device()};
    return Status::success();
  });
}

void tesela_preparation_cancel(tesela_preparation *preparation) {
  if (preparation)
    preparation->preparation.cancel();
}

int tesela_preparation_wait(const tesela_preparation *preparation, int64_t milliseconds) {
  return preparation && preparation->preparation.waitFor(bounded(milliseconds));
}

tesela_code tesela_preparation_get(const tesela_preparation *preparation, tesela_kernel **kernel) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(kernel, "kernel"); !status)
      return status;
    if (!preparation)
      return noHandle("preparation", "tesela_prepare");
    Result<Kernel> made = preparation->preparation.get();
    if (!made)
      return made.error();
    *kernel = makeKernelHandle(std::move(*made), preparation->device);
    return Status::success();
  });
}

void tesela_preparation_destroy(tesela_preparation *preparation) { delete preparation; }
