//===- Schedule.h - Choosing how a kernel runs ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The one place where a schedule is chosen: by a heuristic of the target, then by the caller's
// overrides. Then it is checked against the chip's facts. The result becomes the kernel's
// #tile.schedule, which later passes obey and never change.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SCHEDULE_SCHEDULE_H
#define TESELA_COMPILER_SCHEDULE_SCHEDULE_H

#include "tesela/compiler/Compile.h"

#include "tile/Schedule.h"

#include <algorithm>

namespace tesela {

/// The properties of a variant on which the choice depends.
struct VariantTraits {
  bool isMasked = false;      ///< its mask is not the constant true
  bool hasScore = false;      ///< its score is not `s` itself
  bool hasExactScore = false; ///< its score is computed like a mask
  bool hasCaptures = false;   ///< a parameter is a captured tensor
  bool readsBooleans = false; ///< such a tensor has bool elements
  bool readsHalves = false;   ///< its score reads a 16-bit element for each pair
  /// The mask's tiles lie in several runs of keys, or are partial on both sides, or are tested one
  /// by one.
  bool isScattered = false;
  bool isTested = false;  ///< the mask's tiles are tested one by one
  bool testsMuch = false; ///< so, and the mask is long or reads captured booleans
  /// Its mask or its score runs the rounds of a reduction for each pair.
  bool hasReductions = false;
};

/// The schedule for `specification`. Errors name the field, its limit and what to change.
Result<Schedule> chooseSchedule(const KernelSpecification &specification,
                                const VariantTraits &variant = {});

/// Replaces the fields that `text` names, each at most once: "block_m = 128, stages = 2".
Status overrideSchedule(Schedule &schedule, const std::string &text);

/// Both as one text. If both name a field, `strong` wins.
std::string mergedOverrides(const std::string &weak, const std::string &strong);

/// Columns of a tile whose rows are heads of `headDim` elements. Matrix instructions take 16
/// columns of the depth in each step (PTX ISA, 9.7.14, 9.7.15).
constexpr int64_t paddedHeadDim(int64_t headDim) { return (headDim + 15) / 16 * 16; }

/// The widest heads for which a warp holds whole rows of the output. For wider heads several warps
/// share the rows, and each has a part of the columns (targets/nvvm/ProductShares.h).
constexpr int64_t widestOfRows = 256;
constexpr bool hasWideHeads(const KernelSpecification &specification) {
  return specification.headDimQk > widestOfRows || specification.headDimV > widestOfRows;
}

/// Whether values are the first columns of the keys (tile-values-of-keys).
inline bool hasValuesOfKeys(const KernelSpecification &specification) {
  return std::ranges::find(specification.bindings, "values=keys") != specification.bindings.end();
}

/// Columns of the output's tile. With wide heads, each of two parts has whole panels of 64 columns.
constexpr int64_t paddedValueDim(const KernelSpecification &specification) {
  int64_t unit = hasWideHeads(specification) ? 128 : 16;
  return (specification.headDimV + unit - 1) / unit * unit;
}

/// Bytes of shared memory that the forward kernel needs with `schedule`.
int64_t sharedBytes(const Schedule &schedule, const KernelSpecification &specification);

} // namespace tesela

#endif // TESELA_COMPILER_SCHEDULE_SCHEDULE_H
