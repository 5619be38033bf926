//===- CurrentContext.h - A context for as long as it is needed -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DRIVER_CURRENTCONTEXT_H
#define TESELA_DRIVER_CURRENTCONTEXT_H

#include "driver/DriverApi.h"

namespace tesela::cuda {

/// Makes a context current for the calling thread for as long as this lives; the
/// caller's own is current again after it.
class CurrentContext {
public:
  CurrentContext(const DriverApi &api, CUctx_st *context)
      : api(api), status_(api.check(api.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")) {}
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;
  ~CurrentContext() {
    CUctx_st *popped;
    if (status_)
      api.cuCtxPopCurrent_v2(&popped);
  }
  const Status &status() const { return status_; }

private:
  const DriverApi &api;
  Status status_;
};

} // namespace tesela::cuda

#endif // TESELA_DRIVER_CURRENTCONTEXT_H
