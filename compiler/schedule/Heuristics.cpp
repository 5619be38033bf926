//===- Heuristics.cpp - What suits a kernel on a GPU ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Heuristics.h"

#include "schedule/Workers.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <bit>

namespace tesela {

/// The most queries that a launch has few of: with more, a head's fill half of a warpgroup's rows.
constexpr int64_t fewQueries = 32;

/// Where the expected queries are few, the power of two that they do not exceed; else 0.
int64_t fewQueriesOf(const KernelSpecification &specification) {
  bool areFew = specification.expectedQueries > 0 && specification.expectedQueries <= fewQueries;
  return areFew ? int64_t(std::bit_ceil(uint64_t(specification.expectedQueries))) : 0;
}

/// Whether launches are expected to have no more than `length` keys, a power of two.
static bool expectedAtMost(const KernelSpecification &specification, int64_t length) {
  return specification.expectedLength > 0 &&
         int64_t(std::bit_floor(uint64_t(specification.expectedLength))) <= length;
}

/// As many heads as leave the expected queries room in `blockM` rows: the rows that a head would
/// leave empty then serve others that read the same keys.
static int64_t headsFor(const KernelSpecification &specification, int64_t blockM) {
  int64_t queries = specification.expectedQueries;
  if (queries == 0 || 2 * queries > blockM || specification.dropout)
    return 1;
  int64_t places = std::bit_ceil(uint64_t(queries));
  // Over a shared prefix the queries of all sequences fill the rows that few heads leave.
  int64_t most = specification.sharesPrefix() ? 4 : mostHeads;
  return std::min<int64_t>(most, std::bit_floor(uint64_t(blockM / places)));
}

/// Columns at most where a mask tests each block: beside what it reads and computes nothing of the
/// library's variants is spilled with these, and they are the fastest of those measured
/// (AssemblyTest, docs/performance.md).
static int64_t widestTested(int64_t headDim, const VariantTraits &variant) {
  if (headDim <= 128)
    return !variant.testsMuch ? 128 : variant.readsBooleans ? 80 : 96;
  if (headDim <= 192)
    return 64;
  return variant.testsMuch ? 32 : 48;
}

/// Two warpgroups that share 64 rows, of heads wider than `widestOfRows`: keys in blocks of 64, in
/// as many stages as there is room for.
static Schedule wideRoleHeuristic(const KernelSpecification &specification, const ChipFacts &chip) {
  Schedule schedule;
  schedule.consumers = 2;
  schedule.blockM = 64;
  schedule.warps = 8;
  schedule.heads = headsFor(specification, schedule.blockM);
  schedule.blockN = 64;
  schedule.stages = 2;
  schedule.reference = ScheduleReference::lazy;
  schedule.overlap = false;
  if (sharedBytes(schedule, specification) > chip.blockShared)
    schedule.stages = 1;
  if (sharedBytes(schedule, specification) > chip.blockShared)
    schedule.blockN = 32;
  return schedule;
}

/// Sequences of any length, one after the other: many are short.
static bool isRagged(const KernelSpecification &specification) {
  return llvm::is_contained(specification.bindings, "queries=ragged");
}

/// Warpgroups with roles on sm_90: the fastest of those measured on an H200 (docs/performance.md).
Schedule roleHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                       const ChipFacts &chip, const Schedule &wanted) {
  if (hasWideHeads(specification))
    return wideRoleHeuristic(specification, chip);
  Schedule schedule;
  const int64_t consumers = wanted.consumers;
  const bool overlap = wanted.overlap;
  int64_t widest = std::max(specification.headDimQk, specification.headDimV);
  schedule.consumers = consumers;
  schedule.blockM = 64 * consumers;
  schedule.warps = 4 * consumers;
  schedule.heads = headsFor(specification, schedule.blockM);
  bool isWide = widest <= 64 || (specification.headDimV <= 128 && consumers < 3);
  schedule.blockN = isWide ? 128 : 80;
  // D 72 to 96: +5 to +3 % of 80 columns (docs/performance.md).
  auto fits = [&](int64_t blockN) {
    return heldRegisters(blockN, specification, overlap) <= tileRegisters[consumers];
  };
  while (consumers == 3 && schedule.blockN < 128 && fits(schedule.blockN + 16))
    schedule.blockN += 16;
  // Beside the values and addresses of captured tensors the registers of three hold less; nothing
  // of the library's variants is spilled with these (AssemblyTest).
  if (consumers == 3 && variant.hasCaptures && widest < 128)
    schedule.blockN = std::min<int64_t>(schedule.blockN, widest <= 64 ? 112 : 80);
  if (variant.isTested)
    schedule.blockN = std::min(schedule.blockN, widestTested(widest, variant));
  // The ends of several runs take registers, too, beside the widest.
  if (variant.isScattered && widest > 192)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 64);
  // And rows of several heads, in the registers of two: 64 columns spilled 152 bytes, 48 none
  // (PackedTest's even_heads).
  bool isPackedAndScattered = variant.isScattered && widest > 192 && consumers > 1 &&
                              std::max(wanted.heads, schedule.heads) > 1;
  if (isPackedAndScattered)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 48);
  // And a score that is computed as masks are, in the registers of three.
  if (variant.hasExactScore && consumers == 3)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 64);
  // Tiles that unrelated numbers chose keep a few keys each (big_bird: 0.81 ms with 96 columns,
  // 0.47 with 64).
  if (variant.hasReductions && variant.isTested)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 64);
  // And the rounds of a reduction, beside the widest.
  if (variant.hasReductions && widest > 192)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 48);
  schedule.stages = widest <= 64 ? 4 : 2;
  // A stage of 8 bits is half as large, and as many bytes have to be under way.
  if (specification.hasNarrowKeys() && widest > 64 && widest <= 128)
    schedule.stages = 3;
  // A score that is computed again takes registers.
  bool isCostly =
      variant.hasScore && (variant.hasCaptures || variant.hasReductions || widest <= 64);
  // Beside the output of 256 columns a block that is found has no registers for both
  // (AssemblyTest).
  isCostly |= variant.testsMuch || (variant.isTested && widest > 192) || isPackedAndScattered;
  // Rows of two consumers in parts: -3 us of 60 (64 queries, D 128).
  isCostly |= specification.isInParts() && consumers > 1 && widest > 64 && widest <= 128;
  schedule.reference = isCostly ? ScheduleReference::lazy : ScheduleReference::recompute;
  schedule.overlap = overlap;
  // Parts leave from the registers, in f32, and their work items are one a thread block: two of
  // these a multiprocessor, so that one loads while the other begins or ends.
  // Likewise where few queries leave keys of 8 bits to be widened by one warpgroup: another's
  // products run beside that.
  bool sharesMultiprocessor =
      specification.isInParts() || (specification.hasNarrowKeys() && consumers == 1);
  schedule.persistent = schedule.outputBuffer = !sharesMultiprocessor;
  if (sharesMultiprocessor && consumers == 1)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 64);
  bool isShort = expectedAtMost(specification, 2048);
  // What dropout draws takes as long as a product: one warpgroup's beside another's products
  // (docs/performance.md).
  bool turnsPay = (widest <= 64 && consumers == 3 && (variant.isMasked || isShort)) ||
                  (variant.hasScore && variant.hasCaptures) || specification.dropout;
  schedule.turns = turnsPay && overlap && consumers > 1;
  // Where a range of keys begins and ends with partial blocks, each row keeps keys of the last one
  // before its own position, and few of the first: what is computed again is a block less in two
  // rows of blocks (docs/performance.md).
  schedule.lastKeysFirst = variant.isScattered && !(variant.isTested && variant.hasReductions);
  // Keys and values of 32 MiB stay in the L2 of 50 MB (HOPPER.md). Blocks that captured tensors
  // decide are few and unequal: as many heads as a group may have, each row of blocks for all of
  // them in turn, leave a shorter end (documents -3 to -4 % of the time). Where positions decide it
  // cost more than it gave (`strided` +4 %; docs/performance.md).
  if (variant.isTested && variant.hasCaptures)
    schedule.groupKeys = int64_t(1) << 20;
  else if (variant.isMasked)
    schedule.groupKeys = (int64_t(32) << 20) / (elementSize(specification.inputType) *
                                                (specification.headDimQk + specification.headDimV));
  // Among sequences of any length the next blocks under way gave more than an output buffer
  // (documents of 16 to 8k tokens: -1 % of the time).
  bool isOpen = wanted.stages <= 1 && wanted.queryStages == 0 && !wanted.outputBuffer;
  if (isRagged(specification) && consumers == 3 && widest > 96 && variant.isMasked &&
      !variant.isTested && isOpen) {
    schedule.stages = 4;
    schedule.outputBuffer = false;
  }
  // What does not fit: narrower blocks, then the output through the queries' buffer, then the
  // narrowest blocks.
  auto isTooLarge = [&] { return sharedBytes(schedule, specification) > chip.blockShared; };
  while (schedule.blockN > 80 && isTooLarge())
    schedule.blockN -= 16;
  if (isTooLarge())
    schedule.outputBuffer = false;
  while (schedule.blockN > 16 && isTooLarge())
    schedule.blockN -= 16;
  return schedule;
}

