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

namespace tesela {

std::string Schedule::text() const {
  std::string text =
      fmt::format("block_m = {}, block_n = {}, stages = {}, warps = {}, q_in_registers = {}",
                  blockM, blockN, stages, warps, qInRegisters);
  if (consumers > 0)
    text += fmt::format(", consumers = {}", consumers);
  if (lazyRescale)
    text += ", lazy_rescale = true";
  return text;
}

Status overrideSchedule(Schedule &schedule, const std::string &text) {
  llvm::SmallVector<llvm::StringRef> items;
  llvm::StringRef(text).split(items, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef item : items) {
    auto [name, value] = item.split('=');
    name = name.trim();
    value = value.trim();
    if (name == "q_in_registers" || name == "lazy_rescale") {
      if (value != "true" && value != "false")
        return Error(Code::invalidArgument, fmt::format("schedule: {} is true or false, not '{}'",
                                                        name.str(), value.str()));
      (name == "q_in_registers" ? schedule.qInRegisters : schedule.lazyRescale) = value == "true";
      continue;
    }
    int64_t *field = name == "block_m"     ? &schedule.blockM
                     : name == "block_n"   ? &schedule.blockN
                     : name == "stages"    ? &schedule.stages
                     : name == "warps"     ? &schedule.warps
                     : name == "consumers" ? &schedule.consumers
                                           : nullptr;
    if (!field)
      return Error(
          Code::invalidArgument,
          fmt::format("schedule: '{}' is no choice of a schedule; the choices are block_m, "
                      "block_n, stages, warps, q_in_registers, consumers and lazy_rescale",
                      name.str()));
    int64_t least = field == &schedule.consumers ? 0 : 1;
    if (value.getAsInteger(10, *field) || *field < least || *field > 4096)
      return Error(Code::invalidArgument,
                   fmt::format("schedule: {} is a whole number from {} to 4096, not '{}'",
                               name.str(), least, value.str()));
  }
  return Status::success();
}

int64_t sharedBytes(const Schedule &schedule, const KernelSpecification &specification) {
  int64_t size = elementSize(specification.inputType);
  // The output leaves through the queries' buffer where it fits, beside it where roles share one of
  // another shape.
  bool beside = schedule.consumers > 0 && specification.headDimQk != specification.headDimV;
  int64_t query =
      schedule.blockM * (beside ? specification.headDimQk + specification.headDimV
                                : std::max(specification.headDimQk, specification.headDimV));
  int64_t keyAndValue = schedule.blockN * (specification.headDimQk + specification.headDimV);
  int64_t barriers = schedule.consumers > 0 ? 16 * (1 + 2 * schedule.stages) : 0;
  return size * (query + schedule.stages * keyAndValue) + barriers;
}

/// Blocks of FlashAttention-2's forward kernels for these widths (its
/// flash_fwd_launch_template.h); docs/performance.md has what was measured here.
static Schedule cudaHeuristic(const KernelSpecification &specification, const ChipFacts &chip,
                              int64_t consumers) {
  Schedule schedule;
  schedule.lazyRescale = true;
  if (consumers > 0) {
    // The fastest of those measured on an H200 (docs/performance.md).
    schedule.consumers = consumers;
    schedule.blockM = 64 * schedule.consumers;
    schedule.blockN = specification.headDimV <= 64 ? 96 : 80;
    schedule.warps = 4 * schedule.consumers;
    schedule.stages = 2;
    return schedule;
  }
  schedule.warps = 4;
  schedule.blockM = 128;
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
  // 256, 240 or 160 registers).
  constexpr int64_t registers[] = {0, 224, 208, 128};
  int64_t held = (schedule.blockN + specification.headDimV) / 2;
  if (held > registers[schedule.consumers])
    return reject(
        fmt::format("keeps {} values in the registers of a thread, of which {} can hold tiles "
                    "with {} consumers; take fewer consumers or a smaller block_n",
                    held, registers[schedule.consumers], schedule.consumers));
  if (schedule.qInRegisters)
    return reject(
        "q_in_registers is false with consumers: their products read it from shared memory");
  return checkShared(schedule, specification, chip);
}

static Status checkCuda(const Schedule &schedule, const KernelSpecification &specification,
                        const ChipFacts &chip) {
  if (schedule.consumers > 0)
    return checkRoles(schedule, specification, chip);
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
  if (schedule.consumers > 0 || schedule.lazyRescale)
    return Error(
        Code::invalidArgument,
        "schedule: consumers and lazy_rescale are choices of GPU targets; leave them out on "
        "the host");
  if (schedule.blockM % 8 != 0 || schedule.blockN % 16 != 0)
    return Error(
        Code::invalidArgument,
        fmt::format("schedule: on the host block_m is a multiple of 8 and block_n of 16, not "
                    "{} and {}",
                    schedule.blockM, schedule.blockN));
  return Status::success();
}

Result<Schedule> chooseSchedule(const KernelSpecification &specification) {
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
    return schedule;
  }
  Result<ChipFacts> chip = chipFacts(specification.target.sm);
  if (!chip)
    return chip.error();
  // The number of consumers decides what suits the rest, so an override of it comes first.
  Schedule wanted;
  wanted.consumers = chip->acceleratedPtx != 0 ? 3 : 0;
  if (Status status = overrideSchedule(wanted, specification.schedule); !status)
    return status.error();
  Schedule schedule = cudaHeuristic(specification, *chip, wanted.consumers);
  if (Status status = overrideSchedule(schedule, specification.schedule); !status)
    return status.error();
  if (Status status = checkCuda(schedule, specification, *chip); !status)
    return status.error();
  return schedule;
}

} // namespace tesela
