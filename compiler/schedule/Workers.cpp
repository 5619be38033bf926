//===- Workers.cpp - How many work items share keys -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Workers.h"

#include "schedule/Heuristics.h"
#include "targets/nvvm/ChipSpeeds.h"

#include <algorithm>

namespace tesela {

/// The most queries whose rows one warp takes: with four heads that share keys they fill 16 rows.
constexpr int64_t mostOfOneWarp = 4;

/// The fewest keys of a part (templates/forward_in_parts.mlir).
constexpr int64_t leastKeys = 256;

/// How many thread blocks of one warp a multiprocessor runs at once. With 8-bit keys eight: then
/// enough bytes are in flight, and four warps widen while four load.
static int64_t warpsAtOnce(const KernelSpecification &specification) {
  return specification.hasNarrowKeys() ? 8 : 4;
}

/// Whether one warp was measured with these queries and heads. It widens 8-bit keys in its
/// registers; it reads 16-bit keys for these widths only (docs/log/2026-11-27-serving-decode.md).
static bool isOfOneWarp(const KernelSpecification &specification, int64_t queries) {
  int64_t widest = std::max(specification.headDimQk, specification.headDimV);
  return queries > 0 && queries <= mostOfOneWarp &&
         (specification.hasNarrowKeys() || (widest > 64 && widest <= 128));
}

/// The fewest workers for which thread blocks of one warp pay: a warp alone is slower than four
/// that share its keys. `workersFor` gives four or eight times the multiprocessors if there is
/// enough work, and three times otherwise. The chip's table has the largest number of
/// multiprocessors of any card; the factor 13 / 4 leaves room for cards with a seventh fewer.
static int64_t leastOfOneWarp(const KernelSpecification &specification) {
  Result<ChipSpeeds> speeds = chipSpeeds(specification.target.sm);
  return speeds ? speeds->multiprocessors * 13 / 4 : 512;
}

/// The number of work items among which a template in parts splits the keys.
static int64_t workersOf(const KernelSpecification &specification) {
  int64_t workers = 0;
  for (llvm::StringRef binding : specification.bindings)
    if (binding.consume_front("workers="))
      binding.getAsInteger(10, workers);
  return workers;
}

/// A shared prefix has rows for more than one warp. 16-bit keys with a mask that tests blocks were
/// not measured.
bool suitsOneWarp(const KernelSpecification &specification, const VariantTraits &variant) {
  bool isKnown =
      specification.hasNarrowKeys() || (!specification.sharesPrefix() && !variant.isTested);
  return isKnown && isOfOneWarp(specification, fewQueriesOf(specification)) &&
         specification.isInParts() && workersOf(specification) >= leastOfOneWarp(specification);
}

/// If more than eight thread blocks of one warp fit, some multiprocessors ran ten, although the
/// launch had 7.8 for each (docs/log/2026-11-27-serving-decode.md).
int64_t residentsOf(const Schedule &schedule, const KernelSpecification &specification) {
  bool isOneWarp = schedule.consumers == 0 && schedule.warps == 1;
  return isOneWarp && specification.isInParts() && specification.hasNarrowKeys()
             ? warpsAtOnce(specification)
             : 0;
}

static int64_t sharesOfEqual(const KernelSpecification &specification, int64_t queries) {
  if (specification.target.kind == Target::Kind::host)
    return 1; // on the host each thread has one part
  return specification.hasNarrowKeys() && isOfOneWarp(specification, queries) ? 1 : 2;
}

/// With it each thread block that runs at once has one part. If lengths differ, each has two, so
/// that the last ones to finish are short. With 8-bit keys eight thread blocks run at once, and
/// their parts are short already.
int64_t sharesOfEqual(const KernelSpecification &specification) {
  return sharesOfEqual(specification, fewQueriesOf(specification));
}

/// The join has a work item for each row, and waits for memory: four warps. If blocks have more
/// rows, launches have more rows, too. With one warp all of them run at once (64 queries, 128
/// columns, both kernels: 67.0 µs; four warps 68.8, eight 72.4; other widths were not measured).
int64_t joiningWarps(const Schedule &schedule, const KernelSpecification &specification) {
  bool isMeasured = specification.headDimV > 64 && specification.headDimV <= 128;
  return schedule.consumers >= 2 && isMeasured ? 1 : std::max<int64_t>(schedule.warps, 4);
}

/// Four work items for each multiprocessor. A launch with parts has at most that many, and more
/// than half of them unless each query head is a part already. Under a causal mask the longest item
/// has twice the work of the average, and the others fill up the rest. The host's number is that of
/// templates/backward_in_parts.mlir.
int64_t keyWorkersFor(const Target &target) {
  constexpr int64_t ofHost = 16, ofMultiprocessor = 4, ofUnknownChip = 512;
  if (target.kind == Target::Kind::host)
    return ofHost;
  Result<ChipSpeeds> speeds = chipSpeeds(target.sm);
  return speeds ? ofMultiprocessor * speeds->multiprocessors : ofUnknownChip;
}

/// Eight times as many. The shortest items of a head start first, so a long one may end long after
/// all others. With 32 query heads over 8 and 8192 keys under a causal mask, D 128, gradients took
/// 5.99, 6.13, 5.07 and 4.77 ms with 1, 2, 4 and 8 times as many
/// (docs/log/2026-12-01-additions-in-turn.md).
int64_t keyWorkersInTurn(const Target &target) {
  constexpr int64_t times = 8;
  return times * keyWorkersFor(target);
}

int64_t workersFor(const KernelSpecification &specification, const SharedKeys &launch) {
  int64_t processors = launch.processors;
  if (specification.target.kind == Target::Kind::host)
    return processors;
  int64_t times = launch.batch > 1 ? sharesOfEqual(specification, launch.queries) : 1;
  int64_t pieces = launch.batch * launch.kvHeads * ((launch.keys + leastKeys - 1) / leastKeys);
  bool areMany = launch.batch * launch.kvHeads > 4 * processors; // enough without splitting keys
  bool isOfOne = isOfOneWarp(specification, launch.queries);
  // 16-bit keys: several sequences, and the rows of one warp must hold all heads of a kv head.
  bool fitOneWarp = specification.hasNarrowKeys() ||
                    (launch.batch > 1 && launch.queries * launch.heads <= 16 * launch.kvHeads);
  if (isOfOne && fitOneWarp && pieces >= 4 * processors) {
    bool areFewer = specification.hasNarrowKeys() && areMany;
    return (areFewer ? 4 : warpsAtOnce(specification)) * times * processors;
  }
  // A thread block takes the whole shared memory of a multiprocessor if heads are wide, and the
  // registers of two warpgroups if there are more rows.
  if (hasWideHeads(specification) || launch.queries > 32 || areMany)
    return times * processors;
  // Two thread blocks with one row of blocks run at once on a multiprocessor.
  int64_t items = 1;
  while (items < 2 * times && items * processors < pieces)
    items *= 2;
  int64_t most = isOfOne ? 3 : 4; // fewer than leastOfOneWarp
  return std::min(items, most) * processors;
}

} // namespace tesela
