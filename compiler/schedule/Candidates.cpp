//===- Candidates.cpp - The schedules that a tuner may try ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Candidates.h"

#include "targets/nvvm/ChipFacts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <set>

namespace tesela {

namespace {

/// Values of one field as overrides, or of several fields that only make sense together.
using Axis = std::vector<std::string>;

/// The values that are tried for a target.
struct Space {
  std::vector<Axis> blocks; ///< every combination is tried
  Axis departures;          ///< tried with each combination, one at a time
};

Axis values(const std::string &name, std::initializer_list<int64_t> numbers) {
  Axis axis;
  for (int64_t number : numbers)
    axis.push_back(name + " = " + std::to_string(number));
  return axis;
}

void append(Axis &axis, const Axis &more) { axis.insert(axis.end(), more.begin(), more.end()); }

// Values that are not in these tables were slower wherever they were measured (docs/log,
// docs/decisions/host-target.md), or no chip accepts them.

Space hostSpace() {
  Space space;
  space.blocks = {values("block_m", {8, 16, 32, 64, 96, 128, 192}),
                  values("block_n", {32, 64, 128, 256})};
  // Enough sums to hide the latency of a multiply-add, in the registers of AVX-512 or AVX2.
  space.departures = {
      "product_rows = 6, product_vectors = 4",  "product_rows = 8, product_vectors = 3",
      "product_rows = 12, product_vectors = 2", "product_rows = 4, product_vectors = 6",
      "product_rows = 4, product_vectors = 4",  "product_rows = 6, product_vectors = 2",
      "product_rows = 4, product_vectors = 3",  "product_rows = 12, product_vectors = 1",
      "product_rows = 4, product_vectors = 2",  "product_pairs = true"};
  append(space.departures, values("vector_length", {8, 4}));
  return space;
}

/// At 512 to 2k keys groups of 8 to 16 heads were best, above that groups of 32 MiB. If captured
/// tensors decide the mask, the largest groups were best (docs/log/2026-11-21-forward-sm90.md).
Axis groups() { return values("group_keys", {0, 4096, 8192, 16384, 32768, 65536, 1 << 20}); }

Space multiplySpace() {
  Space space;
  space.blocks = {values("block_m", {64, 128, 256}), values("block_n", {16, 32, 48, 64, 96, 128}),
                  values("warps", {4, 8})};
  space.departures = {"q_in_registers = true", "q_in_registers = false", "reference = follow",
                      "reference = lazy", "last_keys_first = true"};
  append(space.departures, values("stages", {1, 2, 3}));
  append(space.departures, groups());
  return space;
}

Space roleSpace() {
  Space space;
  space.blocks = {{"consumers = 1, block_m = 64, warps = 4",
                   "consumers = 2, block_m = 128, warps = 8",
                   "consumers = 3, block_m = 192, warps = 12"},
                  values("block_n", {48, 64, 80, 96, 112, 128, 144, 160, 176})};
  space.departures = {"overlap = false, turns = false",
                      "overlap = true",
                      "turns = true",
                      "turns = false",
                      "reference = follow",
                      "reference = lazy",
                      "reference = recompute",
                      "output_buffer = false, query_stages = 1",
                      "persistent = false, query_stages = 1",
                      "query_panels = 0",
                      "query_panels = 3",
                      "last_keys_first = true",
                      "last_keys_first = false"};
  append(space.departures, values("stages", {2, 3, 4}));
  append(space.departures, values("query_stages", {1, 2}));
  append(space.departures, groups());
  return space;
}

/// For the kernels of gradients, which all get the same schedule. Whether a schedule fits is mostly
/// known only when the kernels are lowered.
Space gradientSpace(bool hasRoles) {
  Space space;
  space.blocks = {{"consumers = 0, block_m = 64, warps = 4",
                   "consumers = 0, block_m = 128, warps = 4",
                   "consumers = 0, block_m = 128, warps = 8"},
                  values("block_n", {32, 64, 96, 128}),
                  values("stages", {1, 2, 3})};
  if (hasRoles)
    append(space.blocks[0],
           {"consumers = 1, block_m = 64, warps = 4", "consumers = 2, block_m = 128, warps = 8",
            "consumers = 3, block_m = 192, warps = 12"});
  space.departures = {"split_outputs = true"};
  if (hasRoles) // schedules with consumers = 0 reject them
    append(space.departures,
           {"split_outputs = true, late_stages = 1", "split_outputs = true, late_crossed = true",
            "persistent = false", "persistent = true"});
  return space;
}

/// Visits all combinations of `axes`; the last axis changes fastest.
template <typename Visit> void forEach(const std::vector<Axis> &axes, Visit visit) {
  std::vector<size_t> index(axes.size(), 0);
  while (true) {
    std::vector<std::string> values;
    values.reserve(axes.size());
    for (size_t i = 0; i < axes.size(); ++i)
      values.push_back(axes[i][index[i]]);
    visit(fmt::format("{}", fmt::join(values, ", ")));
    size_t turning = 0;
    while (turning < axes.size() && ++index[turning] == axes[turning].size())
      index[turning++] = 0;
    if (turning == axes.size())
      return;
  }
}

/// More heads than share a key/value head would leave rows empty.
Axis packedHeads(int64_t sharing) {
  Axis axis;
  for (int64_t heads = 1; sharing > 1 && heads <= std::min<int64_t>(sharing, 64); heads *= 2)
    axis.push_back("heads = " + std::to_string(heads));
  return axis;
}

} // namespace

Result<std::vector<Schedule>> legalSchedules(const KernelSpecification &specification,
                                             const VariantTraits &variant, int64_t sharing) {
  Result<Schedule> heuristic = chooseSchedule(specification, variant);
  if (!heuristic)
    return heuristic.error();
  Space space = hostSpace();
  if (specification.target.kind == Target::Kind::cuda) {
    Result<ChipFacts> chip = chipFacts(specification.target.sm);
    if (!chip)
      return chip.error();
    bool hasRoles = chip->acceleratedPtx != 0;
    space = !specification.isAttention() ? gradientSpace(hasRoles)
            : hasRoles                   ? roleSpace()
                                         : multiplySpace();
  }
  if (specification.isAttention())
    append(space.departures, packedHeads(sharing));

  std::vector<Schedule> schedules{*heuristic};
  std::set<std::string> known{heuristic->pinnedText()};
  KernelSpecification asked = specification;
  auto add = [&](const std::string &overrides) {
    asked.schedule = mergedOverrides(overrides, specification.schedule);
    Result<Schedule> schedule = chooseSchedule(asked, variant);
    if (schedule && known.insert(schedule->pinnedText()).second)
      schedules.push_back(*schedule);
  };
  forEach(space.blocks, [&](const std::string &blocks) {
    add(blocks);
    for (const std::string &departure : space.departures)
      add(blocks + "," + departure);
  });
  return schedules;
}

} // namespace tesela
