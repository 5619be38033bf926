//===- Attempts.cpp - Ways to compile a specification -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/Attempts.h"

#include "driver/Templates.h"
#include "schedule/Schedule.h"
#include "targets/nvvm/ChipFacts.h"
#include "tile/Tile.h"

namespace tesela {

/// `overrides` apply where the specification's own schedule is silent.
static Attempt withSchedule(const KernelSpecification &specification, const char *overrides) {
  Attempt attempt{specification, /*isPlain=*/false};
  attempt.specification.schedule = mergedOverrides(overrides, specification.schedule);
  return attempt;
}

/// Whether the schedule leaves `choice` open.
static bool isOpen(const KernelSpecification &specification, const char *choice) {
  return !llvm::StringRef(specification.schedule).contains(choice);
}

/// `specification` with two consumers, where it asks for gradients on a chip with warpgroup
/// products and leaves the consumers open.
static std::optional<Attempt> withRoles(const KernelSpecification &specification) {
  if (!isOpen(specification, "consumers"))
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
  return withSchedule(specification,
                      addsUp && isNarrow ? "consumers = 2, block_n = 128" : "consumers = 2");
}

std::vector<Attempt> attemptsFor(const KernelSpecification &specification) {
  bool isForHost = specification.target.kind == Target::Kind::host;
  if (specification.algorithm == fastBackwardAlgorithm) {
    KernelSpecification fused = specification, exact = specification;
    fused.algorithm = fusedBackwardAlgorithm;
    exact.algorithm = backwardAlgorithm;
    std::vector<Attempt> attempts = attemptsFor(exact);
    if (std::optional<Attempt> roles = isForHost ? std::nullopt : withRoles(fused))
      attempts.insert(attempts.begin(), std::move(*roles));
    return attempts;
  }
  if (specification.isAttention() || isForHost)
    return {{specification}};
  std::vector<Attempt> attempts;
  if (std::optional<Attempt> roles = withRoles(specification))
    attempts.push_back(std::move(*roles));
  attempts.push_back({specification});
  if (isOpen(specification, "block_n")) {
    attempts.push_back(withSchedule(specification, "block_n = 32"));
    if (isOpen(specification, "stages"))
      attempts.push_back(withSchedule(specification, "block_n = 32, stages = 1"));
  }
  return attempts;
}

} // namespace tesela
