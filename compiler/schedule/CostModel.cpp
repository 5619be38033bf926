//===- CostModel.cpp - The order in which schedules are tried ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/CostModel.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace tesela {

static int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t rowPositions(const Schedule &schedule) { return schedule.blockM / schedule.heads; }

int64_t workItemsOf(const Schedule &schedule, const Extents &extents) {
  int64_t sharing = extents.H / std::max(extents.Hkv, 1);
  return int64_t(extents.B) * extents.Hkv * ceilDivide(sharing, schedule.heads) *
         ceilDivide(extents.Sq, rowPositions(schedule));
}

double makespan(std::vector<double> times, int64_t items, int64_t workers) {
  if (times.empty() || items == 0)
    return 0;
  std::sort(times.begin(), times.end(), std::greater<>());
  double mean = std::accumulate(times.begin(), times.end(), 0.0) / double(times.size());
  // With many items for each worker, the ends of workers differ by less than half a shortest item.
  if (items > 16 * workers)
    return mean * double(items) / double(workers) + times.back() / 2;
  std::priority_queue<double, std::vector<double>, std::greater<>> ends;
  for (int64_t i = 0; i < std::min(items, workers); ++i)
    ends.push(0);
  double last = 0;
  for (int64_t item = 0; item < items; ++item) {
    double end = ends.top() + times[size_t(item * int64_t(times.size()) / items)];
    ends.pop();
    ends.push(end);
    last = std::max(last, end);
  }
  return last;
}

/// The bytes of q, k, v and o.
static double tensorBytes(const CostedLaunch &launch) {
  const Extents &e = launch.extents;
  return double(launch.elementBytes) * double(launch.headDimQk + launch.headDimV) *
         (double(e.B) * e.H * e.Sq + double(e.B) * e.Hkv * e.Sk);
}

//===----------------------------------------------------------------------===//
// GPUs
//===----------------------------------------------------------------------===//

namespace {

/// Figures from measurements on an H200 (docs/log/2026-11-22-masks.md, 2026-11-21-forward-sm90.md).
struct Measured {
  /// Cycles of an item's beginning and end: "about 5 thousand cycles beside ten tiles".
  static constexpr double item = 5000;
  static constexpr double queriesAhead = 800; ///< saved with query_stages = 2
  static constexpr double noOutputBuffer = 1200, notPersistent = 2500;
  /// Cycles of a tile for barriers, bounds and counting.
  static constexpr double tile = 120;
  /// Bytes that a multiprocessor reads from the L2 cache in a cycle; at best 64.
  static constexpr double cacheBytes = 48;
  /// f32 operations for each element: scaled difference, maximum, sum, conversion. `follow` also
  /// has its part of the shuffles; `recompute` has no maximum.
  static constexpr double follow = 8, lazy = 6, recompute = 5;
  static constexpr double mask = 4; ///< additional operations for each element of a partial tile
};

/// The cycles of a multiprocessor for one tile.
class TileCycles {
public:
  TileCycles(const Schedule &schedule, const CostedLaunch &launch, const GpuMachine &machine)
      : schedule(schedule), launch(launch), machine(machine) {}

  double full() const { return combine(softmax(0)); }
  double partial() const { return combine(softmax(Measured::mask)); }

private:
  const Schedule &schedule;
  const CostedLaunch &launch;
  const GpuMachine &machine;

  int64_t depths() const {
    return paddedHeadDim(launch.headDimQk) + paddedHeadDim(launch.headDimV);
  }

  double softmax(double maskOperations) const {
    double elements = double(schedule.blockM) * double(schedule.blockN);
    double operations = launch.scoreOperations + maskOperations +
                        (schedule.reference == ScheduleReference::follow ? Measured::follow
                         : schedule.reference == ScheduleReference::lazy ? Measured::lazy
                                                                         : Measured::recompute);
    return elements * ((1 + launch.scoreExponentials) / machine.speeds.exponentials +
                       operations / machine.speeds.additions);
  }

