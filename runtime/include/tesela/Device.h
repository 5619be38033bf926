//===- Device.h - The devices that can run kernels --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DEVICE_H
#define TESELA_DEVICE_H

#include "tesela/Export.h"
#include "tesela/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tesela {

/// The host CPU or one GPU.
struct Device {
  enum class Kind { host, cuda } kind = Kind::host;
  int index = 0;           ///< CUDA's ordinal; 0 for the host
  std::string name;        ///< "NVIDIA H200", or the CPU's name
  std::string target;      ///< "sm_90", or "host"
  int sm = 0;              ///< compute capability, 90 for 9.0; 0 for the host
  int processors = 0;      ///< multiprocessors, or the host's hardware threads
  int64_t memoryBytes = 0; ///< the device's memory in bytes
  std::string driver;      ///< the CUDA version of the driver, "13.0"; "" for the host
};

/// The host's CPU. Never fails.
TESELA_EXPORT Device hostDevice();

/// The GPUs that the driver lists, in its order (CUDA_VISIBLE_DEVICES applies). Code::notFound:
/// there is no driver or no GPU, and the message says which; use the host. Code::unsupported: the
/// driver is too old.
TESELA_EXPORT Result<std::vector<Device>> cudaDevices();

} // namespace tesela

#endif // TESELA_DEVICE_H
