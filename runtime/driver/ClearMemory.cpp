//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/ClearMemory.h"

namespace tesela::cuda {

Status clearMemory(const DriverApi &api, std::span<const DevicePointer> addresses, size_t bytes) {
  CUstream_st *stream = nullptr;
  if (Status status = api.check(api.cuStreamCreate(&stream, streamNonBlocking), "cuStreamCreate");
      !status)
    return status;
  Status status;
  for (DevicePointer address : addresses)
    if (status)
      status = api.check(api.cuMemsetD8Async(address, 0, bytes, stream), "cuMemsetD8Async");
  if (status)
    status = api.check(api.cuStreamSynchronize(stream), "cuStreamSynchronize");
  api.cuStreamDestroy_v2(stream);
  return status;
}

} // namespace tesela::cuda