  double products() const {
    double flops = 2.0 * double(schedule.blockM) * double(schedule.blockN) * double(depths());
    // Shared memory gives 128 bytes a cycle. With roles each warpgroup reads 64 rows of Q, and the
    // block's K and V. Without roles each warp reads K and V once for all of its rows.
    double shared = 0;
    if (schedule.consumers > 0)
      shared = double(schedule.consumers) * (2.0 * double(schedule.blockN) * double(depths()) +
                                             128.0 * double(launch.headDimQk));
    else
      shared = double(schedule.warps) * 2.0 * double(schedule.blockN) * double(depths());
    double speed =
        schedule.consumers > 0 ? machine.speeds.warpgroupFlops : machine.speeds.multiplyFlops;
    // If both are near their limit, they slow each other down a little.
    double tensor = flops / speed, memory = shared / 128;
    return std::max(tensor, memory) + 0.1 * std::min(tensor, memory);
  }

  /// The part of the shorter of products and softmax that is not hidden behind the longer one.
  double exposed() const {
    if (schedule.consumers == 0) {
      bool severalBlocks =
          machine.facts.chipShared >= 2 * (machine.blockSharedBytes + reservedShared);
      return severalBlocks ? 0.30 : 0.45;
    }
    double byWarpgroups[] = {1, 0.60, 0.25, 0.17};
    double share = byWarpgroups[schedule.consumers];
    if (!schedule.overlap)
      share += 0.2;
    if (schedule.turns && launch.headDimV <= 64)
      share -= 0.04;
    return share;
  }

  double combine(double softmaxCycles) const {
    double productCycles = products();
    double work =
        std::max(productCycles, softmaxCycles) + exposed() * std::min(productCycles, softmaxCycles);
    double loads = double(launch.elementBytes) * double(schedule.blockN) *
                   double(launch.headDimQk + launch.headDimV) / Measured::cacheBytes;
    // One buffer loads and waits; two hide the loads. Three and four gained nothing more.
    return (schedule.stages > 1 ? std::max(work, loads) : work + loads) + Measured::tile;
  }
};

double itemCycles(const Schedule &schedule) {
  if (schedule.consumers == 0)
    return Measured::item + Measured::noOutputBuffer + (schedule.qInRegisters ? 0 : 200);
  double cycles = Measured::item;
  if (schedule.queryStages > 1)
    cycles -= Measured::queriesAhead;
  if (!schedule.outputBuffer)
    cycles += Measured::noOutputBuffer;
  if (!schedule.persistent)
    cycles += Measured::notPersistent;
  return cycles;
}

/// The factor by which a launch takes longer because keys and values are read from memory again. It
/// compares the keys and values of all heads that run at once with the size of the L2 cache.
double missesFactor(const Schedule &schedule, const CostedLaunch &launch,
                    const GpuMachine &machine) {
  const Extents &e = launch.extents;
  double headBytes = double(launch.elementBytes) * double(launch.headDimQk + launch.headDimV) *
                     double(std::max(e.Sk, 1));
  int64_t itemsOfHead =
      std::max<int64_t>(1, workItemsOf(schedule, e) / std::max<int64_t>(1, int64_t(e.B) * e.Hkv));
  double heads = double(ceilDivide(machine.speeds.multiprocessors, itemsOfHead));
  if (schedule.groupKeys > 0) // a group has at most 16 heads
    heads = std::max(
        heads, double(std::clamp<int64_t>(schedule.groupKeys / std::max<int64_t>(e.Sk, 1), 1, 16)));
  heads = std::min(heads, double(e.B) * e.Hkv);
  double filled = heads * headBytes / double(machine.speeds.cacheBytes);
  double factor = 1 + 0.08 * std::clamp(filled - 0.65, 0.0, 1.0);
  // In a group, rows of several heads are ordered by length. Under a mask the long ones then
  // start first. With all pairs there is nothing to order, and the group has more keys in use.
  if (schedule.groupKeys > 0)
    factor *= launch.isMasked ? 0.98 : 1.03;
  return factor;
}

} // namespace

