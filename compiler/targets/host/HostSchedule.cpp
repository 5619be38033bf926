//===- HostSchedule.cpp - How kernels run on the CPU ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/HostSchedule.h"

#include <algorithm>

namespace tesela {

HostChoices hostChoices(ElementType type, int64_t fewQueries, bool areBlocksLarge,
                        const VectorUnit &unit) {
  HostChoices choices = {.blockM = areBlocksLarge ? 128 : 64,
                         .blockN = areBlocksLarge ? 128 : 64,
                         .heads = 1,
                         .vectorLength = unit.width,
                         .productRows = unit.productRows,
                         .productVectors =
                             type == ElementType::f32 ? unit.runVectors : unit.productVectors,
                         .productPairs = type == ElementType::bf16 && unit.arePairsFast};
  if (fewQueries > 0) {
    // A row without a query costs as much as any other, so few rows; but at least those of two
    // heads.
    choices.blockM = std::max<int64_t>(8, 2 * fewQueries);
    choices.blockN = 64;
    choices.heads = choices.blockM / fewQueries;
  }
  return choices;
}

} // namespace tesela
