//===- Schedule.cpp - Choosing how a kernel runs ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Schedule.h"

#include "targets/host/HostSchedule.h"
#include "targets/nvvm/ChipFacts.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
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
  if (lastKeysFirst)
    text += ", last_keys_first = true";
  if (lanes > 0)
    text += fmt::format(", lanes = {}, product_rows = {}, product_vectors = {}", lanes, productRows,
                        productVectors);
  if (productPairs)
    text += ", product_pairs = true";
  return text;
}

Schedule Schedule::withoutRoles() const {
  Schedule plain = *this;
  plain.consumers = 0;
  plain.overlap = plain.turns = plain.persistent = plain.outputBuffer = false;
  plain.queryStages = 1;
  return plain;
}

namespace {
/// The fields that a text can name, but for `reference`.
struct Flag {
  llvm::StringRef name;
  bool Schedule::*field;
};
constexpr Flag flags[] = {{"q_in_registers", &Schedule::qInRegisters},
                          {"overlap", &Schedule::overlap},
                          {"turns", &Schedule::turns},
                          {"persistent", &Schedule::persistent},
                          {"output_buffer", &Schedule::outputBuffer},
                          {"product_pairs", &Schedule::productPairs},
                          {"last_keys_first", &Schedule::lastKeysFirst}};

struct Number {
  llvm::StringRef name;
  int64_t Schedule::*field;
  int64_t least = 1, most = 4096;
};
constexpr Number numbers[] = {
    {"block_m", &Schedule::blockM},
    {"block_n", &Schedule::blockN},
    {"stages", &Schedule::stages},
    {"warps", &Schedule::warps},
    {"consumers", &Schedule::consumers, 0},
    {"group_keys", &Schedule::groupKeys, 0, std::numeric_limits<int32_t>::max()},
    {"heads", &Schedule::heads},
    {"query_stages", &Schedule::queryStages},
    {"lanes", &Schedule::lanes},
    {"product_rows", &Schedule::productRows},
    {"product_vectors", &Schedule::productVectors}};
} // namespace

std::string Schedule::pinnedText() const {
  if (lanes > 0) // the host's
    return fmt::format("block_m = {}, block_n = {}, group_keys = {}, heads = {}, lanes = {}, "
                       "product_rows = {}, product_vectors = {}, product_pairs = {}",
                       blockM, blockN, groupKeys, heads, lanes, productRows, productVectors,
                       productPairs);
  std::string text;
  for (const Number &number : numbers)
    if (int64_t value = this->*number.field; value >= number.least)
      text += fmt::format("{} = {}, ", number.name.str(), value);
  text += "reference = " + reference;
  for (const Flag &flag : flags)
    text += fmt::format(", {} = {}", flag.name.str(), this->*flag.field);
  return text;
}

