//===- CostModel.cpp - In which order schedules are tried -------*- C++ -*-===//
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
  // With many items a worker the end is ragged by less than a half of the shortest.
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

/// Bytes of q, k, v and o.
static double tensorBytes(const CostedLaunch &launch) {
  const Extents &e = launch.extents;
  return double(launch.elementBytes) * double(launch.headDimQk + launch.headDimV) *
         (double(e.B) * e.H * e.Sq + double(e.B) * e.Hkv * e.Sk);
}

//===----------------------------------------------------------------------===//
// GPUs
//===----------------------------------------------------------------------===//

namespace {

/// What the formula takes from measurements on an H200 (docs/performance.md says where).
struct Measured {
  /// An item's beginning and end, in cycles: "about 5 thousand beside ten tiles".
  static constexpr double item = 5000;
  static constexpr double queriesAhead = 800; ///< of these, with query_stages = 2
  static constexpr double noOutputBuffer = 1200, notPersistent = 2500;
  /// A tile's barriers, bounds and counting.
  static constexpr double tile = 120;
  /// Bytes that a multiprocessor gets from the second cache in a clock, of its 64 at best.
  static constexpr double cacheBytes = 48;
  /// f32 operations an element: scaled difference, maximum, sum, conversion; with a reference that
  /// follows also its share of shuffles, with one that is found by the sum no maximum.
  static constexpr double follow = 8, lazy = 6, recompute = 5;
  static constexpr double mask = 4; ///< more of them, an element of a partial tile
};

/// Cycles of a multiprocessor for one tile.
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
    // Operands come from shared memory at 128 bytes a clock: with roles each warpgroup reads 64
    // rows of Q and the block's K and V; else each warp reads K and V once for all of its rows.
    double shared = 0;
    if (schedule.consumers > 0)
      shared = double(schedule.consumers) * (2.0 * double(schedule.blockN) * double(depths()) +
                                             128.0 * double(launch.headDimQk));
    else
      shared = double(schedule.warps) * 2.0 * double(schedule.blockN) * double(depths());
    double speed =
        schedule.consumers > 0 ? machine.speeds.warpgroupFlops : machine.speeds.multiplyFlops;
    // Where both are near their limit they stand in each other's way a little.
    double tensor = flops / speed, memory = shared / 128;
    return std::max(tensor, memory) + 0.1 * std::min(tensor, memory);
  }

  /// The share of the shorter of products and softmax that nothing hides.
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
    // One buffer loads and waits; two hide the loads (three and four gained nothing).
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

/// How much longer a launch takes because keys and values are read from memory again: those of the
/// key/value heads that are at work at once against the second cache.
double missesFactor(const Schedule &schedule, const CostedLaunch &launch,
                    const GpuMachine &machine) {
  const Extents &e = launch.extents;
  double headBytes = double(launch.elementBytes) * double(launch.headDimQk + launch.headDimV) *
                     double(std::max(e.Sk, 1));
  int64_t itemsOfHead =
      std::max<int64_t>(1, workItemsOf(schedule, e) / std::max<int64_t>(1, int64_t(e.B) * e.Hkv));
  double heads = double(ceilDivide(machine.speeds.multiprocessors, itemsOfHead));
  if (schedule.groupKeys > 0) // a group has 16 heads at most
    heads = std::max(
        heads, double(std::clamp<int64_t>(schedule.groupKeys / std::max<int64_t>(e.Sk, 1), 1, 16)));
  heads = std::min(heads, double(e.B) * e.Hkv);
  double filled = heads * headBytes / double(machine.speeds.cacheBytes);
  double factor = 1 + 0.08 * std::clamp(filled - 0.65, 0.0, 1.0);
  // Groups order rows of several heads by length: under a mask the long ones go first, with all
  // pairs there is nothing to order and more keys are in use.
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
    // The first reference of a row comes from its first block, which is computed again where that
    // was partial: half of the time with ranges that end in one.
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

/// Cycles of a core; vectors are of the schedule's lanes.
class HostCycles {
public:
  HostCycles(const Schedule &schedule, const CostedLaunch &launch)
      : schedule(schedule), launch(launch) {}

  double tile(bool isPartial) const {
    double elements = double(schedule.blockM) * double(schedule.blockN);
    double depths = double(launch.headDimQk + launch.headDimV);
    double operations = exponential * (1 + launch.scoreExponentials) + softmax +
                        launch.scoreOperations + (isPartial ? mask : 0);
    double perVector = elements / double(schedule.lanes);
    // Keys and values are loaded, widened and transposed once a tile; the sums of the output are
    // scaled once a tile.
    double loads = double(schedule.blockN) * depths / double(schedule.lanes) * transposed;
    double rescale = double(schedule.blockM) * double(launch.headDimV) / double(schedule.lanes);
    return (perVector * depths * product() + perVector * operations / 2 + loads + rescale) *
               cacheFactor() +
           tileOverhead;
  }
  double item() const {
    return double(schedule.blockM) * double(launch.headDimQk + launch.headDimV) /
               double(schedule.lanes) * 4 +
           itemOverhead;
  }

private:
  // Vector operations: of an exponential (MathExpansion.cpp), of the rest of the softmax and of a
  // mask, an element; of a transposition, an element that is loaded.
  static constexpr double exponential = 14, softmax = 8, mask = 6, transposed = 6;
  static constexpr double tileOverhead = 500, itemOverhead = 1500; // cycles
  /// Of multiply-adds (host-target.md): 4 cycles, and one for the loads that they wait for.
  static constexpr double latency = 5, units = 2;

  const Schedule &schedule;
  const CostedLaunch &launch;

  /// Cycles of a multiply-add of one vector, in the block that stays in registers.
  double product() const {
    double rows = double(schedule.productRows), vectors = double(schedule.productVectors);
    double sums = rows * vectors;
    double step = std::max({sums / units, latency, (rows + vectors) / 2}); // two loads a cycle
    double cycles = step / sums;
    // Pairs of bf16 multiply twice as much, and are brought into pairs first.
    return schedule.productPairs ? cycles * 0.6 : cycles;
  }

  /// A tile's buffers that leave the second cache (1 MiB and more on what Tesela was tried on) are
  /// read again from the third.
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
  for (const RowTiles &row : rows)
    times.push_back(item + double(row.full) * full + double(row.partial) * partial);
  double clocks =
      makespan(std::move(times), workItemsOf(schedule, launch.extents), std::max(threads, 1));
  return clocks / 3e6; // 3 GHz: the same for all schedules
}

} // namespace tesela
