//===- LowerMap.cpp - Maps on registers -------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A thread's elements stand at rows firstRow + i and columns firstColumn + j with constants i, j.
// So what is linear in row and column is the lane's part, computed once for a map, plus a constant
// of the element: an operand of the instruction, and the same for elements on one diagonal.
//
// Where several heads share the rows (RowMap.h), that holds of the row's position: the bits of a
// lane's firstRow and of i are apart, so that (firstRow + i) / heads is firstRow / heads + i /
// heads.
//
//===----------------------------------------------------------------------===//
#include "analysis/Positions.h"
#include "analysis/RowMap.h"
#include "targets/nvvm/ColumnInterval.h"
#include "targets/nvvm/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela::nvvm {
namespace {

/// lane + row · i + column · j, of i32 or f32.
struct LanePosition {
  Value lane;
  int64_t row = 0, column = 0;
};

/// The values of a map's body that are linear in the row's position and in the column.
class LanePositions {
public:
  /// `outer` gives the lowered values from outside; `firstRow` is a position.
  LanePositions(OpBuilder &builder, tile::MapOp map, const IRMapping &outer, Value firstRow,
                Value firstColumn) {
    Block &body = map.getBody().front();
    Location loc = map.getLoc();
    unsigned coordinates = map.getSources().size();
    DenseMap<Value, Position> positions;
    auto setRow = [&](Value row) {
      positions[row] = {Value(), 1, 0};
      known[row] = {firstRow, 1, 0};
    };
    if (headsOfRows(map) == 1)
      setRow(body.getArgument(coordinates));
    positions[body.getArgument(coordinates + 1)] = {Value(), 0, 1};
    known[body.getArgument(coordinates + 1)] = {firstColumn, 0, 1};

    for (Operation &op : body.without_terminator()) {
      if (op.getNumResults() != 1)
        continue;
      Value result = op.getResult(0);
      if (isRowPosition(result, map)) {
        setRow(result);
      } else if (matchPattern(&op, m_Constant()) && result.getType().isInteger(32)) {
        positions[result] = {builder.clone(op)->getResult(0)};
      } else if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op)) {
        SmallVector<Position> operands;
        for (Value operand : op.getOperands()) {
          if (operand.getParentBlock() != &body)
            operands.push_back({outer.lookup(operand)});
          else if (auto found = positions.find(operand); found != positions.end())
            operands.push_back(found->second);
        }
        std::optional<Position> sum;
        if (operands.size() == 2)
          sum = combinePositions(op, operands, builder);
        if (!sum)
          continue;
        positions[result] = *sum;
        if (!sum->isUniform())
          known[result] = {laneOf(builder, loc, *sum, firstRow, firstColumn), sum->row,
                           sum->column};
      } else if (auto convert = dyn_cast<arith::SIToFPOp>(op)) {
        // Exact (see Positions.cpp), so the sum of the two parts is too.
        auto found = positions.find(convert.getIn());
        if (found == positions.end() || found->second.base || found->second.isUniform())
          continue;
        Value lane =
            arith::SIToFPOp::create(builder, loc, result.getType(), known[convert.getIn()].lane);
        known[result] = {lane, found->second.row, found->second.column};
      } else if (auto sum = dyn_cast<arith::AddFOp>(op)) {
        auto found = known.find(sum.getRhs());
        if (!bitEnumContainsAll(sum.getFastmath(), arith::FastMathFlags::reassoc) ||
            found == known.end() || sum.getLhs().getParentBlock() == &body)
          continue;
        Value lane =
            arith::AddFOp::create(builder, loc, outer.lookup(sum.getLhs()), found->second.lane);
        known[result] = {lane, found->second.row, found->second.column};
      }
    }
  }

  const LanePosition *find(Value value) const {
    auto found = known.find(value);
    return found == known.end() ? nullptr : &found->second;
  }

private:
  static Value laneOf(OpBuilder &builder, Location loc, const Position &position, Value firstRow,
                      Value firstColumn) {
    auto times = [&](Value value, int64_t factor) -> Value {
      Value constant = arith::ConstantIntOp::create(builder, loc, factor, 32);
      return builder.createOrFold<arith::MulIOp>(loc, value, constant);
    };
    Value lane = builder.createOrFold<arith::AddIOp>(loc, times(firstRow, position.row),
                                                     times(firstColumn, position.column));
    return position.base ? arith::AddIOp::create(builder, loc, position.base, lane).getResult()
                         : lane;
  }

  DenseMap<Value, LanePosition> known;
};

