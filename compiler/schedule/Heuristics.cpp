//===- Heuristics.cpp - Schedules that suit a kernel on a GPU ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Heuristics.h"

#include "schedule/Workers.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <bit>

namespace tesela {

/// Up to this many queries are few. More fill half of a warpgroup's rows with one head.
constexpr int64_t fewQueries = 32;

/// If the expected queries are few: their number, rounded up to a power of two. Otherwise 0.
int64_t fewQueriesOf(const KernelSpecification &specification) {
  bool areFew = specification.expectedQueries > 0 && specification.expectedQueries <= fewQueries;
  return areFew ? int64_t(std::bit_ceil(uint64_t(specification.expectedQueries))) : 0;
}

/// Whether launches are expected to have at most `length` keys, a power of two.
static bool expectedAtMost(const KernelSpecification &specification, int64_t length) {
  return specification.expectedLength > 0 &&
         int64_t(std::bit_floor(uint64_t(specification.expectedLength))) <= length;
}

/// The number of heads that share `blockM` rows, so that there is room for the expected queries. If
/// a head would leave rows empty, other heads that read the same keys use them.
static int64_t headsFor(const KernelSpecification &specification, int64_t blockM) {
  int64_t queries = specification.expectedQueries;
  if (queries == 0 || 2 * queries > blockM || specification.dropout)
    return 1;
  int64_t places = std::bit_ceil(uint64_t(queries));
  // With a shared prefix, the queries of all sequences fill the rows that a few heads leave empty.
  int64_t most = specification.sharesPrefix() ? 4 : mostHeads;
  return std::min<int64_t>(most, std::bit_floor(uint64_t(blockM / places)));
}

/// The largest block_n for a mask that tests each block. With these, no variant of the library
/// spills registers (AssemblyTest), and they were the fastest of those measured
/// (docs/log/2026-11-22-spills.md).
static int64_t widestTested(int64_t headDim, const VariantTraits &variant) {
  if (headDim <= 128)
    return !variant.testsMuch ? 128 : variant.readsBooleans ? 80 : 96;
  if (headDim <= 192)
    return 64;
  return variant.testsMuch ? 32 : 48;
}

int64_t mostQueryPanels(int64_t blockN, const KernelSpecification &specification) {
  // With four, ptxas makes each product wait for the one before (C7512), at 576 and 512 columns.
  constexpr int64_t tried = 3;
  int64_t free = tileRegisters[2] - heldRegisters(blockN, specification, /*overlap=*/false);
  int64_t besides = (paddedHeadDim(specification.headDimQk) - 1) / columnsOfPanel; // not all
  return std::clamp<int64_t>(std::min(free / registersOfPanel, tried), 0, besides);
}

/// For heads wider than `widestOfRows`: two warpgroups share 64 rows. Blocks have 64 keys, in as
/// many stages as there is room for.
static Schedule wideRoleHeuristic(const KernelSpecification &specification,
                                  const VariantTraits &variant, const ChipFacts &chip) {
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
  // A consumer's product of 32 keys reads 3 KB of shared memory in the 16 cycles in which the
  // tensor cores multiply 16 columns. With those of the queries in registers it reads 1 KB
  // (docs/log/2026-11-29-latent-queries.md). A mask that tests its blocks, a score or a reduction
  // may need the same registers. Then ptxas spills, or makes products wait.
  if (!variant.isTested && !variant.hasScore && !variant.hasReductions)
    schedule.queryPanels = mostQueryPanels(schedule.blockN, specification);
  return schedule;
}

/// Sequences of any length, one after the other. Many of them are short.
static bool isRagged(const KernelSpecification &specification) {
  return llvm::is_contained(specification.bindings, "queries=ragged");
}

/// Warpgroups with roles on sm_90: the fastest measured on an H200
/// (docs/log/2026-11-21-forward-sm90.md).
Schedule roleHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                       const ChipFacts &chip, const Schedule &wanted) {
  if (hasWideHeads(specification))
    return wideRoleHeuristic(specification, variant, chip);
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
  // D 72 to 96: 3 to 5 % faster than 80 columns (docs/log/2026-11-22-head-dimensions.md).
  auto fits = [&](int64_t blockN) {
    return heldRegisters(blockN, specification, overlap) <= tileRegisters[consumers];
  };
  while (consumers == 3 && schedule.blockN < 128 && fits(schedule.blockN + 16))
    schedule.blockN += 16;
  // The values and addresses of captured tensors take registers, so with three consumers blocks are
  // narrower. With these no variant of the library spills (AssemblyTest).
  if (consumers == 3 && variant.hasCaptures && widest < 128)
    schedule.blockN = std::min<int64_t>(schedule.blockN, widest <= 64 ? 112 : 80);
  if (variant.isTested)
    schedule.blockN = std::min(schedule.blockN, widestTested(widest, variant));
  // With the widest heads, the ends of several runs take registers, too.
  if (variant.isScattered && widest > 192)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 64);
  // So do rows of several heads, with two consumers: 64 columns spilled 152 bytes, 48 columns none
  // (PackedTest's even_heads).
  bool isPackedAndScattered = variant.isScattered && widest > 192 && consumers > 1 &&
                              std::max(wanted.heads, schedule.heads) > 1;
  if (isPackedAndScattered)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 48);
  // So does a score that is computed like a mask, with three consumers.
  if (variant.hasExactScore && consumers == 3)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 64);
  // Tiles that are chosen by unrelated numbers keep only a few keys each (big_bird: 0.81 ms with 96
  // columns, 0.47 with 64).
  if (variant.hasReductions && variant.isTested)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 64);
  // The rounds of a reduction take registers, too, with the widest heads.
  if (variant.hasReductions && widest > 192)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 48);
  schedule.stages = widest <= 64 ? 4 : 2;
  // A stage of 8-bit elements is half as large, and the same number of bytes must be in flight.
  if (specification.hasNarrowKeys() && widest > 64 && widest <= 128)
    schedule.stages = 3;
  // A score that is computed again takes registers.
  bool isCostly =
      variant.hasScore && (variant.hasCaptures || variant.hasReductions || widest <= 64);
  // With an output of 256 columns and blocks that are found, there are not enough registers for
  // that (AssemblyTest).
  isCostly |= variant.testsMuch || (variant.isTested && widest > 192) || isPackedAndScattered;
  // Keys in parts, rows of two consumers: 3 µs less of 60 (64 queries, D 128).
  isCostly |= specification.isInParts() && consumers > 1 && widest > 64 && widest <= 128;
  schedule.reference = isCostly ? ScheduleReference::lazy : ScheduleReference::recompute;
  schedule.overlap = overlap;
  // Parts are stored in f32 from registers, and each thread block has one work item. Two of them
  // run on a multiprocessor, so that one loads while the other begins or ends. The same holds for
  // few queries with 8-bit keys, which one warpgroup widens: products of the other thread block run
  // meanwhile.
  bool sharesMultiprocessor =
      specification.isInParts() || (specification.hasNarrowKeys() && consumers == 1);
  schedule.persistent = schedule.outputBuffer = !sharesMultiprocessor;
  if (sharesMultiprocessor && consumers == 1)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 64);
  bool isShort = expectedAtMost(specification, 2048);
  // The random numbers of dropout take as long as a product. With turns, one warpgroup draws them
  // while another's products run (docs/log/2026-11-27-backward.md).
  bool turnsPay = (widest <= 64 && consumers == 3 && (variant.isMasked || isShort)) ||
                  (variant.hasScore && variant.hasCaptures) || specification.dropout;
  schedule.turns = turnsPay && overlap && consumers > 1;
  // If a range of keys begins and ends with partial blocks, each row keeps keys of the last block
  // before its own position, but few rows keep keys of the first block. So with the last block
  // first one block less is computed again in two rows of blocks
  // (docs/log/2026-11-21-forward-sm90.md).
  schedule.lastKeysFirst = variant.isScattered && !(variant.isTested && variant.hasReductions);
  // Keys and values of 32 MiB stay in the 50 MB of an H100's L2. If captured tensors decide which
  // blocks run, blocks are few and their number varies. Then the largest groups of heads make the
  // end of the launch shorter (documents took 3 to 4 % less time). If positions decide it, such
  // groups cost more than they gave (`strided` +4 %; docs/log/2026-11-22-masks.md).
  if (variant.isTested && variant.hasCaptures)
    schedule.groupKeys = int64_t(1) << 20;
  else if (variant.isMasked)
    schedule.groupKeys = (int64_t(32) << 20) / (elementSize(specification.inputType) *
                                                (specification.headDimQk + specification.headDimV));
  // For sequences of any length, more stages gained more than an output buffer (documents of 16 to
  // 8k tokens took 1 % less time).
  bool isOpen = wanted.stages <= 1 && wanted.queryStages == 0 && !wanted.outputBuffer;
  if (isRagged(specification) && consumers == 3 && widest > 96 && variant.isMasked &&
      !variant.isTested && isOpen) {
    schedule.stages = 4;
    schedule.outputBuffer = false;
  }
  // If it does not fit: first narrower blocks, then the output goes through the queries' buffer,
  // then the narrowest blocks.
  auto isTooLarge = [&] { return sharedBytes(schedule, specification) > chip.blockShared; };
  while (schedule.blockN > 80 && isTooLarge())
    schedule.blockN -= 16;
  if (isTooLarge())
    schedule.outputBuffer = false;
  while (schedule.blockN > 16 && isTooLarge())
    schedule.blockN -= 16;
  return schedule;
}

