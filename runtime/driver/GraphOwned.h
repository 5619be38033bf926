//===- GraphOwned.h - What lives as long as a graph -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The nodes of a graph read memory and run code that Tesela owns. A user object of the driver
// ("CUDA Driver API", 6.23) tells when a graph, its copies and its instances are gone. It tells so
// on a thread on which no function of the driver may be called, so what was kept is handed to a
// thread of Tesela's own, which may free memory and unload modules.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_DRIVER_GRAPHOWNED_H
#define TESELA_DRIVER_GRAPHOWNED_H

#include "driver/DriverApi.h"

#include <memory>

namespace tesela::cuda {

/// Keeps `kept` as long as `graph`, which may still be captured, its copies and its instances
/// exist.
Status keepForGraph(const DriverApi &api, CUgraph_st *graph, std::shared_ptr<const void> kept);

/// Waits until what graphs kept, and keep no more, has gone.
void awaitReleases();

} // namespace tesela::cuda

#endif // TESELA_DRIVER_GRAPHOWNED_H
