//===- GradientRoles.cpp - Warpgroups for gradients -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/GradientRoles.h"

#include "driver/Templates.h"
#include "schedule/Schedule.h"
#include "targets/nvvm/ChipFacts.h"
#include "tile/Tile.h"

namespace tesela {

std::optional<KernelSpecification> withRoles(const KernelSpecification &specification) {
  if (specification.isAttention() || specification.target.kind == Target::Kind::host ||
      llvm::StringRef(specification.schedule).contains("consumers"))
    return std::nullopt;
  Result<ChipFacts> facts = chipFacts(specification.target.sm);
  Result<Template> source = findTemplate(specification.algorithm);
  if (!facts || facts->acceleratedPtx == 0 || !source ||
      !llvm::StringRef(source->text).contains(tile::ScoreGradientOp::getOperationName()))
    return std::nullopt;
  // A consumer computes 64 rows of dQ, or 64 of its columns (ProductShares.h): narrow heads need
  // 128 queries in each step.
  bool addsUp = llvm::StringRef(source->text).contains(tile::AccumulateOp::getOperationName());
  bool isNarrow = specification.headDimQk <= 64;
  KernelSpecification changed = specification;
  changed.schedule =
      mergedOverrides(addsUp && isNarrow ? "consumers = 2, block_n = 128" : "consumers = 2",
                      specification.schedule);
  return changed;
}

} // namespace tesela