/// Loads the queries of the next work item ahead if there is room for them. With overlap the item
/// then begins beside the last one's end. Long rows under closed masks gain nothing
/// (docs/log/2026-11-21-forward-sm90.md).
int64_t queryStagesFor(Schedule schedule, const KernelSpecification &specification,
                       const VariantTraits &variant, const ChipFacts &chip) {
  bool isNarrow = std::max(specification.headDimQk, specification.headDimV) <= 64;
  // Documents of 16 to 8k tokens took 6 % less time.
  bool itemsAreShort = !variant.isMasked || variant.isScattered || isNarrow ||
                       isRagged(specification) || expectedAtMost(specification, 2048);
  // Two items at a time take registers, which the reads of captured tensors need
  // (AssemblyTest).
  bool isFull = schedule.consumers == 3 || specification.headDimV > 128;
  bool hasRoom = !(variant.hasScore && variant.hasCaptures && isFull) && !variant.testsMuch;
  schedule.queryStages = 2;
  bool isPossible = schedule.consumers > 0 && schedule.persistent && schedule.outputBuffer &&
                    sharedBytes(schedule, specification) <= chip.blockShared;
  return isPossible && itemsAreShort && hasRoom ? 2 : 1;
}

/// How many consumers suit the expected length. Three reuse each key and value more often. Two
/// waste less of a short or a masked row of blocks. One has enough rows for few queries.
int64_t consumersFor(const KernelSpecification &specification, const VariantTraits &variant) {
  if (hasWideHeads(specification))
    return 2; // each has half of the output's columns
  if (suitsOneWarp(specification, variant))
    return 0;
  if (fewQueriesOf(specification) > 0)
    return 1;
  // Three consumers compute rows of blocks of 192 queries: of 512 queries the third row is one
  // third empty. Two compute 128 queries, which leave nothing empty.
  if (specification.expectedQueries > 0 && specification.expectedQueries <= 512)
    return 2;
  if (std::max(specification.headDimQk, specification.headDimV) > 128)
    return 2; // three have too few registers or, with unequal widths, too little shared memory
  // Without overlap, three consumers would have blocks of 128 keys, and spill (AssemblyTest).
  if (hasValuesOfKeys(specification))
    return 2;
  // Rows with few blocks, of which many are partial. Their bookkeeping takes registers, and so do
  // the rounds of a reduction.
  if (variant.isScattered || variant.hasReductions)
    return 2;
  // The random numbers of a block's pairs take registers: three consumers spilled 32 to 40 bytes at
  // D 128. With 64 columns they fit, but took 2.05 ms; two take 1.85.
  if (specification.dropout)
    return 2;
  // With two consumers and wide blocks there are registers for what chunks of 32 columns load
  // (learned_bias at D 128: 3.50 ms with three, 2.69 with two; D 64: 2.43 and 2.30).
  if (variant.readsHalves)
    return 2;
  bool isNarrow = std::max(specification.headDimQk, specification.headDimV) <= 64;
  int64_t longestOfTwo = isNarrow ? (variant.isMasked ? 1024 : 0) : variant.isMasked ? 4096 : 1024;
  // Of sequences of any length, the longest have most of the work (documents of up to 7376 tokens
  // took 4 % less time with three).
  if (isRagged(specification) && variant.isMasked && !isNarrow)
    longestOfTwo = 2048;
  return expectedAtMost(specification, longestOfTwo) ? 2 : 3;
}

