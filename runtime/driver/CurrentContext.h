//===- CurrentContext.h - Makes a CUDA context current ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DRIVER_CURRENTCONTEXT_H
#define TESELA_DRIVER_CURRENTCONTEXT_H

#include "driver/DriverApi.h"

namespace tesela::cuda {

/// Makes `context` current for the calling thread, if it is not. True: cuCtxPopCurrent must
/// follow.
inline Result<bool> makeCurrent(const DriverApi &api, CUctx_st *context) {
  CUctx_st *current = nullptr;
  if (api.cuCtxGetCurrent(&current) == success && current == context)
    return false;
  if (int result = api.cuCtxPushCurrent_v2(context); result != success)
    return api.check(result, "cuCtxPushCurrent").error();
  return true;
}

/// Makes a context current for the calling thread during its life; then the caller's is current
/// again.
class CurrentContext {
public:
  CurrentContext(const DriverApi &api, CUctx_st *context) : api(api) {
    Result<bool> made = makeCurrent(api, context);
    if (!made)
      status_ = made.error();
    pushed = made && *made;
  }
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;
  ~CurrentContext() {
    CUctx_st *popped;
    if (pushed)
      api.cuCtxPopCurrent_v2(&popped);
  }
  const Status &status() const { return status_; }

private:
  const DriverApi &api;
  Status status_;
  bool pushed = false;
};

/// During its life, the calling thread may allocate, free and load without disturbing captures that
/// this or another thread has begun. In the default capture mode such calls would fail and break
/// the capture. Nothing of them is captured.
class RelaxedCapture {
public:
  explicit RelaxedCapture(const DriverApi &api) : api(api) {
    exchanged = api.cuThreadExchangeStreamCaptureMode(&mode) == success;
  }
  RelaxedCapture(const RelaxedCapture &) = delete;
  RelaxedCapture &operator=(const RelaxedCapture &) = delete;
  ~RelaxedCapture() {
    if (exchanged)
      api.cuThreadExchangeStreamCaptureMode(&mode);
  }

private:
  const DriverApi &api;
  int mode = captureModeRelaxed;
  bool exchanged;
};

} // namespace tesela::cuda

#endif // TESELA_DRIVER_CURRENTCONTEXT_H