/// Queries of the next work item are loaded ahead where there is room for them, and with overlap
/// the item begins beside the last one's end. Long rows under closed masks gain nothing
/// (docs/performance.md).
int64_t queryStagesFor(Schedule schedule, const KernelSpecification &specification,
                       const VariantTraits &variant, const ChipFacts &chip) {
  bool isNarrow = std::max(specification.headDimQk, specification.headDimV) <= 64;
  // Documents of 16 to 8k tokens: -6 % of the time.
  bool itemsAreShort = !variant.isMasked || variant.isScattered || isNarrow ||
                       isRagged(specification) || expectedAtMost(specification, 2048);
  // The next item beside this one takes registers, which the reads of captured tensors need
  // (AssemblyTest).
  bool isFull = schedule.consumers == 3 || specification.headDimV > 128;
  bool hasRoom = !(variant.hasScore && variant.hasCaptures && isFull) && !variant.testsMuch;
  schedule.queryStages = 2;
  bool isPossible = schedule.consumers > 0 && schedule.persistent && schedule.outputBuffer &&
                    sharedBytes(schedule, specification) <= chip.blockShared;
  return isPossible && itemsAreShort && hasRoom ? 2 : 1;
}

/// How many consumers suit the expected length: three reuse each key and value more, two waste less
/// of a short or a masked row of blocks; one has rows enough for few queries.
int64_t consumersFor(const KernelSpecification &specification, const VariantTraits &variant) {
  if (hasWideHeads(specification))
    return 2; // half of the output's columns each
  if (suitsOneWarp(specification, variant))
    return 0;
  if (fewQueriesOf(specification) > 0)
    return 1;
  // Of the third row of blocks of 192 rows, which three compute, 512 queries leave a third empty;
  // blocks of 128 they fill.
  if (specification.expectedQueries > 0 && specification.expectedQueries <= 512)
    return 2;
  if (std::max(specification.headDimQk, specification.headDimV) > 128)
    return 2; // the registers, or with unequal widths the shared memory, of three hold too little
  // Without overlap three would have blocks of 128 keys, and spill (AssemblyTest).
  if (hasValuesOfKeys(specification))
    return 2;
  // Few and often partial blocks, whose bookkeeping takes registers; as the rounds of a reduction
  // do.
  if (variant.isScattered || variant.hasReductions)
    return 2;
  // The random numbers of a block's pairs take registers: three spilled 32 to 40 bytes at D 128,
  // and with 64 columns, which fit, took 2.05 ms where two take 1.85.
  if (specification.dropout)
    return 2;
  // Beside wide blocks two hold what chunks of 32 columns bring (learned_bias at D 128: 3.50 ms
  // with three, 2.69 with two; D 64: 2.43 and 2.30).
  if (variant.readsHalves)
    return 2;
  bool isNarrow = std::max(specification.headDimQk, specification.headDimV) <= 64;
  int64_t longestOfTwo = isNarrow ? (variant.isMasked ? 1024 : 0) : variant.isMasked ? 4096 : 1024;
  // Of sequences of any length the longest have most of the work (documents of up to 7376 tokens:
  // -4 % of the time with three).
  if (isRagged(specification) && variant.isMasked && !isNarrow)
    longestOfTwo = 2048;
  return expectedAtMost(specification, longestOfTwo) ? 2 : 3;
}

