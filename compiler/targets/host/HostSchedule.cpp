//===- HostSchedule.cpp - How kernels run on the CPU ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/HostSchedule.h"

namespace tesela {

// Measured (docs/performance.md): the same extents are best, or within the noise of it, for all types
// and head dimensions. With AVX-512 products are faster, and larger blocks rescale and load less for
// each of them.
HostChoices hostChoices(ElementType, int64_t, int64_t, const VectorUnit &unit) {
  int64_t block = unit.width == 16 ? 128 : 64;
  return {.blockM = block,
          .blockN = block,
          .lanes = unit.width,
          .productRows = unit.productRows,
          .productVectors = unit.productVectors,
          .productPairs = false};
}

} // namespace tesela
