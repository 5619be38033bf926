//===- Schedule.cpp - Choosing how a kernel runs ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Schedule.h"

#include "targets/host/HostSchedule.h"
#include "targets/nvvm/ChipFacts.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <bit>
#include <limits>

namespace tesela {

/// Query heads of a block at most: a tensor copy brings the rows of a warpgroup, which has 64.
constexpr int64_t mostHeads = 64;

std::string Schedule::text() const {
  std::string text =
      fmt::format("block_m = {}, block_n = {}, stages = {}, warps = {}, q_in_registers = {}",
                  blockM, blockN, stages, warps, qInRegisters);
  if (consumers > 0)
    text += fmt::format(", consumers = {}", consumers);
  if (reference != "follow")
    text += ", reference = " + reference;
  for (auto [name, value] :
       {std::pair("overlap", overlap), std::pair("turns", turns),
        std::pair("persistent", persistent), std::pair("output_buffer", outputBuffer)})
    if (value)
      text += fmt::format(", {} = true", name);
  if (groupKeys > 0)
    text += fmt::format(", group_keys = {}", groupKeys);
  if (heads > 1)
    text += fmt::format(", heads = {}", heads);
  if (queryStages > 1)
    text += fmt::format(", query_stages = {}", queryStages);
  return text;
}

Status overrideSchedule(Schedule &schedule, const std::string &text) {
  llvm::SmallVector<llvm::StringRef> items;
  llvm::StringRef(text).split(items, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef item : items) {
    auto [name, value] = item.split('=');
    name = name.trim();
    value = value.trim();
    bool *choice = name == "q_in_registers"  ? &schedule.qInRegisters
                   : name == "overlap"       ? &schedule.overlap
                   : name == "turns"         ? &schedule.turns
                   : name == "persistent"    ? &schedule.persistent
                   : name == "output_buffer" ? &schedule.outputBuffer
                                             : nullptr;
    if (choice) {
      if (value != "true" && value != "false")
        return Error(Code::invalidArgument, fmt::format("schedule: {} is true or false, not '{}'",
                                                        name.str(), value.str()));
      *choice = value == "true";
      continue;
    }
    if (name == "reference") {
      if (value != "follow" && value != "lazy" && value != "recompute")
        return Error(
            Code::invalidArgument,
            fmt::format("schedule: reference is follow, lazy or recompute, not '{}'", value.str()));
      schedule.reference = value.str();
      continue;
    }
    int64_t *field = name == "block_m"        ? &schedule.blockM
                     : name == "block_n"      ? &schedule.blockN
                     : name == "stages"       ? &schedule.stages
                     : name == "warps"        ? &schedule.warps
                     : name == "consumers"    ? &schedule.consumers
                     : name == "group_keys"   ? &schedule.groupKeys
                     : name == "heads"        ? &schedule.heads
                     : name == "query_stages" ? &schedule.queryStages
                                              : nullptr;
    if (!field)
      return Error(
          Code::invalidArgument,
          fmt::format("schedule: '{}' is no choice of a schedule; the choices are block_m, "
                      "block_n, stages, warps, q_in_registers, consumers, reference, overlap, "
                      "turns, persistent, output_buffer, group_keys, heads and query_stages",
                      name.str()));
    int64_t least = field == &schedule.consumers || field == &schedule.groupKeys ? 0 : 1;
    int64_t most = field == &schedule.groupKeys ? std::numeric_limits<int32_t>::max() : 4096;
    if (value.getAsInteger(10, *field) || *field < least || *field > most)
      return Error(Code::invalidArgument,
                   fmt::format("schedule: {} is a whole number from {} to {}, not '{}'", name.str(),
                               least, most, value.str()));
  }
  return Status::success();
}

int64_t sharedBytes(const Schedule &schedule, const KernelSpecification &specification) {
  int64_t size = elementSize(specification.inputType);
  // The output leaves through the queries' buffer where it fits, beside it where roles share one of
  // another shape.
  bool beside = schedule.consumers > 0 &&
                (schedule.outputBuffer || specification.headDimQk != specification.headDimV);
  int64_t query = schedule.blockM *
                  (beside ? schedule.queryStages * specification.headDimQk + specification.headDimV
                          : std::max(specification.headDimQk, specification.headDimV));
  int64_t keyAndValue = schedule.blockN * (specification.headDimQk + specification.headDimV);
  int64_t barriers = schedule.consumers > 0
                         ? 16 * (schedule.consumers * schedule.queryStages + 2 * schedule.stages)
                         : 0;
  if (schedule.persistent)
    barriers += 2 * (16 + 16); // the channel of work items
  // Where blocks are found one by one: the channels that tell of them (pipe-split-roles), and the
  // memory of each warp that finds (BlockFinder.h).
  bool hasRoles = schedule.consumers > 0;
  int64_t finding = hasRoles ? (16 + 16) * (2 + 16 + 16) : 0;
  finding += (hasRoles ? 1 : schedule.warps) * 272;
  return size * (query + schedule.stages * keyAndValue) + barriers + finding;
}

/// Whether launches are expected to have no more than `length` keys, a power of two.
static bool expectedAtMost(const KernelSpecification &specification, int64_t length) {
  return specification.expectedLength > 0 &&
         int64_t(std::bit_floor(uint64_t(specification.expectedLength))) <= length;
}

/// The most queries that a launch has few of: with more, a head's fill half of a warpgroup's rows.
constexpr int64_t fewQueries = 32;

static bool hasFewQueries(const KernelSpecification &specification) {
  return specification.expectedQueries > 0 && specification.expectedQueries <= fewQueries;
}

/// As many heads as leave the expected queries room in `blockM` rows: the rows that a head would
/// leave empty then serve others that read the same keys.
static int64_t headsFor(const KernelSpecification &specification, int64_t blockM) {
  if (!hasFewQueries(specification))
    return 1;
  uint64_t queries = std::bit_ceil(uint64_t(specification.expectedQueries));
  return std::min<int64_t>(mostHeads, std::bit_floor(uint64_t(blockM) / queries));
}

/// Warpgroups with roles on sm_90: the fastest of those measured on an H200 (docs/performance.md).
static Schedule roleHeuristic(const KernelSpecification &specification,
                              const VariantTraits &variant, const ChipFacts &chip,
                              int64_t consumers, bool overlap) {
  Schedule schedule;
  int64_t widest = std::max(specification.headDimQk, specification.headDimV);
  schedule.consumers = consumers;
  schedule.blockM = 64 * consumers;
  schedule.warps = 4 * consumers;
  schedule.heads = headsFor(specification, schedule.blockM);
  bool isWide = widest <= 64 || (specification.headDimV <= 128 && consumers < 3);
  schedule.blockN = isWide ? 128 : 80;
  // Beside the values and addresses of captured tensors the registers of three hold less; nothing
  // of the library's variants is spilled with these (AssemblyTest).
  if (consumers == 3 && variant.hasCaptures && widest <= 64)
    schedule.blockN = 112;
  // So do the reads of masks that are no intervals of positions, beside the output of wide heads:
  // with 80 columns those of documents spill (AssemblyTest).
  if (variant.isTested && widest > 128)
    schedule.blockN = std::min<int64_t>(schedule.blockN, 64);
  schedule.stages = widest <= 64 ? 4 : 2;
  // A score that is computed again takes registers.
  bool isCostly = variant.hasScore && (variant.hasCaptures || widest <= 64);
  schedule.reference = isCostly ? "lazy" : "recompute";
  schedule.overlap = overlap;
  schedule.persistent = schedule.outputBuffer = true;
  bool isShort = expectedAtMost(specification, 2048);
  bool turnsPay = (widest <= 64 && consumers == 3 && (variant.isMasked || isShort)) ||
                  (variant.hasScore && variant.hasCaptures);
  schedule.turns = turnsPay && overlap && consumers > 1;
  if (variant.isMasked) // keys and values of 32 MiB stay in the L2 of 50 MB (HOPPER.md)
    schedule.groupKeys = (int64_t(32) << 20) / (elementSize(specification.inputType) *
                                                (specification.headDimQk + specification.headDimV));
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

/// Queries of the next work item are loaded ahead where there is room for them. Long rows under
/// closed masks gain nothing (docs/performance.md).
static int64_t queryStagesFor(Schedule schedule, const KernelSpecification &specification,
                              const VariantTraits &variant, const ChipFacts &chip) {
  bool isNarrow = std::max(specification.headDimQk, specification.headDimV) <= 64;
  bool itemsAreShort =
      !variant.isMasked || variant.isTested || isNarrow || expectedAtMost(specification, 2048);
  schedule.queryStages = 2;
  bool isPossible = schedule.consumers > 0 && schedule.persistent && schedule.outputBuffer &&
                    sharedBytes(schedule, specification) <= chip.blockShared;
  return isPossible && itemsAreShort ? 2 : 1;
}

/// How many consumers suit the expected length: three reuse each key and value more, two waste less
/// of a short or a masked row of blocks; one has rows enough for few queries.
static int64_t consumersFor(const KernelSpecification &specification,
                            const VariantTraits &variant) {
  if (hasFewQueries(specification))
    return 1;
  if (std::max(specification.headDimQk, specification.headDimV) > 128)
    return 2; // the registers, or with unequal widths the shared memory, of three hold too little
  if (variant.isScattered) // few and often partial blocks, whose bookkeeping takes registers
    return 2;
  bool isNarrow = std::max(specification.headDimQk, specification.headDimV) <= 64;
  int64_t longestOfTwo = isNarrow ? (variant.isMasked ? 1024 : 0) : variant.isMasked ? 4096 : 1024;
  return expectedAtMost(specification, longestOfTwo) ? 2 : 3;
}

/// Blocks of FlashAttention-2's forward kernels for these widths (its
/// flash_fwd_launch_template.h); docs/performance.md has what was measured here.
static Schedule multiplyHeuristic(const KernelSpecification &specification, const ChipFacts &chip) {
  Schedule schedule;
  schedule.reference = "lazy";
  schedule.warps = 4;
  schedule.blockM = hasFewQueries(specification) ? 64 : 128;
  schedule.heads = headsFor(specification, schedule.blockM);
  schedule.blockN = 64;
  schedule.stages = 2;
  schedule.qInRegisters = std::max(specification.headDimQk, specification.headDimV) <= 64;
  if (sharedBytes(schedule, specification) > chip.blockShared)
    schedule.blockN = 32;
  return schedule;
}

static Error reject(std::string message) {
  return Error(Code::invalidArgument, "schedule: " + message);
}

static Status checkHeads(const Schedule &schedule) {
  if (std::has_single_bit(uint64_t(schedule.heads)) && schedule.heads <= mostHeads &&
      schedule.blockM % schedule.heads == 0)
    return Status::success();
  return reject(
      fmt::format("heads is a power of two up to {} that divides block_m = {}, not {}: so "
                  "many query heads share the rows of a block",
                  mostHeads, schedule.blockM, schedule.heads));
}

/// Whether it makes a choice that only warpgroups with roles have.
static bool usesRoles(const Schedule &schedule) {
  return schedule.overlap || schedule.turns || schedule.persistent || schedule.outputBuffer ||
         schedule.queryStages > 1;
}

static Status checkShared(const Schedule &schedule, const KernelSpecification &specification,
                          const ChipFacts &chip) {
  int64_t bytes = sharedBytes(schedule, specification);
  if (bytes > chip.blockShared)
    return reject(
        fmt::format("needs {} bytes of shared memory, sm_{} gives a thread block {}; take a "
                    "smaller block_m, block_n or fewer stages",
                    bytes, chip.sm, chip.blockShared));
  return Status::success();
}

/// Warpgroups with roles: wgmma and tensor copies.
static Status checkRoles(const Schedule &schedule, const KernelSpecification &specification,
                         const ChipFacts &chip) {
  if (chip.acceleratedPtx == 0)
    return reject(
        fmt::format("consumers is 0 on sm_{}: only sm_90 has warpgroup products", chip.sm));
  if (schedule.consumers > 3)
    return reject(
        fmt::format("consumers is 1, 2 or 3, not {}: a thread block's registers serve no more",
                    schedule.consumers));
  if (schedule.blockM != 64 * schedule.consumers || schedule.warps != 4 * schedule.consumers)
    return reject(
        fmt::format("{} consumers take block_m = {} (64 rows each) and warps = {}, not {} and "
                    "{}",
                    schedule.consumers, 64 * schedule.consumers, 4 * schedule.consumers,
                    schedule.blockM, schedule.warps));
  if (schedule.blockN % 16 != 0 || schedule.blockN > 256)
    return reject(fmt::format("block_n is a multiple of 16 up to 256, not {}", schedule.blockN));
  // Accumulators of S and O beside what else a thread of a consumer holds (pipe-split-roles deals
  // 256, 232 or 160 registers).
  constexpr int64_t registers[] = {0, 224, 208, 128};
  int64_t held = (schedule.blockN + specification.headDimV) / 2;
  if (schedule.overlap) // the last block's P beside this block's S
    held += schedule.blockN / 4;
  if (held > registers[schedule.consumers])
    return reject(
        fmt::format("keeps {} values in the registers of a thread, of which {} can hold tiles "
                    "with {} consumers; take fewer consumers or a smaller block_n",
                    held, registers[schedule.consumers], schedule.consumers));
  if (schedule.turns && (!schedule.overlap || schedule.consumers < 2))
    return reject("turns need overlap = true and consumers = 2 or 3: they order the products that "
                  "overlap starts");
  if (schedule.qInRegisters)
    return reject(
        "q_in_registers is false with consumers: their products read it from shared memory");
  bool hasItems = schedule.persistent && schedule.outputBuffer;
  if (schedule.queryStages > (hasItems ? 2 : 1))
    return reject(fmt::format("query_stages is 1, or 2 with persistent = true and output_buffer = "
                              "true, not {}: only the next work item's queries are loaded ahead",
                              schedule.queryStages));
  return checkShared(schedule, specification, chip);
}

static Status checkCuda(const Schedule &schedule, const KernelSpecification &specification,
                        const ChipFacts &chip) {
  if (schedule.consumers > 0)
    return checkRoles(schedule, specification, chip);
  if (usesRoles(schedule))
    return reject("overlap, turns, persistent, output_buffer and query_stages need consumers; take "
                  "consumers = 2 or 3 on sm_90, or leave them out");
  if (std::max(specification.headDimQk, specification.headDimV) > 128)
    return reject(fmt::format("consumers = 0 computes head dimensions up to 128, not {} and {}; "
                              "leave consumers out",
                              specification.headDimQk, specification.headDimV));
  if (schedule.warps != 4 && schedule.warps != 8)
    return reject(fmt::format("warps is 4 or 8, not {}", schedule.warps));
  if (schedule.blockM % (16 * schedule.warps) != 0)
    return reject(fmt::format("block_m is a multiple of 16 · warps = {}, not {}: each warp takes "
                              "whole strips of 16 rows",
                              16 * schedule.warps, schedule.blockM));
  if (schedule.blockN % 16 != 0)
    return reject(fmt::format("block_n is a multiple of 16, not {}", schedule.blockN));
  // A copy gives each thread whole rows of 16-byte chunks, 8 rows or more apart.
  int64_t narrowest = std::min(specification.headDimQk, specification.headDimV);
  int64_t rowStep = schedule.warps * 32 / (narrowest / 8);
  if (schedule.blockN % rowStep != 0 || schedule.blockM % rowStep != 0)
    return reject(
        fmt::format("block_m and block_n are multiples of {} here (the rows that {} threads "
                    "copy at once), not {} and {}",
                    rowStep, schedule.warps * 32, schedule.blockM, schedule.blockN));
  if (Status status = checkShared(schedule, specification, chip); !status)
    return status;
  // Accumulators of S and O, and Q where it is kept, must fit the 255 registers of a thread.
  int64_t strips = schedule.blockM / (16 * schedule.warps);
  int64_t registers = strips * (schedule.blockN + specification.headDimV) / 2 +
                      (schedule.qInRegisters ? strips * specification.headDimQk / 4 : 0);
  if (registers > 224)
    return reject(fmt::format("keeps {} values in the registers of a thread, of which 224 can hold "
                              "tiles; take more warps, a smaller block_m or block_n, or "
                              "q_in_registers = false",
                              registers));
  return Status::success();
}

static Status checkHost(const Schedule &schedule) {
  if (schedule.consumers > 0 || schedule.reference != "follow" || usesRoles(schedule))
    return Error(Code::invalidArgument, "schedule: consumers, reference, overlap, turns, "
                                        "persistent, output_buffer and query_stages are choices "
                                        "of GPU targets; leave them out on the host");
  if (schedule.blockM % 8 != 0 || schedule.blockN % 16 != 0)
    return Error(
        Code::invalidArgument,
        fmt::format("schedule: on the host block_m is a multiple of 8 and block_n of 16, not "
                    "{} and {}",
                    schedule.blockM, schedule.blockN));
  return Status::success();
}

Result<Schedule> chooseSchedule(const KernelSpecification &specification,
                                const VariantTraits &variant) {
  if (specification.target.kind == Target::Kind::host) {
    HostBlocks blocks =
        hostBlocks(specification.inputType, specification.headDimQk, specification.headDimV);
    Schedule schedule;
    schedule.blockM = blocks.blockM;
    schedule.blockN = blocks.blockN;
    if (Status status = overrideSchedule(schedule, specification.schedule); !status)
      return status.error();
    if (Status status = checkHost(schedule); !status)
      return status.error();
    if (Status status = checkHeads(schedule); !status)
      return status.error();
    return schedule;
  }
  Result<ChipFacts> chip = chipFacts(specification.target.sm);
  if (!chip)
    return chip.error();
  // The number of consumers and the overlap decide what suits the rest, so their overrides come
  // first.
  Schedule wanted;
  wanted.queryStages = 0;
  wanted.consumers = chip->acceleratedPtx != 0 ? consumersFor(specification, variant) : 0;
  wanted.overlap = true;
  if (Status status = overrideSchedule(wanted, specification.schedule); !status)
    return status.error();
  Schedule schedule = wanted.consumers > 0 ? roleHeuristic(specification, variant, *chip,
                                                           wanted.consumers, wanted.overlap)
                                           : multiplyHeuristic(specification, *chip);
  if (Status status = overrideSchedule(schedule, specification.schedule); !status)
    return status.error();
  if (wanted.queryStages == 0) // not overridden: what the other choices leave room for
    schedule.queryStages = queryStagesFor(schedule, specification, variant, *chip);
  if (Status status = checkCuda(schedule, specification, *chip); !status)
    return status.error();
  if (Status status = checkHeads(schedule); !status)
    return status.error();
  return schedule;
}

} // namespace tesela
