//===- Attempts.cpp - Ways to compile a specification -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/Attempts.h"

#include "driver/Templates.h"
#include "schedule/Schedule.h"
#include "targets/nvvm/ChipFacts.h"
#include "tile/GradientOps.h"

namespace tesela {

/// `overrides` apply to fields that the specification's own schedule does not name.
static Attempt withSchedule(const KernelSpecification &specification, const char *overrides,
                            bool mustOverlap = false) {
  Attempt attempt{specification, /*isPlain=*/false, mustOverlap};
  attempt.specification.schedule = mergedOverrides(overrides, specification.schedule);
  return attempt;
}

static bool isWide(const KernelSpecification &specification) {
  return std::max(specification.headDimQk, specification.headDimV) > 128;
}

/// Whether all sequences are known to have fewer than 1024 keys, or at most 512 queries. (The
/// Python package gives this number of queries for all launches with fewer.)
static bool isShort(const KernelSpecification &specification) {
  constexpr int64_t longFrom = 1024, fewQueries = 512;
  int64_t keys = specification.expectedLength, queries = specification.expectedQueries;
  return (keys > 0 && keys < longFrom) || (queries > 0 && queries <= fewQueries);
}

/// Whether the schedule does not name `choice`.
static bool isOpen(const KernelSpecification &specification, const char *choice) {
  return !llvm::StringRef(specification.schedule).contains(choice);
}

/// Attempts with roles, if `specification` computes gradients on a chip with warpgroup products,
/// and its schedule has consumers or does not name them. They have two consumers by default, or one
/// for deterministic gradients of narrow heads if two such thread blocks fit.
static std::vector<Attempt> withRoles(const KernelSpecification &specification) {
  Schedule wanted; // fields that the schedule does not name keep these values
  wanted.consumers = 2;
  wanted.splitOutputs = true;
  Result<ChipFacts> facts = chipFacts(specification.target.sm);
  Result<Template> source = findTemplate(specification.algorithm);
  auto has = [&](llvm::StringRef op) { return llvm::StringRef(source->text).contains(op); };
  if (!facts || facts->acceleratedPtx == 0 || !source ||
      !(has(tile::ScoreGradientOp::getOperationName()) ||
        has(tile::ScorePartialsOp::getOperationName())) ||
      !overrideSchedule(wanted, specification.schedule) || wanted.consumers == 0)
    return {};
  // A consumer computes 64 rows of dQ, or 64 of its columns (ProductShares.h). So narrow heads need
  // 128 queries in each step. They leave room for the next work item's keys and values.
  bool addsUp = has(tile::AccumulateOp::getOperationName());
  bool isNarrow = specification.headDimQk <= 64;
  if (addsUp && isNarrow)
    return {withSchedule(specification, "consumers = 2, block_n = 128, query_stages = 2"),
            withSchedule(specification, "consumers = 2, block_n = 128")};
  const char *roles = "consumers = 2", *split = "consumers = 2, split_outputs = true",
             *late = "consumers = 2, split_outputs = true, late_stages = 1",
             *crossed = "consumers = 2, split_outputs = true, late_crossed = true",
             *narrow = "consumers = 2, split_outputs = true, block_n = 32";
  // Sums of dK and dQ leave no registers for those of dV. The first schedule that fits into shared
  // memory is taken: that is `split` up to 192 columns, `crossed` above, and `late` if values have
  // fewer columns than keys (docs/log/2026-12-01-six-products.md).
  if (addsUp && isWide(specification) && isOpen(specification, "stages"))
    return {withSchedule(specification, split), withSchedule(specification, late),
            withSchedule(specification, crossed)};
  if (addsUp && isWide(specification)) // `late` and `crossed` are for two stages
    return {withSchedule(specification, split)};
  if (addsUp)
    return {withSchedule(specification, roles)};
  if (has(tile::ScorePartialsOp::getOperationName())) {
    // Two products for each pair; an iteration passes only sums to the next one.
    const char *wide = "consumers = 2, block_n = 128", *small = "consumers = 2, block_n = 32";
    return {withSchedule(specification, wide, /*mustOverlap=*/true),
            withSchedule(specification, roles, /*mustOverlap=*/true),
            withSchedule(specification, small, /*mustOverlap=*/true),
            withSchedule(specification, roles)};
  }
  // If dK and dV have a buffer of their own, the next keys and values are loaded while these are
  // stored (length 512 and 2k: 1 to 5 %; docs/log/2026-11-27-gradients-between-work-items.md).
  const char *apart = isNarrow ? "consumers = 2, output_buffer = true, query_stages = 2"
                               : "consumers = 2, output_buffer = true";
  std::vector<Attempt> attempts;
  // Up to 64 columns, two thread blocks with one consumer each run on a multiprocessor. They
  // overlap each other's ends. They were 2 to 10 % faster from 2048 on; at 1024 full attention was
  // faster and causal attention slower, and at 512 both were slower
  // (docs/log/2026-11-29-deterministic-narrow.md).
  constexpr int64_t longFrom = 2048;
  bool isLong = !isShort(specification) &&
                (specification.expectedLength == 0 || specification.expectedLength >= longFrom);
  bool isCountOpen = isOpen(specification, "consumers");
  bool mayHaveOne =
      isNarrow && specification.headDimV <= 64 && isLong && (isCountOpen || wanted.consumers == 1);
  Attempt one =
      withSchedule(specification, "consumers = 1, block_m = 64, warps = 4, persistent = false",
                   /*mustOverlap=*/true);
  if (mayHaveOne) {
    attempts.push_back(one);
    // A score's derivative or a finder may need more registers than two thread blocks have.
    attempts.back().mustFitTwice = isCountOpen;
  }
  if (specification.headDimQk <= 128)
    attempts.push_back(withSchedule(specification, apart, /*mustOverlap=*/true));
  attempts.push_back(withSchedule(specification, roles, /*mustOverlap=*/true));
  if (wanted.splitOutputs)
    for (const char *overrides : {split, late, narrow})
      attempts.push_back(withSchedule(specification, overrides, /*mustOverlap=*/true));
  if (mayHaveOne) // the schedule may name fields that two consumers do not have
    attempts.push_back(one);
  attempts.push_back(withSchedule(specification, roles));
  if (wanted.splitOutputs)
    attempts.push_back(withSchedule(specification, narrow));
  return attempts;
}

/// Deterministic gradients with five products, which work items add in turn. They are open to a
/// schedule that names no blocks, and to one that asks for them. A short work item waits for most
/// of its turns: at 512 seven products were faster, at 2048 five. Between them nothing was measured
/// (docs/log/2026-12-01-additions-in-turn.md).
static std::vector<Attempt> inTurn(const KernelSpecification &specification) {
  if (isOpen(specification, "add_in_turn") &&
      (isShort(specification) || !isOpen(specification, "block_m")))
    return {};
  KernelSpecification fused = specification;
  fused.algorithm = fusedBackwardAlgorithm;
  fused.schedule = mergedOverrides("add_in_turn = true", specification.schedule);
  std::vector<Attempt> attempts;
  Schedule wanted;
  if (!overrideSchedule(wanted, fused.schedule) || !wanted.addInTurn)
    return {};
  // The copy engine adds for work items in turn. For wide heads and split outputs it does not. If
  // that was asked for, the attempt says why it is not possible.
  if (!isWide(specification) && !wanted.splitOutputs)
    attempts = withRoles(fused);
  else if (!isOpen(specification, "add_in_turn"))
    attempts.push_back(withSchedule(fused, "consumers = 2"));
  for (Attempt &each : attempts)
    each.mustOverlap = true;
  return attempts;
}

/// Gradients with five products and without roles: a warp has 32 rows of keys. If its registers do
/// not hold dK and dV for these rows, other warps have the same rows and other columns. The first
/// attempt was the fastest measured (docs/log/2026-11-27-backward-mma-sync.md). Later ones need
/// less shared memory, or are for columns that cannot be divided so (ProductShares.h).
static std::vector<Attempt> withSharedRows(const KernelSpecification &specification) {
  Result<ChipFacts> facts = chipFacts(specification.target.sm);
  if (!facts)
    return {};
  constexpr const char *narrow = "block_m = 128, block_n = 32",
                       *square = "block_m = 64, block_n = 64, product_rows = 32",
                       *ofEight = "block_m = 128, block_n = 64, product_rows = 32, warps = 8",
                       *early = "block_m = 64, block_n = 64, product_rows = 32, stages = 1",
                       *wide = "block_m = 64, block_n = 64, product_rows = 32, warps = 8",
                       *wideEarly =
                           "block_m = 64, block_n = 64, product_rows = 32, warps = 8, stages = 1",
                       *whole = "block_m = 64, block_n = 64",
                       *wholeEarly = "block_m = 64, block_n = 64, stages = 1";
  int64_t widest = std::max(specification.headDimQk, specification.headDimV);
  llvm::SmallVector<const char *> texts;
  if (widest <= 64) {
    texts = {narrow, whole, wholeEarly};
  } else if (widest <= 128) {
    // Two thread blocks of four warps were as fast as one of eight for full attention, and faster
    // for causal attention. A single thread block of four warps leaves half of the registers
    // unused.
    constexpr int64_t bytesOfSquare = 112 * 1024;
    bool holdsTwo = 2 * (bytesOfSquare + reservedShared) <= facts->chipShared;
    if (holdsTwo)
      texts = {square};
    texts.append({ofEight, early, whole, wholeEarly});
  } else {
    texts = {wide, wideEarly};
  }
  std::vector<Attempt> attempts;
  for (const char *text : texts)
    attempts.push_back(withSchedule(specification, text));
  return attempts;
}

/// `specification` without roles, if it computes gradients on a GPU. With narrow heads a warp has
/// 32 rows, so that it reads the other operand half as often. With wide heads dK and dV have a
/// kernel each, because a warp's registers do not hold the rows of both
/// (docs/log/2026-11-27-backward.md).
static std::vector<Attempt> withMoreRows(const KernelSpecification &specification) {
  Result<Template> source = findTemplate(specification.algorithm);
  if (!source || !llvm::StringRef(source->text).contains(tile::ScoreGradientOp::getOperationName()))
    return {};
  if (llvm::StringRef(source->text).contains(tile::AccumulateOp::getOperationName()))
    return withSharedRows(specification);
  int64_t widest = std::max(specification.headDimQk, specification.headDimV);
  if (widest <= 64)
    return {withSchedule(specification, "block_m = 128, block_n = 32")};
  if (widest > 128)
    return {
        withSchedule(specification, "split_outputs = true, block_m = 128, block_n = 32, warps = 8"),
        withSchedule(specification, "split_outputs = true, block_n = 32, stages = 1")};
  return {};
}

/// The gradients on the host. For long sequences, blocks of 128 keys halve the reads and writes of
/// the sums of dQ (docs/log/2026-11-27-host-cpu-gradients.md).
static Attempt inParts(KernelSpecification specification) {
  specification.algorithm = "backward_in_parts";
  constexpr int64_t longFrom = 1024;
  if (specification.expectedLength >= longFrom)
    return withSchedule(specification, "block_m = 64, block_n = 128");
  return {specification};
}

/// Removes duplicates: if a schedule names many fields, some attempts are the same.
static std::vector<Attempt> distinct(const std::vector<Attempt> &attempts) {
  std::vector<Attempt> result;
  for (const Attempt &each : attempts) {
    auto same = llvm::find_if(result, [&](const Attempt &other) {
      return other.specification.schedule == each.specification.schedule &&
             other.mustOverlap == each.mustOverlap && other.mustFitTwice == each.mustFitTwice;
    });
    if (same == result.end())
      result.push_back(each);
    else
      same->isPlain |= each.isPlain;
  }
  return result;
}

/// The attempts whose work items do not wait for each other.
static std::vector<Attempt> unordered(const KernelSpecification &specification) {
  std::vector<Attempt> attempts = withRoles(specification);
  llvm::append_range(attempts, withMoreRows(specification));
  attempts.push_back({specification});
  if (isOpen(specification, "block_n")) {
    attempts.push_back(withSchedule(specification, "block_n = 32"));
    if (isOpen(specification, "stages"))
      attempts.push_back(withSchedule(specification, "block_n = 32, stages = 1"));
  }
  return distinct(attempts);
}

std::vector<Attempt> attemptsFor(const KernelSpecification &specification) {
  bool isForHost = specification.target.kind == Target::Kind::host;
  if (specification.algorithm == fastBackwardAlgorithm && isForHost)
    return {inParts(specification)};
  if (specification.algorithm == fastBackwardAlgorithm) {
    KernelSpecification fused = specification, exact = specification;
    fused.algorithm = fusedBackwardAlgorithm;
    exact.algorithm = backwardAlgorithm;
    std::vector<Attempt> attempts = unordered(exact);
    // Six products of wide heads need a kernel before and one after them. In a short launch these
    // cost more than two products save (512 tokens, D 256: 0.459 ms, without them 0.410;
    // docs/log/2026-12-01-six-products.md).
    if (isWide(specification) && isShort(specification))
      return attempts;
    // With five products that wait for each other, seven products that do not are faster.
    std::vector<Attempt> roles = withRoles(fused);
    for (Attempt &each : roles)
      each.mustOverlap = true;
    // With mma.sync five products were faster than seven wherever their tiles fit.
    if (roles.empty())
      roles = withSharedRows(fused);
    attempts.insert(attempts.begin(), roles.begin(), roles.end());
    return attempts;
  }
  if (specification.isAttention() || isForHost)
    return {{specification}};
  std::vector<Attempt> attempts = unordered(specification);
  if (specification.algorithm == backwardAlgorithm) {
    std::vector<Attempt> ordered = inTurn(specification);
    if (!ordered.empty() && !isOpen(specification, "add_in_turn"))
      return ordered; // what was asked for, or the reason why it is not possible
    attempts.insert(attempts.begin(), ordered.begin(), ordered.end());
  }
  return attempts;
}

} // namespace tesela
