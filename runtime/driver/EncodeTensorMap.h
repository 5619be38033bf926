//===- EncodeTensorMap.h - The driver's form of a tensor map ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_DRIVER_ENCODETENSORMAP_H
#define TESELA_DRIVER_ENCODETENSORMAP_H

#include "backend/TensorMap.h"
#include "driver/DriverApi.h"

namespace tesela::cuda {

/// Encodes `tiling` into `map`, on the host and without allocation. The device's context must be
/// current. Code::driver: the driver refuses it.
Status encodeTensorMap(const DriverApi &api, const TensorTiling &tiling, TensorMap &map);

} // namespace tesela::cuda

#endif // TESELA_DRIVER_ENCODETENSORMAP_H