double predictedMilliseconds(const Schedule &schedule, const CostedLaunch &launch,
                             const std::vector<RowTiles> &rows, const GpuMachine &machine) {
  TileCycles cycles(schedule, launch, machine);
  double full = cycles.full(), partial = cycles.partial(), item = itemCycles(schedule);
  bool isRanged =
      std::any_of(rows.begin(), rows.end(), [](const RowTiles &row) { return row.partial > 0; });
  std::vector<double> times;
  for (const RowTiles &row : rows) {
    double time = item + double(row.full) * full + double(row.partial) * partial;
    // `recompute`: the first block gives a row its first reference. If that block was partial, it
    // is computed again: half of the time for ranges that end with a partial block.
    if (schedule.reference == ScheduleReference::recompute && isRanged && !schedule.lastKeysFirst)
      time += 0.25 * partial;
    times.push_back(time);
  }
  double workers = machine.speeds.multiprocessors;
  double clocks =
      makespan(std::move(times), workItemsOf(schedule, launch.extents), int64_t(workers));
  double milliseconds =
      clocks / (machine.speeds.gigahertz * 1e6) * missesFactor(schedule, launch, machine);
  return std::max(milliseconds, tensorBytes(launch) / machine.speeds.bytesPerSecond * 1e3);
}

//===----------------------------------------------------------------------===//
// The host
//===----------------------------------------------------------------------===//

namespace {

/// The cycles of a CPU core. Vectors have the schedule's `vectorLength` elements.
class HostCycles {
public:
  HostCycles(const Schedule &schedule, const CostedLaunch &launch)
      : schedule(schedule), launch(launch) {}

  double tile(bool isPartial) const {
    double elements = double(schedule.blockM) * double(schedule.blockN);
    double depths = double(launch.headDimQk + launch.headDimV);
    double operations = exponential * (1 + launch.scoreExponentials) + softmax +
                        launch.scoreOperations + (isPartial ? mask : 0);
    double perVector = elements / double(schedule.vectorLength);
    // For each tile, keys and values are loaded, widened and transposed once, and the sums of the
    // output are rescaled once.
    double loads = double(schedule.blockN) * depths / double(schedule.vectorLength) * transposed;
    double rescale =
        double(schedule.blockM) * double(launch.headDimV) / double(schedule.vectorLength);
    return (perVector * depths * product() + perVector * operations / 2 + loads + rescale) *
               cacheFactor() +
           tileOverhead;
  }
  double item() const {
    return double(schedule.blockM) * double(launch.headDimQk + launch.headDimV) /
               double(schedule.vectorLength) * 4 +
           itemOverhead;
  }

private:
  // Vector operations: for each element of an exponential (MathExpansion.cpp), of the rest of the
  // softmax and of a mask; for each loaded element of a transposition.
  static constexpr double exponential = 14, softmax = 8, mask = 6, transposed = 6;
  static constexpr double tileOverhead = 500, itemOverhead = 1500; // cycles
  /// Of multiply-adds (host-target.md): 4 cycles, and one for the loads before them.
  static constexpr double latency = 5, units = 2;

  const Schedule &schedule;
  const CostedLaunch &launch;

  /// Cycles of a multiply-add of one vector, in the block of sums that stays in registers.
  double product() const {
    double rows = double(schedule.productRows), vectors = double(schedule.productVectors);
    double sums = rows * vectors;
    double step = std::max({sums / units, latency, (rows + vectors) / 2}); // two loads a cycle
    double cycles = step / sums;
    // Pairs of bf16 multiply twice as much, but the elements must first be brought into pairs.
    return schedule.productPairs ? cycles * 0.6 : cycles;
  }

  /// If a tile's buffers do not fit into the L2 cache (1 MiB and more on the measured CPUs), parts
  /// are read again from L3.
  double cacheFactor() const {
    double depths = double(launch.headDimQk + launch.headDimV);
    double bytes = 4 * (double(schedule.blockN) * depths + double(schedule.blockM) * depths +
                        double(schedule.blockM) * double(schedule.blockN));
    return 1 + 0.15 * std::clamp((bytes - 512e3) / 512e3, 0.0, 2.0);
  }
};

} // namespace

double predictedMilliseconds(const Schedule &schedule, const CostedLaunch &launch,
                             const std::vector<RowTiles> &rows, int threads) {
  HostCycles cycles(schedule, launch);
  double full = cycles.tile(false), partial = cycles.tile(true), item = cycles.item();
  std::vector<double> times;
  times.reserve(rows.size());
  for (const RowTiles &row : rows)
    times.push_back(item + double(row.full) * full + double(row.partial) * partial);
  double clocks =
      makespan(std::move(times), workItemsOf(schedule, launch.extents), std::max(threads, 1));
  return clocks / 3e6; // at 3 GHz; the frequency does not change the order of schedules
}

} // namespace tesela
