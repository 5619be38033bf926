//===- OtherEntries.cpp - The driver's entries that tell nothing ----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What RecordingDriver.cpp does not define of the table succeeds and does nothing.
//
//===----------------------------------------------------------------------===//
#include "driver/DriverApi.h"

using tesela::cuda::DevicePointer;

#pragma GCC visibility push(default)
extern "C" {
#define ENTRY(name, parameters)                                                                    \
  __attribute__((weak)) int name parameters { return 0; }
TESELA_CUDA_DRIVER_TABLE(ENTRY)
#undef ENTRY
}
#pragma GCC visibility pop
