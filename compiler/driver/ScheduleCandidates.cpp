//===- ScheduleCandidates.cpp - Schedules that a tuner may try --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/ScheduleCandidates.h"

#include "driver/ChosenKernel.h"
#include "driver/LargeStack.h"
#include "schedule/Candidates.h"
#include "schedule/CostModel.h"
#include "visits/TileProgram.h"

#include "mlir/IR/MLIRContext.h"

#include <algorithm>
#include <array>
#include <map>

namespace tesela {

namespace {

/// The most rows of blocks that are evaluated. They show the shape of every mask of the library,
/// and all extents of blocks together take a fraction of a second.
constexpr int64_t mostRows = 32;

/// Counts the score's operations for each pair. Terms that depend only on the row are not counted.
void countScore(const Variant &variant, CostedLaunch &launch) {
  for (NodeId id : variant.nodesOf(variant.score)) {
    const Node &node = variant.nodes[id];
    bool forPairs = node.dependsOnScore || (node.indices >> static_cast<int>(Index::k) & 1) != 0;
    switch (node.op) {
    case Operator::constant:
    case Operator::score:
    case Operator::index:
    case Operator::extent:
    case Operator::boundExtent:
    case Operator::scalar:
    case Operator::reduceIndex:
      break;
    case Operator::exp:
    case Operator::log:
    case Operator::sqrt:
    case Operator::tanh:
    case Operator::sin:
    case Operator::cos:
      launch.scoreExponentials += forPairs;
      break;
    default:
      launch.scoreOperations += forPairs;
    }
  }
}

/// The tiles of a launch, for each pair of block extents.
class TileCounts {
public:
  TileCounts(const Variant &variant, const Bindings &bindings)
      : variant(variant), bindings(bindings), context(mlir::MLIRContext::Threading::DISABLED) {}

  Result<std::vector<RowTiles>> of(const Schedule &schedule) {
    std::array key{rowPositions(schedule), schedule.blockN, schedule.heads};
    if (auto found = known.find(key); found != known.end())
      return found->second;
    Result<std::vector<RowTiles>> counted = count(key[0], key[1], key[2]);
    if (counted)
      known[key] = *counted;
    return counted;
  }

private:
  const Variant &variant;
  const Bindings &bindings;
  mlir::MLIRContext context;
  std::map<std::array<int64_t, 3>, std::vector<RowTiles>> known;

  Result<std::vector<RowTiles>> count(int64_t queries, int64_t keys, int64_t heads) {
    int64_t rows = (bindings.extents.Sq + queries - 1) / queries;
    int64_t columns = (bindings.extents.Sk + keys - 1) / keys;
    if (variant.maskIsTrue() && !variant.scoreMayMask()) {
      RowTiles row{columns, 0};
      if (bindings.extents.Sk % keys != 0)
        row = {columns - 1, 1};
      return std::vector(1, row);
    }
    Result<std::unique_ptr<TileProgram>> program =
        TileProgram::create(variant, context, {.queries = queries, .keys = keys, .heads = heads});
    if (!program)
      return program.error();
    std::vector<RowTiles> counted;
    int64_t looked = std::min(rows, mostRows);
    for (int64_t i = 0; i < looked; ++i) {
      int64_t row = looked > 1 ? i * (rows - 1) / (looked - 1) : 0;
      Result<std::vector<VisitedBlock>> visited =
          (*program)->evaluate(bindings, Point{}, int32_t(row * queries));
      if (!visited)
        return visited.error();
      int64_t partial = std::ranges::count_if(*visited, &VisitedBlock::partial);
      counted.push_back({int64_t(visited->size()) - partial, partial});
    }
    return counted;
  }
};

/// scheduleCandidates(), on the current thread's stack.
Result<std::vector<ScheduleCandidate>> candidatesHere(const CandidateRequest &request) {
  const KernelSpecification &specification = request.specification;
  const Extents &extents = request.bindings.extents;
  Result<ChosenKernel> kernel = chooseKernel(specification);
  if (!kernel)
    return kernel.error();
  Result<std::vector<Schedule>> schedules =
      legalSchedules(specification, kernel->traits, extents.H / std::max(extents.Hkv, 1));
  if (!schedules)
    return schedules.error();

  // For gradients, compile() decides only during lowering, so the heuristic's schedule may be
  // missing.
  std::string heuristic = kernel->schedule.pinnedText();
  if (std::ranges::find(*schedules, heuristic, &Schedule::pinnedText) == schedules->end())
    schedules->push_back(kernel->schedule);

  CostedLaunch launch{.headDimQk = specification.headDimQk,
                      .headDimV = specification.headDimV,
                      .elementBytes = int64_t(elementSize(specification.inputType)),
                      .isMasked = kernel->traits.isMasked,
                      .extents = extents};
  countScore(kernel->variant, launch);
  bool onHost = specification.target.kind == Target::Kind::host;
  GpuMachine gpu{};
  if (!onHost) {
    Result<ChipFacts> facts = chipFacts(specification.target.sm);
    if (!facts)
      return facts.error();
    Result<ChipSpeeds> speeds = chipSpeeds(specification.target.sm);
    if (!speeds)
      return speeds.error();
    gpu = {*facts, *speeds};
    if (request.processors > 0)
      gpu.speeds.multiprocessors = request.processors;
  }

  TileCounts tiles(kernel->variant, request.bindings);
  std::vector<ScheduleCandidate> candidates;
  for (const Schedule &schedule : *schedules) {
    Result<std::vector<RowTiles>> rows = tiles.of(schedule);
    if (!rows)
      return rows.error();
    ScheduleCandidate candidate{.schedule = schedule.pinnedText()};
    candidate.isHeuristic = candidate.schedule == heuristic;
    if (onHost) {
      candidate.predictedMilliseconds =
          predictedMilliseconds(schedule, launch, *rows, request.processors);
    } else {
      gpu.blockSharedBytes = sharedBytes(schedule, specification);
      candidate.predictedMilliseconds = predictedMilliseconds(schedule, launch, *rows, gpu);
    }
    candidates.push_back(std::move(candidate));
  }
  std::ranges::stable_sort(candidates, {}, &ScheduleCandidate::predictedMilliseconds);
  return candidates;
}

} // namespace

Result<std::vector<ScheduleCandidate>> scheduleCandidates(const CandidateRequest &request) {
  return onLargeStack([&] { return candidatesHere(request); });
}

} // namespace tesela
