//===- Workers.cpp - Among how many work items keys are shared --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Workers.h"

#include "schedule/Heuristics.h"
#include "targets/nvvm/ChipSpeeds.h"

#include <algorithm>

namespace tesela {

/// Queries at most whose rows one warp has: with four heads that share keys they fill 16.
constexpr int64_t mostOfOneWarp = 4;

/// Keys of a share at least (templates/forward_in_parts.mlir).
constexpr int64_t leastKeys = 256;

/// Thread blocks of one warp that a multiprocessor runs at once: of keys of 8 bits eight, so that
/// enough bytes are under way, and four warps widen while four load.
static int64_t warpsAtOnce(const KernelSpecification &specification) {
  return specification.hasNarrowKeys() ? 8 : 4;
}

/// Whether one warp was measured with these queries and heads: it widens keys of 8 bits in its
/// registers, and reads those of 16 bits where heads are of this width (docs/performance.md).
static bool isOfOneWarp(const KernelSpecification &specification, int64_t queries) {
  int64_t widest = std::max(specification.headDimQk, specification.headDimV);
  return queries > 0 && queries <= mostOfOneWarp &&
         (specification.hasNarrowKeys() || (widest > 64 && widest <= 128));
}

/// Workers from which on a launch has enough for thread blocks of one warp: a warp alone is slower
/// than four that share its keys. `workersFor` gives four or eight times the multiprocessors where
/// there are enough, else three times; the chip's table has the most that are sold, and cards with
/// a seventh fewer have their rule, too.
static int64_t leastOfOneWarp(const KernelSpecification &specification) {
  Result<ChipSpeeds> speeds = chipSpeeds(specification.target.sm);
  return speeds ? speeds->multiprocessors * 13 / 4 : 512;
}

/// Among how many work items a template in parts shares the keys out.
static int64_t workersOf(const KernelSpecification &specification) {
  int64_t workers = 0;
  for (llvm::StringRef binding : specification.bindings)
    if (binding.consume_front("workers="))
      binding.getAsInteger(10, workers);
  return workers;
}

/// A shared prefix has rows for more than one warp, and of 16 bits a mask that looks for its blocks
/// was not measured.
bool suitsOneWarp(const KernelSpecification &specification, const VariantTraits &variant) {
  bool isKnown =
      specification.hasNarrowKeys() || (!specification.sharesPrefix() && !variant.isTested);
  return isKnown && isOfOneWarp(specification, fewQueriesOf(specification)) &&
         specification.isInParts() && workersOf(specification) >= leastOfOneWarp(specification);
}

/// Where more than eight of one warp fit, some multiprocessors had ten of the 7.8 that a launch had
/// for each (docs/performance.md).
int64_t residentsOf(const Schedule &schedule, const KernelSpecification &specification) {
  bool isOneWarp = schedule.consumers == 0 && schedule.warps == 1;
  return isOneWarp && specification.isInParts() && specification.hasNarrowKeys()
             ? warpsAtOnce(specification)
             : 0;
}

static int64_t sharesOfEqual(const KernelSpecification &specification, int64_t queries) {
  if (specification.target.kind == Target::Kind::host)
    return 1; // a thread has one
  return specification.hasNarrowKeys() && isOfOneWarp(specification, queries) ? 1 : 2;
}

/// So that each thread block that runs at once has one share. Of unequal sequences it has two: what
/// is left over at the end is then short. Of keys of 8 bits eight run at once, whose shares are
/// short as they are.
int64_t sharesOfEqual(const KernelSpecification &specification) {
  return sharesOfEqual(specification, fewQueriesOf(specification));
}

/// A row is a work item, and waits for memory: four warps. Where blocks have more rows, so have
/// launches: with one warp all of them run at once (64 queries, 128 columns, both kernels: 67.0 us,
/// by four warps 68.8, by eight 72.4; other widths were not measured).
int64_t joiningWarps(const Schedule &schedule, const KernelSpecification &specification) {
  bool isMeasured = specification.headDimV > 64 && specification.headDimV <= 128;
  return schedule.consumers >= 2 && isMeasured ? 1 : std::max<int64_t>(schedule.warps, 4);
}

int64_t workersFor(const KernelSpecification &specification, const SharedKeys &launch) {
  int64_t processors = launch.processors;
  if (specification.target.kind == Target::Kind::host)
    return processors;
  int64_t times = launch.batch > 1 ? sharesOfEqual(specification, launch.queries) : 1;
  int64_t pieces = launch.batch * launch.kvHeads * ((launch.keys + leastKeys - 1) / leastKeys);
  bool areMany = launch.batch * launch.kvHeads > 4 * processors; // by themselves
  bool isOfOne = isOfOneWarp(specification, launch.queries);
  // Several sequences' rows of 16 bits, if those of a warp hold all heads of a kv head.
  bool fitOneWarp = specification.hasNarrowKeys() ||
                    (launch.batch > 1 && launch.queries * launch.heads <= 16 * launch.kvHeads);
  if (isOfOne && fitOneWarp && pieces >= 4 * processors) {
    bool areFewer = specification.hasNarrowKeys() && areMany;
    return (areFewer ? 4 : warpsAtOnce(specification)) * times * processors;
  }
  // Of wider heads a thread block takes a multiprocessor's shared memory, of more rows two
  // warpgroups' registers.
  if (hasWideHeads(specification) || launch.queries > 32 || areMany)
    return times * processors;
  // Two of one row of blocks run at once.
  int64_t items = 1;
  while (items < 2 * times && items * processors < pieces)
    items *= 2;
  int64_t most = isOfOne ? 3 : 4; // too few for one warp
  return std::min(items, most) * processors;
}

} // namespace tesela