/// The blocks of FlashAttention-2's forward kernels for these widths (its
/// flash_fwd_launch_template.h). docs/log/2026-11-23-forward-mma-sync.md has our measurements.
Schedule multiplyHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                           const ChipFacts &chip) {
  int64_t widest = std::max(specification.headDimQk, specification.headDimV);
  Schedule schedule;
  // `follow` rescales in each block, which costs multiplications. `lazy` has a branch, and the
  // assembler does not move loads and products across it. Measurements decided which is better.
  // If warps share rows, `follow` also needs a barrier in each block.
  bool follows = (widest > 32 && widest <= 64) || (widest > 128 && !hasWideHeads(specification));
  schedule.reference = follows ? ScheduleReference::follow : ScheduleReference::lazy;
  schedule.qInRegisters = widest <= 64;
  // The first that fits is taken. A warp with 32 rows uses each key and value twice. With 16 rows
  // there are registers for the output of wide heads.
  struct Blocks {
    int64_t blockM, blockN, warps, stages = 2;
    int64_t perMultiprocessor = 1; ///< the number of thread blocks that must fit
  };
  constexpr Blocks ofWidest[] = {{64, 64, 4, 1, 2}, {128, 64, 8}, {128, 32, 8},
                                 {64, 64, 4},       {64, 32, 4},  {64, 16, 4}},
                   ofOthers[] = {{128, 64, 4}, {128, 32, 4}},
                   ofFew[] = {{64, 64, 4}, {64, 32, 4}, {64, 16, 4}},
                   ofOneWarp[] = {{16, 32, 1, 3, 4}, {16, 32, 1, 2, 4}, {16, 16, 1, 2}},
                   ofOneNarrow[] = {{16, 32, 1, 2, 8}, {16, 16, 1, 2, 8}, {16, 16, 1, 2}},
                   ofCut[] = {{64, 64, 8},    {64, 64, 8, 1}, {64, 32, 8},
                              {64, 32, 8, 1}, {32, 32, 4},    {32, 32, 4, 1}};
  // With a score that reads captured tensors the larger blocks were faster.
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

/// For the kernels of a template that is not attention, about which no rule is known: blocks that
/// every target accepts, with four warps or with warpgroups with roles.
Schedule templateHeuristic(const KernelSpecification &specification, const VariantTraits &variant,
                           const Schedule &wanted) {
  Schedule schedule;
  schedule.blockM = wanted.consumers > 0 ? 64 * wanted.consumers : 64;
  schedule.blockN = 64;
  schedule.stages = 2;
  schedule.warps = wanted.consumers > 0 ? 4 * wanted.consumers : 4;
  // While a block of keys ends, the producer loads the first data of the next block. With a mask of
  // booleans a thread block waits for its finder, and the finder spills more in a loop over items
  // (docs/log/2026-11-27-backward.md). With one consumer several thread blocks may run on a
  // multiprocessor, and they overlap without this.
  bool isOfPairs = specification.algorithm == backwardAlgorithm ||
                   specification.algorithm == fusedBackwardAlgorithm;
  schedule.persistent = isOfPairs && wanted.consumers > 1 && !variant.readsBooleans;
  // Under a mask, rows of work items have unequal lengths. With several heads at once there are
  // always long ones to fill the multiprocessors. The tensors that the rows read, and the f32 sums
  // of dQ, stay in an H100's L2 (50 MB).
  // Work items that add in turn wait less for each other then.
  if (variant.isMasked || wanted.addInTurn)
    schedule.groupKeys =
        (int64_t(32) << 20) /
        (elementSize(specification.inputType) * (specification.headDimQk + specification.headDimV) +
         4 * specification.headDimQk);
  return schedule;
}

} // namespace tesela
