//===- ClearMemory.h - Zeros in the device's memory -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DRIVER_CLEARMEMORY_H
#define TESELA_DRIVER_CLEARMEMORY_H

#include "driver/DriverApi.h"

#include <span>

namespace tesela::cuda {

/// Sets `bytes` at each address to 0 and waits for that only. Nothing else may use the memory yet.
/// It uses its own stream, because the default stream would wait for launches, and fails while
/// another stream captures a graph. The device's context must be current.
Status clearMemory(const DriverApi &api, std::span<const DevicePointer> addresses, size_t bytes);

} // namespace tesela::cuda

#endif // TESELA_DRIVER_CLEARMEMORY_H