Status overrideSchedule(Schedule &schedule, const std::string &text) {
  llvm::SmallVector<llvm::StringRef> items;
  if (!llvm::StringRef(text).trim().empty())
    llvm::StringRef(text).split(items, ',');
  llvm::SmallVector<llvm::StringRef> given;
  for (llvm::StringRef item : items) {
    if (item.trim().empty())
      return Error(
          Code::invalidArgument,
          fmt::format("schedule: '{}' has a comma without a choice beside it; write name = "
                      "value, with commas between",
                      text));
    auto [name, value] = item.split('=');
    name = name.trim();
    value = value.trim();
    if (llvm::is_contained(given, name))
      return Error(Code::invalidArgument,
                   fmt::format("schedule: {} is given twice; leave one out", name.str()));
    given.push_back(name);
    const Flag *flag = llvm::find_if(flags, [&](const Flag &each) { return each.name == name; });
    if (flag != std::end(flags)) {
      if (value != "true" && value != "false")
        return Error(Code::invalidArgument, fmt::format("schedule: {} is true or false, not '{}'",
                                                        name.str(), value.str()));
      schedule.*flag->field = value == "true";
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
    const Number *number =
        llvm::find_if(numbers, [&](const Number &each) { return each.name == name; });
    if (number == std::end(numbers))
      return Error(
          Code::invalidArgument,
          fmt::format("schedule: '{}' is no choice of a schedule; the choices are block_m, "
                      "block_n, stages, warps, q_in_registers, consumers, reference, overlap, "
                      "turns, persistent, output_buffer, group_keys, heads, query_stages, "
                      "last_keys_first, lanes, product_rows, product_vectors and product_pairs",
                      name.str()));
    int64_t &field = schedule.*number->field;
    if (value.getAsInteger(10, field) || field < number->least || field > number->most)
      return Error(Code::invalidArgument,
                   fmt::format("schedule: {} is a whole number from {} to {}, not '{}'", name.str(),
                               number->least, number->most, value.str()));
  }
  return Status::success();
}

std::string mergedOverrides(const std::string &weak, const std::string &strong) {
  auto itemsOf = [](llvm::StringRef text) {
    llvm::SmallVector<llvm::StringRef> items;
    text.split(items, ',', -1, /*KeepEmpty=*/false);
    return items;
  };
  auto nameOf = [](llvm::StringRef item) { return item.split('=').first.trim(); };
  llvm::SmallVector<llvm::StringRef> taken = itemsOf(strong);
  std::string merged = strong;
  for (llvm::StringRef item : itemsOf(weak)) {
    if (llvm::any_of(taken, [&](llvm::StringRef each) { return nameOf(each) == nameOf(item); }))
      continue;
    if (!llvm::StringRef(merged).trim().empty())
      merged += ",";
    merged += item;
  }
  return merged;
}

/// Columns with which a head of `headDim` 16-bit elements lies in a buffer: its rows take whole
/// rows of the banks (`!pipe.buffer`).
static int64_t bufferColumns(int64_t headDim) { return (headDim + 63) / 64 * 64; }

int64_t sharedBytes(const Schedule &schedule, const KernelSpecification &specification) {
  int64_t size = elementSize(specification.inputType);
  // The output leaves through the queries' buffer where it fits, beside it where roles share one of
  // another shape.
  bool beside = schedule.consumers > 0 &&
                (schedule.outputBuffer || specification.headDimQk != specification.headDimV);
  int64_t columnsQk = bufferColumns(specification.headDimQk),
          columnsV = bufferColumns(specification.headDimV);
  int64_t query = schedule.blockM * (beside ? schedule.queryStages * columnsQk + columnsV
                                            : std::max(columnsQk, columnsV));
  int64_t keyAndValue = schedule.blockN * (columnsQk + columnsV);
  int64_t barriers = schedule.consumers > 0
                         ? 16 * (schedule.consumers * schedule.queryStages + 2 * schedule.stages)
                         : 0;
  if (schedule.persistent)
    barriers += 2 * (16 + 16) + 16; // the channel of work items, and the last one
  // Where blocks are found one by one: the channels that tell of them, and what comes with their
  // keys (pipe-split-roles), and the memory of each warp that finds (BlockFinder.h).
  bool hasRoles = schedule.consumers > 0;
  int64_t finding = hasRoles ? (16 + 16) * (2 + 32) + 16 * schedule.stages : 0;
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

/// Where the expected queries are few, the power of two that they do not exceed; else 0.
static int64_t fewQueriesOf(const KernelSpecification &specification) {
  bool areFew = specification.expectedQueries > 0 && specification.expectedQueries <= fewQueries;
  return areFew ? int64_t(std::bit_ceil(uint64_t(specification.expectedQueries))) : 0;
}

/// As many heads as leave the expected queries room in `blockM` rows: the rows that a head would
/// leave empty then serve others that read the same keys.
static int64_t headsFor(const KernelSpecification &specification, int64_t blockM) {
  int64_t queries = fewQueriesOf(specification);
  if (queries == 0)
    return 1;
  return std::min<int64_t>(mostHeads, std::bit_floor(uint64_t(blockM / queries)));
}

/// Values of tiles that a thread of 1, 2 or 3 consumers can hold beside everything else, where no
/// finder takes registers (RoleRegisters.h deals 256, 232 or 160).
constexpr int64_t tileRegisters[] = {0, 224, 208, 128};

/// What a thread of a consumer holds of tiles: accumulators of S and O; and with `overlap` the last
/// block's P beside this block's S.
static int64_t heldRegisters(int64_t blockN, int64_t headDimV, bool overlap) {
  return (blockN + paddedHeadDim(headDimV)) / 2 + (overlap ? blockN / 4 : 0);
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

/// Warpgroups with roles on sm_90: the fastest of those measured on an H200 (docs/performance.md).
static Schedule roleHeuristic(const KernelSpecification &specification,
                              const VariantTraits &variant, const ChipFacts &chip,
                              const Schedule &wanted) {
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
    return heldRegisters(blockN, specification.headDimV, overlap) <= tileRegisters[consumers];
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
  // A score that is computed again takes registers.
  bool isCostly =
      variant.hasScore && (variant.hasCaptures || variant.hasReductions || widest <= 64);
  // Beside the output of 256 columns a block that is found has no registers for both
  // (AssemblyTest).
  isCostly |= variant.testsMuch || (variant.isTested && widest > 192) || isPackedAndScattered;
  schedule.reference = isCostly ? "lazy" : "recompute";
  schedule.overlap = overlap;
  schedule.persistent = schedule.outputBuffer = true;
  bool isShort = expectedAtMost(specification, 2048);
  bool turnsPay = (widest <= 64 && consumers == 3 && (variant.isMasked || isShort)) ||
                  (variant.hasScore && variant.hasCaptures);
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
static int64_t queryStagesFor(Schedule schedule, const KernelSpecification &specification,
                              const VariantTraits &variant, const ChipFacts &chip) {
  bool isNarrow = std::max(specification.headDimQk, specification.headDimV) <= 64;
  bool itemsAreShort =
      !variant.isMasked || variant.isScattered || isNarrow || expectedAtMost(specification, 2048);
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
static int64_t consumersFor(const KernelSpecification &specification,
                            const VariantTraits &variant) {
  if (fewQueriesOf(specification) > 0)
    return 1;
  if (std::max(specification.headDimQk, specification.headDimV) > 128)
    return 2; // the registers, or with unequal widths the shared memory, of three hold too little
  // Few and often partial blocks, whose bookkeeping takes registers; as the rounds of a reduction
  // do.
  if (variant.isScattered || variant.hasReductions)
    return 2;
  // Beside wide blocks two hold what chunks of 32 columns bring (learned_bias at D 128: 3.50 ms
  // with three, 2.69 with two; D 64: 2.43 and 2.30).
  if (variant.readsHalves)
    return 2;
  bool isNarrow = std::max(specification.headDimQk, specification.headDimV) <= 64;
  int64_t longestOfTwo = isNarrow ? (variant.isMasked ? 1024 : 0) : variant.isMasked ? 4096 : 1024;
  return expectedAtMost(specification, longestOfTwo) ? 2 : 3;
}

/// Blocks of FlashAttention-2's forward kernels for these widths (its
/// flash_fwd_launch_template.h); docs/performance.md has what was measured here.
static Schedule multiplyHeuristic(const KernelSpecification &specification,
                                  const VariantTraits &variant, const ChipFacts &chip) {
  int64_t widest = std::max(specification.headDimQk, specification.headDimV);
  Schedule schedule;
  // A rescaling in each block costs multiplications; the branch that avoids them keeps the
  // assembler from moving loads and products across it. Which is less was measured.
  schedule.reference = (widest > 32 && widest <= 64) || widest > 128 ? "follow" : "lazy";
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
                   ofFew[] = {{64, 64, 4}, {64, 32, 4}, {64, 16, 4}};
  // With a score that reads captures the larger blocks were faster.
  bool readsMuch = variant.hasScore && variant.hasCaptures;
  llvm::ArrayRef<Blocks> choices =
      widest > 128 ? llvm::ArrayRef(ofWidest).drop_front(widest > 192 && !readsMuch ? 0 : 1)
                   : llvm::ArrayRef(ofOthers);
  if (fewQueriesOf(specification) > 0)
    choices = ofFew;
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
static Schedule templateHeuristic(const Schedule &wanted) {
  Schedule schedule;
  schedule.blockM = wanted.consumers > 0 ? 64 * wanted.consumers : 64;
  schedule.blockN = 64;
  schedule.stages = 2;
  schedule.warps = wanted.consumers > 0 ? 4 * wanted.consumers : 4;
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

/// Whether it makes a choice that only the host has.
static bool usesVectors(const Schedule &schedule) {
  return schedule.lanes > 0 || schedule.productRows > 0 || schedule.productVectors > 0 ||
         schedule.productPairs;
}

static Status checkShared(const Schedule &schedule, const KernelSpecification &specification,
                          const ChipFacts &chip) {
  if (!specification.isAttention())
    return Status::success(); // counted once it is lowered
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
  int64_t held = specification.isAttention()
                     ? heldRegisters(schedule.blockN, specification.headDimV, schedule.overlap)
                     : 0;
  if (held > tileRegisters[schedule.consumers])
    return reject(
        fmt::format("keeps {} values in the registers of a thread, of which {} can hold tiles "
                    "with {} consumers; take fewer consumers or a smaller block_n",
                    held, tileRegisters[schedule.consumers], schedule.consumers));
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
  if (usesVectors(schedule))
    return reject("lanes, product_rows, product_vectors and product_pairs are choices of the host; "
                  "leave them out on a GPU");
  if (schedule.consumers > 0)
    return checkRoles(schedule, specification, chip);
  if (usesRoles(schedule))
    return reject("overlap, turns, persistent, output_buffer and query_stages need consumers; take "
                  "consumers = 2 or 3 on sm_90, or leave them out");
  if (schedule.warps != 4 && schedule.warps != 8)
    return reject(fmt::format("warps is 4 or 8, not {}", schedule.warps));
  if (schedule.blockM % (16 * schedule.warps) != 0)
    return reject(fmt::format("block_m is a multiple of 16 · warps = {}, not {}: each warp takes "
                              "whole strips of 16 rows",
                              16 * schedule.warps, schedule.blockM));
  if (schedule.blockN % 16 != 0)
    return reject(fmt::format("block_n is a multiple of 16, not {}", schedule.blockN));
  // A copy gives eight threads a row, 128 bytes at a time.
  int64_t rowStep = schedule.warps * 32 / 8;
  if (schedule.blockN % rowStep != 0 || schedule.blockM % rowStep != 0)
    return reject(
        fmt::format("block_m and block_n are multiples of {} here (the rows that {} threads "
                    "copy at once), not {} and {}",
                    rowStep, schedule.warps * 32, schedule.blockM, schedule.blockN));
  if (Status status = checkShared(schedule, specification, chip); !status)
    return status;
  if (!specification.isAttention())
    return Status::success();
  // Accumulators of S and O, and Q where it is kept, must fit the 255 registers of a thread.
  int64_t strips = schedule.blockM / (16 * schedule.warps);
  int64_t registers =
      strips * (schedule.blockN + paddedHeadDim(specification.headDimV)) / 2 +
      (schedule.qInRegisters ? strips * paddedHeadDim(specification.headDimQk) / 4 : 0);
  if (registers > 224)
    return reject(fmt::format("keeps {} values in the registers of a thread, of which 224 can hold "
                              "tiles; take more warps, a smaller block_m or block_n, or "
                              "q_in_registers = false",
                              registers));
  return Status::success();
}

static Status checkHost(const Schedule &schedule, ElementType input, const VectorUnit &unit) {
  if (schedule.consumers > 0 || schedule.reference != "follow" || schedule.lastKeysFirst ||
      usesRoles(schedule))
    return reject(
        "consumers, reference, overlap, turns, persistent, output_buffer, "
        "query_stages and last_keys_first are choices of GPU targets; leave them out on the host");
  // A printed schedule names these, and is accepted.
  if (schedule.stages != 1 || schedule.warps != 1 || schedule.qInRegisters)
    return reject(fmt::format("stages, warps and q_in_registers are choices of GPU targets: on the "
                              "host they are 1, 1 and false, not {}, {} and {}; leave them out",
                              schedule.stages, schedule.warps, schedule.qInRegisters));
  if (schedule.blockM % 8 != 0 || schedule.blockN % 16 != 0)
    return reject(
        fmt::format("on the host block_m is a multiple of 8 and block_n of 16, not {} and {}",
                    schedule.blockM, schedule.blockN));
  if (!std::has_single_bit(uint64_t(schedule.lanes)) || schedule.lanes > unit.width)
    return reject(fmt::format("lanes is a power of two up to {}, which this CPU's vectors have, "
                              "not {}",
                              unit.width, schedule.lanes));
  int64_t taken = VectorUnit::productRegisters(schedule.productRows, schedule.productVectors);
  if (taken > unit.registers)
    return reject(fmt::format("products of {} rows and {} vectors take {} registers, this CPU has "
                              "{}; take smaller product_rows or product_vectors",
                              schedule.productRows, schedule.productVectors, taken,
                              unit.registers));
  if (schedule.productPairs && input != ElementType::bf16)
    return reject(fmt::format("product_pairs takes bf16 inputs, not {}; leave it out",
                              elementTypeName(input)));
  if (schedule.productPairs && !unit.bf16Pairs)
    return reject("product_pairs takes a CPU with AVX512-BF16, which this one lacks; leave it out");
  return Status::success();
}

static Result<Schedule> chooseHostSchedule(const KernelSpecification &specification,
                                           const VariantTraits &variant) {
  VectorUnit unit = hostVectorUnit();
  // Where nothing is expected a launch may be a short one, to which large blocks do more harm than
  // they are worth to a long one.
  bool isLong = specification.expectedLength >= 4096 &&
                (specification.expectedQueries == 0 || specification.expectedQueries > 2048);
  HostChoices choices = hostChoices(specification.inputType, fewQueriesOf(specification),
                                    isLong && !variant.isScattered, unit);
  Schedule schedule;
  schedule.blockM = choices.blockM;
  schedule.blockN = choices.blockN;
  schedule.heads = specification.isAttention() ? choices.heads : 1;
  schedule.lanes = choices.lanes;
  schedule.productRows = choices.productRows;
  schedule.productVectors = choices.productVectors;
  schedule.productPairs = choices.productPairs;
  if (Status status = overrideSchedule(schedule, specification.schedule); !status)
    return status.error();
  if (Status status = checkHost(schedule, specification.inputType, unit); !status)
    return status.error();
  if (Status status = checkHeads(schedule); !status)
    return status.error();
  return schedule;
}

Result<Schedule> chooseSchedule(const KernelSpecification &specification,
                                const VariantTraits &variant) {
  if (specification.target.kind == Target::Kind::host)
    return chooseHostSchedule(specification, variant);
  Result<ChipFacts> chip = chipFacts(specification.target.sm);
  if (!chip)
    return chip.error();
  // The number of consumers and the overlap decide what suits the rest, so their overrides come
  // first.
  Schedule wanted;
  wanted.queryStages = 0;
  bool hasRoles = chip->acceleratedPtx != 0 && specification.isAttention();
  wanted.consumers = hasRoles ? consumersFor(specification, variant) : 0;
  // The rounds of a reduction have no registers for the last block's P beside this block's S
  // (AssemblyTest).
  wanted.overlap = !variant.hasReductions;
  if (Status status = overrideSchedule(wanted, specification.schedule); !status)
    return status.error();
  Schedule schedule = !specification.isAttention() ? templateHeuristic(wanted)
                      : wanted.consumers > 0 ? roleHeuristic(specification, variant, *chip, wanted)
                                             : multiplyHeuristic(specification, variant, *chip);
  if (Status status = overrideSchedule(schedule, specification.schedule); !status)
    return status.error();
  if (wanted.queryStages == 0 &&
      specification.isAttention()) // not overridden: what the other choices leave room for
    schedule.queryStages = queryStagesFor(schedule, specification, variant, *chip);
  if (Status status = checkCuda(schedule, specification, *chip); !status)
    return status.error();
  if (Status status = checkHeads(schedule); !status)
    return status.error();
  return schedule;
}

} // namespace tesela