/// Blocks of FlashAttention-2's forward kernels for these widths (its
/// flash_fwd_launch_template.h); docs/performance.md has what was measured here.
Schedule multiplyHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                           const ChipFacts &chip) {
  int64_t widest = std::max(specification.headDimQk, specification.headDimV);
  Schedule schedule;
  // A rescaling in each block costs multiplications; the branch that avoids them keeps the
  // assembler from moving loads and products across it. Which is less was measured.
  // Where warps share rows, following takes a meeting of them in each block.
  bool follows = (widest > 32 && widest <= 64) || (widest > 128 && !hasWideHeads(specification));
  schedule.reference = follows ? ScheduleReference::follow : ScheduleReference::lazy;
  schedule.qInRegisters = widest <= 64;
  // The first that fits. A warp's 32 rows reuse each key and value twice, 16 leave registers for
  // the output of wide heads.
  struct Blocks {
    int64_t blockM, blockN, warps, stages = 2;
    int64_t perMultiprocessor = 1; ///< as many as have to fit
  };
  constexpr Blocks ofWidest[] = {{64, 64, 4, 1, 2}, {128, 64, 8}, {128, 32, 8},
                                 {64, 64, 4},       {64, 32, 4},  {64, 16, 4}},
                   ofOthers[] = {{128, 64, 4}, {128, 32, 4}},
                   ofFew[] = {{64, 64, 4}, {64, 32, 4}, {64, 16, 4}},
                   ofOneWarp[] = {{16, 32, 1, 3, 4}, {16, 32, 1, 2, 4}, {16, 16, 1, 2}},
                   ofOneNarrow[] = {{16, 32, 1, 2, 8}, {16, 16, 1, 2, 8}, {16, 16, 1, 2}},
                   ofCut[] = {{64, 64, 8},    {64, 64, 8, 1}, {64, 32, 8},
                              {64, 32, 8, 1}, {32, 32, 4},    {32, 32, 4, 1}};
  // With a score that reads captures the larger blocks were faster.
  bool readsMuch = variant.hasScore && variant.hasCaptures;
  llvm::ArrayRef<Blocks> choices =
      widest > 128 ? llvm::ArrayRef(ofWidest).drop_front(widest > 192 && !readsMuch ? 0 : 1)
                   : llvm::ArrayRef(ofOthers);
  if (fewQueriesOf(specification) > 0)
    choices = ofFew;
  if (suitsOneWarp(specification, variant)) {
    choices = specification.hasNarrowKeys() ? llvm::ArrayRef(ofOneNarrow) : ofOneWarp;
    schedule.qInRegisters = true;
  }
  if (hasWideHeads(specification)) // two warps share 16 rows
    choices = ofCut;
  for (const Blocks &blocks : choices) {
    schedule.blockM = blocks.blockM;
    schedule.blockN = blocks.blockN;
    schedule.warps = blocks.warps;
    schedule.stages = blocks.stages;
    schedule.heads = headsFor(specification, schedule.blockM);
    int64_t bytes = sharedBytes(schedule, specification);
    if (bytes <= chip.blockShared &&
        blocks.perMultiprocessor * (bytes + reservedShared) <= chip.chipShared)
      break;
  }
  return schedule;
}

