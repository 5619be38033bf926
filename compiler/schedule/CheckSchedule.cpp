//===- CheckSchedule.cpp - Schedules that a target can run ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/CheckSchedule.h"

#include "schedule/Heuristics.h"

#include <fmt/format.h>

#include <bit>

namespace tesela {

static Error reject(const std::string &message) {
  return Error(Code::invalidArgument, "schedule: " + message);
}

Status checkHeads(const Schedule &schedule, const KernelSpecification &specification) {
  if (specification.dropout && schedule.heads > 1)
    return reject(fmt::format("heads must be 1 with dropout, not {}, because dropout needs blocks "
                              "with the rows of one head",
                              schedule.heads));
  if (std::has_single_bit(uint64_t(schedule.heads)) && schedule.heads <= mostHeads &&
      schedule.blockM % schedule.heads == 0)
    return Status::success();
  return reject(fmt::format("heads must be a power of two up to {} that divides block_m = {}, not "
                            "{}. It is the number of query heads that share the rows of a block",
                            mostHeads, schedule.blockM, schedule.heads));
}

static Status checkShared(const Schedule &schedule, const KernelSpecification &specification,
                          const ChipFacts &chip) {
  if (!specification.isAttention())
    return Status::success(); // known only when the kernels are lowered
  int64_t bytes = sharedBytes(schedule, specification);
  if (bytes > chip.blockShared)
    return reject(fmt::format(
        "the kernel needs {} bytes of shared memory, and a thread block of sm_{} has at most {}; "
        "use a smaller block_m, a smaller block_n or fewer stages{}",
        bytes, chip.sm, chip.blockShared,
        hasWideHeads(specification) && !hasValuesOfKeys(specification)
            ? ", or values=keys if the values are the first columns of the keys"
            : ""));
  return Status::success();
}

/// Queries in registers: only the products of wide heads wait for each other. Others start while a
/// loop's registers are in use.
static Status checkQueryPanels(const Schedule &schedule, const KernelSpecification &specification) {
  if (schedule.queryPanels == 0)
    return Status::success();
  if (!specification.isAttention() || !hasWideHeads(specification))
    return reject(fmt::format(
        "query_panels must be 0 with heads up to {} and in gradients, not {}; leave it out",
        widestOfRows, schedule.queryPanels));
  int64_t most = mostQueryPanels(schedule.blockN, specification);
  if (schedule.queryPanels <= most)
    return Status::success();
  return reject(fmt::format(
      "query_panels must be at most {} here, not {}: a panel has {} of the {} columns of q, of "
      "which some stay in shared memory, and takes {} of a thread's registers",
      most, schedule.queryPanels, columnsOfPanel, paddedHeadDim(specification.headDimQk),
      registersOfPanel));
}

/// For wide heads, whose columns two parts share: each part has a multiple of 16 columns of S, and
/// fills one panel of 64 of P, or whole panels.
static Status checkCutKeys(int64_t blockN) {
  if (blockN % 32 == 0 && (blockN <= 64 || blockN % 128 == 0))
    return Status::success();
  return reject(
      fmt::format("block_n must be 32, 64 or a multiple of 128 with heads wider than {}, not {}",
                  widestOfRows, blockN));
}

/// Checks warpgroups with roles: wgmma and tensor copies.
static Status checkRoles(const Schedule &schedule, const KernelSpecification &specification,
                         const ChipFacts &chip) {
  if (chip.acceleratedPtx == 0)
    return reject(fmt::format(
        "consumers must be 0 on sm_{}: only sm_90 has matrix instructions of a warpgroup (wgmma)",
        chip.sm));
  if (schedule.consumers > 3)
    return reject(
        fmt::format("consumers must be 1, 2 or 3, not {}: a thread block has no registers for more",
                    schedule.consumers));
  bool isWide = specification.isAttention() && hasWideHeads(specification);
  if (isWide && schedule.consumers != 2)
    return reject(
        fmt::format("consumers must be 2 with heads wider than {}, not {}: each consumer computes "
                    "half of the output's columns. Or take consumers = 0, which uses mma.sync",
                    widestOfRows, schedule.consumers));
  int64_t rows = isWide ? 64 : 64 * schedule.consumers;
  if (schedule.blockM != rows || schedule.warps != 4 * schedule.consumers)
    return reject(
        fmt::format("{} consumers need block_m = {} ({}) and warps = {}, not {} and "
                    "{}",
                    schedule.consumers, rows,
                    isWide ? fmt::format("they share the rows of heads wider than {}", widestOfRows)
                           : "64 rows each",
                    4 * schedule.consumers, schedule.blockM, schedule.warps));
  if (schedule.blockN % 16 != 0 || schedule.blockN > 256)
    return reject(
        fmt::format("block_n must be a multiple of 16 up to 256, not {}", schedule.blockN));
  int64_t held = specification.isAttention()
                     ? heldRegisters(schedule.blockN, specification, schedule.overlap)
                     : 0;
  if (held > tileRegisters[schedule.consumers])
    return reject(fmt::format(
        "the kernel keeps {} values in the registers of a thread, but only "
        "{} registers can hold tiles with {} consumers; take fewer consumers or a smaller block_n",
        held, tileRegisters[schedule.consumers], schedule.consumers));
  if (schedule.turns && (!schedule.overlap || schedule.consumers < 2))
    return reject("turns need overlap = true and consumers = 2 or 3: they order the products that "
                  "overlap starts");
  if (schedule.overlap && specification.hasNarrowKeys())
    return reject("overlap must be false with keys and values of 8 bits: consumers convert them "
                  "between the products, with one buffer for each; leave overlap out");
  if (schedule.overlap && hasValuesOfKeys(specification))
    return reject("overlap must be false with values=keys: both products of a block read one "
                  "buffer, which overlap would release between them; leave overlap out");
  if (isWide && (schedule.overlap || schedule.outputBuffer))
    return reject(fmt::format(
        "overlap and output_buffer must be false with heads wider than {}: P is exchanged in "
        "shared memory, and the output is stored from registers; leave both out",
        widestOfRows));
  if (isWide)
    if (Status status = checkCutKeys(schedule.blockN); !status)
      return status;
  if (schedule.qInRegisters)
    return reject(
        "q_in_registers must be false with consumers: their products read Q from shared memory");
  if (Status status = checkQueryPanels(schedule, specification); !status)
    return status;
  if (schedule.lateCrossed && specification.isAttention())
    return reject("late_crossed is only for gradients, whose loops have products in the middle; "
                  "leave it out");
  if (schedule.lateCrossed && schedule.stages != 2)
    return reject(fmt::format("late_crossed needs stages = 2, not {}: two tensors share two places",
                              schedule.stages));
  if (schedule.lateCrossed && schedule.lateStages > 0)
    return reject(fmt::format("late_crossed gives the buffers of late_stages two stages, not {}; "
                              "leave one of the two out",
                              schedule.lateStages));
  if (schedule.addInTurn && schedule.splitOutputs)
    return reject("add_in_turn and split_outputs exclude each other: the kernel that adds in turn "
                  "computes all gradients; leave one of the two out");
  if (schedule.addInTurn && specification.isAttention())
    return reject("add_in_turn is only for gradients, whose work items add to shared sums; leave "
                  "it out");
  if (schedule.addInTurn && schedule.consumers > 2)
    return reject(fmt::format("add_in_turn needs 1 or 2 consumers, not {}: each has a warp beside "
                              "the producer that adds for it, and there are two",
                              schedule.consumers));
  if (schedule.addInTurn && !schedule.persistent)
    return reject("add_in_turn needs persistent = true: work items must start in order");
  bool isAttention = specification.isAttention();
  bool hasItems = schedule.persistent && (schedule.outputBuffer || !isAttention);
  if (schedule.queryStages > (hasItems ? 2 : 1))
    return reject(fmt::format(
        "query_stages must be 1, or 2 with persistent = true{}, not {}: only {} loaded ahead",
        isAttention ? " and output_buffer = true" : "", schedule.queryStages,
        isAttention ? "the next work item's queries are"
                    : "the tensors of the next work item are"));
  return checkShared(schedule, specification, chip);
}

/// Checks product_rows: the rows of a product that a warp has. Other warps have the same rows and
/// other columns.
static Status checkProductRows(const Schedule &schedule, const KernelSpecification &specification) {
  if (specification.isAttention() || schedule.consumers > 0)
    return reject("product_rows is only for the host and for gradients with mma.sync (consumers = "
                  "0); leave it out");
  int64_t sharing = schedule.blockM / schedule.productRows;
  if (schedule.productRows % 16 == 0 && schedule.blockM % schedule.productRows == 0 &&
      sharing > 0 && schedule.warps % sharing == 0)
    return Status::success();
  return reject(fmt::format(
      "product_rows, the rows of a product that a warp computes, must be a multiple of 16 that "
      "divides block_m = {}, and block_m / product_rows must divide warps = {}; got {}",
      schedule.blockM, schedule.warps, schedule.productRows));
}

Status checkCuda(const Schedule &schedule, const KernelSpecification &specification,
                 const ChipFacts &chip) {
  Schedule others = schedule;
  others.productRows = 0; // kernels with mma.sync have this field, too
  if (usesScope(others, ScheduleScope::host))
    return reject(fmt::format("{} are fields for the host; leave them out on a GPU",
                              namesOf(ScheduleScope::host)));
  if (schedule.splitOutputs && specification.isAttention())
    return reject("split_outputs is only for gradients: attention computes its output and the LSE "
                  "together; leave it out");
  if (schedule.productRows > 0)
    if (Status status = checkProductRows(schedule, specification); !status)
      return status;
  if (schedule.consumers > 0)
    return checkRoles(schedule, specification, chip);
  if (usesScope(schedule, ScheduleScope::roles))
    return reject(
        fmt::format("{} need consumers; take consumers = 2 or 3 on sm_90, or leave them out",
                    namesOf(ScheduleScope::roles)));
  if (schedule.warps != 1 && schedule.warps != 4 && schedule.warps != 8)
    return reject(fmt::format("warps must be 1, 4 or 8, not {}", schedule.warps));
  bool isWide = specification.isAttention() && hasWideHeads(specification);
  if (isWide) {
    if (schedule.blockM != 8 * schedule.warps)
      return reject(
          fmt::format("block_m must be 8 · warps = {} with heads wider than {}, not {}: two warps "
                      "share 16 rows, and each computes half of the output's columns",
                      8 * schedule.warps, widestOfRows, schedule.blockM));
    if (Status status = checkCutKeys(schedule.blockN); !status)
      return status;
  } else if (schedule.productRows == 0 && schedule.blockM % (16 * schedule.warps) != 0)
    return reject(fmt::format("block_m must be a multiple of 16 · warps = {}, not {}: each warp "
                              "computes whole strips of 16 rows",
                              16 * schedule.warps, schedule.blockM));
  if (schedule.blockN % 16 != 0)
    return reject(fmt::format("block_n must be a multiple of 16, not {}", schedule.blockN));
  // For a copy, eight threads read 128 bytes of a row at a time.
  int64_t rowStep = schedule.warps * 32 / 8;
  if (schedule.blockN % rowStep != 0 || schedule.blockM % rowStep != 0)
    return reject(fmt::format("block_m and block_n must be multiples of {} (the rows that {} "
                              "threads copy at once), not {} and {}",
                              rowStep, schedule.warps * 32, schedule.blockM, schedule.blockN));
  if (Status status = checkShared(schedule, specification, chip); !status)
    return status;
  if (!specification.isAttention())
    return Status::success();
  // The accumulators of S and O, and Q if it stays in registers, must fit into 255 registers.
  int64_t strips = isWide ? 1 : schedule.blockM / (16 * schedule.warps);
  int64_t registers =
      strips * heldRegisters(schedule.blockN, specification, /*overlap=*/false) +
      (schedule.qInRegisters ? strips * paddedHeadDim(specification.headDimQk) / 4 : 0);
  if (registers > tileRegisters[0])
    return reject(
        fmt::format("the kernel keeps {} values in the registers of a thread, but only {} "
                    "registers can hold tiles; take more warps, a smaller block_m or block_n, or "
                    "q_in_registers = false",
                    registers, tileRegisters[0]));
  return Status::success();
}

Status checkHost(const Schedule &schedule, ElementType input, const VectorUnit &unit) {
  // A printed schedule names some fields of GPUs. On the host only their defaults are allowed.
  for (const ScheduleField &field : scheduleFields())
    if ((field.scope == ScheduleScope::gpu || field.scope == ScheduleScope::roles) &&
        !field.isDefault(schedule))
      return reject(
          fmt::format("{} is only for GPUs: on the host it must be {}, not {}; leave it out",
                      field.name.str(), field.valueOf(Schedule()), field.valueOf(schedule)));
  if (schedule.blockM % 8 != 0 || schedule.blockN % 16 != 0)
    return reject(fmt::format(
        "on the host block_m must be a multiple of 8 and block_n a multiple of 16, not {} and {}",
        schedule.blockM, schedule.blockN));
  if (!std::has_single_bit(uint64_t(schedule.vectorLength)) || schedule.vectorLength > unit.width)
    return reject(fmt::format(
        "vector_length must be a power of two up to {}, the length of this CPU's vectors, not {}",
        unit.width, schedule.vectorLength));
  int64_t taken = VectorUnit::productRegisters(schedule.productRows, schedule.productVectors);
  if (taken > unit.registers)
    return reject(
        fmt::format("products of {} rows and {} vectors take {} registers, but this CPU has "
                    "{}; take smaller product_rows or product_vectors",
                    schedule.productRows, schedule.productVectors, taken, unit.registers));
  if (schedule.productPairs && input != ElementType::bf16)
    return reject(fmt::format("product_pairs needs bf16 inputs, not {}; leave it out",
                              elementTypeName(input)));
  if (schedule.productPairs && !unit.bf16Pairs)
    return reject(
        "product_pairs needs a CPU with AVX512-BF16, which this CPU does not have; leave it out");
  return Status::success();
}

} // namespace tesela