/// The ops of a map's body that its value needs when `interval` gives its condition.
llvm::DenseSet<Operation *> neededBeside(Block &body, const ColumnInterval &interval) {
  llvm::DenseSet<Operation *> needed;
  SmallVector<Value> worklist(body.getTerminator()->getOperands());
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != &body || !needed.insert(op).second)
      continue;
    if (value == interval.condition())
      llvm::append_range(worklist, interval.rest());
    else
      llvm::append_range(worklist, op->getOperands());
  }
  return needed;
}

} // namespace

LogicalResult KernelLowering::lowerMap(tile::MapOp op) {
  auto type = cast<tile::TileType>(op.getType());
  FragmentShape shape(type, warps);
  bool isRow = type.getRank() == 1;
  Block &body = op.getBody().front();
  if (!type.getElementType().isF32() && !type.getElementType().isInteger(32))
    return op.emitOpError() << "expected elements f32 or i32, got " << type.getElementType();

  // Values from outside are looked up once.
  IRMapping outer;
  for (Operation &inner : body)
    for (Value operand : inner.getOperands())
      if (operand.getParentBlock() != &body && !isa<tile::ViewType>(operand.getType()))
        outer.map(operand, valueOf(operand));
  int64_t heads = headsOfRows(op);
  Value firstPosition = emitRowPlace(builder, loc, firstRow, heads).position;
  LanePositions positions(builder, op, outer, firstPosition, isRow ? constant(0) : firstColumn);
  std::optional<ColumnInterval> interval;
  if (!isRow)
    interval.emplace(builder, op, outer, firstPosition, firstColumn);
  // What is left of the body where the interval stands for its condition.
  llvm::DenseSet<Operation *> needed = interval && interval->condition()
                                           ? neededBeside(body, *interval)
                                           : llvm::DenseSet<Operation *>();

  Values results;
  auto emitElement = [&](int64_t strip, int64_t half, int64_t group, int64_t odd) {
    IRMapping scalars = outer;
    for (auto [argument, source] : llvm::zip(body.getArguments(), op.getSources())) {
      bool sourceIsRow = cast<tile::TileType>(source.getType()).getRank() == 1;
      int64_t index =
          sourceIsRow ? strip * 2 + half : (strip * shape.groups() + group) * 4 + half * 2 + odd;
      scalars.map(argument, valuesOf(source)[index]);
    }
    int64_t row = shape.firstRow(strip) + 8 * half, column = 8 * group + odd;
    int64_t position = row / heads;
    if (heads > 1)
      scalars.map(body.getArgument(op.getSources().size()), add(firstRow, constant(row)));
    auto offsetOf = [&](const LanePosition &at) { return at.row * position + at.column * column; };
    // Written where it is used.
    auto materialize = [&](Value value) {
      const LanePosition *at = scalars.contains(value) ? nullptr : positions.find(value);
      if (!at)
        return;
      int64_t offset = offsetOf(*at);
      Value result = at->lane;
      if (offset != 0)
        result = result.getType().isF32()
                     ? Value(arith::AddFOp::create(builder, loc, result, number(float(offset))))
                     : add(result, constant(offset));
      scalars.map(value, result);
    };
    for (Operation &inner : body.without_terminator()) {
      if (inner.getNumRegions() != 0 || inner.getNumResults() != 1)
        return LogicalResult(inner.emitOpError() << "cannot stand in the body of tile.map");
      Value result = inner.getResult(0);
      if (interval && result == interval->condition()) {
        Value inside = interval->contains(position, column);
        for (Value other : interval->rest())
          inside = arith::AndIOp::create(builder, loc, inside, scalars.lookup(other));
        scalars.map(result, inside);
        continue;
      }
      if (positions.find(result) || (!needed.empty() && !needed.contains(&inner)))
        continue;
      auto read = dyn_cast<tile::ReadOp>(inner);
      if (read && read.getCovered()) {
        Values lane;
        SmallVector<int64_t> offset;
        for (Value index : read.getIndices()) {
          const LanePosition *at = positions.find(index);
          lane.push_back(at ? at->lane : scalars.lookup(index));
          offset.push_back(at ? offsetOf(*at) : 0);
        }
        scalars.map(result, emitCoveredRead(read, lane, offset));
        continue;
      }
      for (Value operand : inner.getOperands())
        materialize(operand);
      scalars.map(result, emitScalar(&inner, scalars));
    }
    Value yielded = body.getTerminator()->getOperand(0);
    materialize(yielded);
    results.push_back(scalars.lookupOrDefault(yielded));
    return LogicalResult(success());
  };
  for (int64_t strip = 0; strip < shape.strips; ++strip)
    for (int64_t group = 0; group < (isRow ? 1 : shape.groups()); ++group)
      for (int64_t half = 0; half < 2; ++half)
        for (int64_t odd = 0; odd < (isRow ? 1 : 2); ++odd)
          if (failed(emitElement(strip, half, group, odd)))
            return failure();
  values[op] = results;
  return success();
}

} // namespace tesela::nvvm
