//===- VisitedBlocks.cpp - The blocks that a kernel visits ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "visits/TileProgram.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;

namespace tesela {

Result<std::optional<VisitedBlock>> TileProgram::find(int64_t index) {
  if (finding) {
    std::optional<VisitedBlock> visited = classify(index);
    if (Status status = finished(); !status)
      return status.error();
    return visited;
  }
  int64_t low = 0, high = integer(loop.getUpperBound()) - integer(loop.getLowerBound());
  while (low < high) { // binary search: the blocks are in ascending order
    int64_t middle = low + (high - low) / 2;
    Result<VisitedBlock> visited = block(middle);
    if (!visited)
      return visited.error();
    if (visited->index == index)
      return std::optional(*visited);
    (visited->index < index ? low : high) = visited->index < index ? middle + 1 : middle;
  }
  return std::optional<VisitedBlock>();
}

Result<std::vector<VisitedBlock>> TileProgram::evaluate(const Bindings &launch, const Point &where,
                                                        int32_t first) {
  Result<int64_t> count = begin(launch, where, first);
  if (!count)
    return count.error();
  if (finding) {
    if (Status status = listAllFound(); !status)
      return status.error();
    return found;
  }
  std::vector<VisitedBlock> visited;
  for (int64_t number = 0; number < *count; ++number) {
    Result<VisitedBlock> next = block(number);
    if (!next)
      return next.error();
    visited.push_back(*next);
  }
  return visited;
}

/// Lists the found blocks if begin has not, because there are many candidates.
Status TileProgram::listAllFound() {
  if (endCandidate - firstCandidate > mostCounted)
    listFound();
  return finished();
}

Result<ArrayRef<VisitedRun>> TileProgram::evaluateRuns(const Bindings &launch, const Point &where,
                                                       int32_t first) {
  if (Result<int64_t> count = begin(launch, where, first); !count)
    return count.error();
  runsOfRow.clear();
  if (!finding) {
    listClosedRuns();
    return ArrayRef(runsOfRow);
  }
  if (Status status = listAllFound(); !status)
    return status.error();
  for (const VisitedBlock &block : found) {
    if (runsOfRow.empty() || runsOfRow.back().end != block.index ||
        runsOfRow.back().partial != block.partial)
      runsOfRow.push_back({block.index, block.index, block.partial});
    ++runsOfRow.back().end;
  }
  return ArrayRef(runsOfRow);
}

/// Interprets the ranges as tile-lower-blocks does: a block is visited if it has a column of a run,
/// and partial if it has a column of a drop.
void TileProgram::listClosedRuns() {
  bool areKeys = blocks.rows == tile::Axis::Query;
  int64_t extent = areKeys ? blocks.keys : blocks.queries;
  int64_t columns = areKeys ? bindings->extents.Sk : bindings->extents.Sq;
  using Blocks = std::pair<int64_t, int64_t>; // first, end
  auto blocksOf = [&](int64_t low, int64_t high) {
    return Blocks(low / extent, low < high ? (high + extent - 1) / extent : low / extent);
  };
  auto blocksOfAll = [&](ArrayRef<Value> ends) {
    SmallVector<Blocks> all;
    for (size_t i = 0; i < ends.size(); i += 2)
      all.push_back(blocksOf(integer(ends[i]), integer(ends[i + 1])));
    return all;
  };
  SmallVector<Blocks> visited = blocksOfAll(runEnds), dropped = blocksOfAll(dropEnds);
  if (runEnds.empty())
    visited.push_back(blocksOf(0, columns));
  if (runEnds.empty() && dropEnds.empty()) // nothing is proved: all blocks are partial
    dropped.push_back(blocksOf(0, columns));
  if (columns % extent != 0)
    dropped.emplace_back(columns / extent, columns / extent + 1);

  SmallVector<int64_t> places; // the blocks at which visited or partial may change
  for (const SmallVector<Blocks> *list : {&visited, &dropped})
    for (auto [from, end] : *list)
      places.append({from, end});
  llvm::sort(places);
  for (size_t i = 1; i < places.size(); ++i) {
    int64_t from = places[i - 1], end = places[i];
    auto isIn = [&](const Blocks &each) { return each.first <= from && end <= each.second; };
    if (from == end || llvm::none_of(visited, isIn))
      continue;
    bool partial = llvm::any_of(dropped, isIn);
    if (!runsOfRow.empty() && runsOfRow.back().end == from && runsOfRow.back().partial == partial)
      runsOfRow.back().end = end;
    else
      runsOfRow.push_back({from, end, partial});
  }
}

//===----------------------------------------------------------------------===//
// Blocks that are classified
//===----------------------------------------------------------------------===//

std::pair<int64_t, int64_t> TileProgram::columnsOf(int64_t index, int64_t count) const {
  bool areKeys = blocks.rows == tile::Axis::Query;
  int64_t extent = areKeys ? blocks.keys : blocks.queries;
  int64_t columns = areKeys ? bindings->extents.Sk : bindings->extents.Sq;
  return {index * extent, std::min((index + count) * extent, columns) - 1};
}

bool TileProgram::isBroken(int64_t index, int64_t count) const {
  bool areKeys = blocks.rows == tile::Axis::Query;
  int64_t end = (index + count) * (areKeys ? blocks.keys : blocks.queries);
  return end > (areKeys ? bindings->extents.Sk : bindings->extents.Sq);
}

std::pair<bool, bool> TileProgram::test(Region &region, int64_t index, int64_t count) {
  auto [first, last] = columnsOf(index, count);
  values[region.getArgument(0)].integer = first;
  values[region.getArgument(1)].integer = last;
  run(region.front());
  Operation *yield = region.front().getTerminator();
  return {integer(yield->getOperand(0)) != 0,
          integer(yield->getOperand(1)) != 0 || isBroken(index, count)};
}

std::optional<VisitedBlock> TileProgram::classify(int64_t index) {
  if (index < firstCandidate || index >= endCandidate)
    return std::nullopt;
  constexpr int64_t atOnce = tile::FindBlocksOp::blocksAtOnce;
  int64_t group = firstCandidate + (index - firstCandidate) / atOnce * atOnce;
  if (!test(finding.getMany(), group, atOnce).first)
    return std::nullopt;
  auto [keeps, drops] = test(finding.getOne(), index, 1);
  return keeps ? std::optional(VisitedBlock{index, drops}) : std::nullopt;
}

void TileProgram::beginBoxes(const BoxTest &test, TestedBoxes &boxes, bool isFirst) {
  if (unknown.empty())
    unknown = test.unknown();
  if (isFirst)
    for (Operation *op : test.uniform())
      execute(*op);
  for (Operation *op : test.uniformOfRows())
    execute(*op);
  boxes.begin([&](Value value) { return values.lookup(value); });
}

/// Has the same result as classify() for each block, but tests many blocks at a time.
void TileProgram::listFound() {
  constexpr int64_t atOnce = tile::FindBlocksOp::blocksAtOnce;
  bool areKeys = blocks.rows == tile::Axis::Query;
  bool isFirst = !testedBlocks;
  if (isFirst) {
    int64_t extent = areKeys ? blocks.keys : blocks.queries;
    int64_t columns = areKeys ? bindings->extents.Sk : bindings->extents.Sq;
    testedBlocks.emplace(*testOfOne, 1, extent, columns, /*keepFixed=*/hasTables());
    testedGroups.emplace(*testOfMany, atOnce, extent, columns, /*keepFixed=*/false);
  }
  beginBoxes(*testOfOne, *testedBlocks, isFirst);
  beginBoxes(*testOfMany, *testedGroups, isFirst);
  auto looks = [&](auto... arguments) { look(arguments...); };
  auto testBlocks = [&] {
    testedBlocks->run(looks, [&](int64_t index, bool keeps, bool drops) {
      if (keeps)
        found.push_back({index, drops || isBroken(index, 1)});
    });
  };
  auto testGroups = [&] {
    testedGroups->run(looks, [&](int64_t group, bool keeps, bool) {
      for (int64_t index = group; keeps && index < std::min(group + atOnce, endCandidate);
           ++index) {
        testedBlocks->add(index);
        if (testedBlocks->isFull())
          testBlocks();
      }
    });
  };
  for (int64_t group = firstCandidate; group < endCandidate && unknown.empty(); group += atOnce) {
    testedGroups->add(group);
    if (testedGroups->isFull())
      testGroups();
  }
  testGroups();
  testBlocks();
}

void TileProgram::executeFind(tile::FindBlocksOp op) {
  int64_t rows = op.getFound().getType().getRows();
  int64_t low = integer(op.getLow()), high = integer(op.getHigh());
  firstCandidate = low / rows;
  endCandidate = low < high ? (high + rows - 1) / rows : firstCandidate;
  found.clear();
  if (endCandidate - firstCandidate <= mostCounted)
    listFound();
  values[op.getCount()].integer = int64_t(found.size());
}

} // namespace tesela
