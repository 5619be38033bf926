//===- SimpleSchedule.cpp - The kernel that is ready soonest ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/SimpleSchedule.h"

#include "schedule/Schedule.h"

namespace tesela {

/// The assembler's time grows with the code: with the columns of a block, which are unrolled, and
/// with the number of computations that run beside each other. So this schedule has neither roles
/// nor overlap, and narrow blocks. A warp has 16 rows, the fewest that its instructions allow
/// (measurements in docs/decisions/two-tiers.md).
std::string simpleSchedule(const KernelSpecification &specification) {
  bool hasOne = specification.target.kind == Target::Kind::cuda && specification.isAttention() &&
                !hasWideHeads(specification);
  if (!hasOne)
    return "";
  int64_t widest = std::max(specification.headDimQk, specification.headDimV);
  std::string columns = widest <= 64 ? "32" : "16";
  return "consumers = 0, block_m = 64, block_n = " + columns +
         ", warps = 4, stages = 2, reference = follow";
}

} // namespace tesela