/// For the kernels of a template that is not attention, whose needs no rule here knows: blocks that
/// every target takes, as four warps or as warpgroups with roles.
Schedule templateHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                           const Schedule &wanted) {
  Schedule schedule;
  schedule.blockM = wanted.consumers > 0 ? 64 * wanted.consumers : 64;
  schedule.blockN = 64;
  schedule.stages = 2;
  schedule.warps = wanted.consumers > 0 ? 4 * wanted.consumers : 4;
  // While a block of keys ends, the producer loads what the next begins with. With a mask of
  // booleans a thread block waits for its finder, and the finder spills more in a loop over items
  // (docs/performance.md, "Items of gradients"). With one consumer several thread blocks may share
  // a multiprocessor, and these overlap as well.
  bool isOfPairs = specification.algorithm == backwardAlgorithm ||
                   specification.algorithm == fusedBackwardAlgorithm;
  schedule.persistent = isOfPairs && wanted.consumers > 1 && !variant.readsBooleans;
  // Rows of work items under a mask are unequal: some heads at once fill the multiprocessors that
  // one head's shorter rows leave. What a gradient's rows read, and the f32 sums of dQ, stay in the
  // L2 (HOPPER.md).
  if (variant.isMasked)
    schedule.groupKeys =
        (int64_t(32) << 20) /
        (elementSize(specification.inputType) * (specification.headDimQk + specification.headDimV) +
         4 * specification.headDimQk);
  return schedule;
}

} // namespace tesela
