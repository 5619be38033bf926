//===- GraphOwned.h - Objects that live as long as a graph ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The nodes of a graph use memory and code that Tesela owns. A user object of the driver ("CUDA
// Driver API", 6.23) reports when a graph, its copies and its instances are gone. It does so on a
// thread that must not call the driver. So the objects are handed to a thread of Tesela, which
// frees memory and unloads modules.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_DRIVER_GRAPHOWNED_H
#define TESELA_DRIVER_GRAPHOWNED_H

#include "driver/DriverApi.h"

#include <memory>

namespace tesela::cuda {

/// Keeps `kept` as long as `graph`, its copies and its instances exist. `graph` may still be in
/// capture.
Status keepForGraph(const DriverApi &api, CUgraph_st *graph, std::shared_ptr<const void> kept);

/// Waits until everything that graphs have released is destroyed.
void awaitReleases();

} // namespace tesela::cuda

#endif // TESELA_DRIVER_GRAPHOWNED_H
