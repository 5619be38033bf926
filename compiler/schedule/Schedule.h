//===- Schedule.h - Choosing how a kernel runs ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The one place where a schedule is decided: a heuristic of the target, then the caller's
// overrides, then a check against the chip's facts. The result becomes the kernel's
// #tile.schedule, which all later passes only obey.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULE_SCHEDULE_H
#define TESELA_COMPILER_SCHEDULE_SCHEDULE_H

#include "tesela/compiler/Compile.h"

#include "tile/Schedule.h"

#include <algorithm>

namespace tesela {

/// What of a variant matters to the choice.
struct VariantTraits {
  bool isMasked = false;      ///< its mask is not the constant true
  bool hasScore = false;      ///< its score is not `s` itself
  bool hasExactScore = false; ///< of these: computed as masks are
  bool hasCaptures = false;   ///< a parameter is a captured tensor
  bool readsBooleans = false; ///< of these: of bool
  bool readsHalves = false;   ///< its score reads an element of 16 bits for each pair
  /// The mask's tiles lie in several runs of keys, are partial on both sides, or are tested one by
  /// one.
  bool isScattered = false;
  bool isTested = false;  ///< of these: tested one by one
  bool testsMuch = false; ///< of these: by a long mask, or by captured booleans
  /// Its mask or its score goes through the rounds of a reduction for each pair.
  bool hasReductions = false;
};

/// The schedule for `specification`; errors name the choice, its limit and what to change.
Result<Schedule> chooseSchedule(const KernelSpecification &specification,
                                const VariantTraits &variant = {});

/// Replaces the fields that `text` names, each at most once: "block_m = 128, stages = 2".
Status overrideSchedule(Schedule &schedule, const std::string &text);

/// Both as one text; where both name a choice, it is that of `strong`.
std::string mergedOverrides(const std::string &weak, const std::string &strong);

/// Columns of a tile whose rows are heads of `headDim` elements: matrix instructions take 16 of the
/// depth a step (PTX ISA, 9.7.14, 9.7.15).
constexpr int64_t paddedHeadDim(int64_t headDim) { return (headDim + 15) / 16 * 16; }

/// The widest heads of which a warp holds whole rows of the output. Of wider ones several warps
/// share the rows, and each has a part of the columns (targets/nvvm/ProductShares.h).
constexpr int64_t widestOfRows = 256;
constexpr bool hasWideHeads(const KernelSpecification &specification) {
  return specification.headDimQk > widestOfRows || specification.headDimV > widestOfRows;
}

/// Whether values are the first columns of the keys (tile-values-of-keys).
inline bool hasValuesOfKeys(const KernelSpecification &specification) {
  return std::ranges::find(specification.bindings, "values=keys") != specification.bindings.end();
}

/// Columns of the output's tile: of wide heads each of two parts has whole panels of 64.
constexpr int64_t paddedValueDim(const KernelSpecification &specification) {
  int64_t unit = hasWideHeads(specification) ? 128 : 16;
  return (specification.headDimV + unit - 1) / unit * unit;
}

/// Bytes of shared memory that the forward kernel needs with `schedule`.
int64_t sharedBytes(const Schedule &schedule, const KernelSpecification &specification);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULE_SCHEDULE_H
