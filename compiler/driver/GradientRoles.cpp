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
  KernelSpecification changed = specification;
  changed.schedule = mergedOverrides("consumers = 2", specification.schedule);
  return changed;
}

} // namespace tesela
