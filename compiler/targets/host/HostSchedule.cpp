//===- HostSchedule.cpp - How kernels run on the CPU ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/HostSchedule.h"

namespace tesela {

// Measured: the same extents are best, or within the noise of it, for all that the host takes.
HostChoices hostChoices(ElementType, int64_t, int64_t, const VectorUnit &unit) {
  return {.blockM = 64,
          .blockN = 64,
          .lanes = unit.width,
          .productRows = unit.productRows,
          .productVectors = unit.productVectors,
          .productPairs = false};
}

} // namespace tesela
