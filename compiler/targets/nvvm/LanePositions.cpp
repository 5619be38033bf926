//===- LanePositions.cpp - Linear values of a map ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/LanePositions.h"

#include "analysis/Positions.h"
#include "analysis/RowMap.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela::nvvm {

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

LanePositions::LanePositions(OpBuilder &builder, tile::MapOp map, const IRMapping &outer,
                             Value firstRow, Value firstColumn) {
  Block &body = map.getBody().front();
  Location loc = map.getLoc();
  unsigned coordinates = map.getSources().size();
  DenseMap<Value, Position> positions;
  auto setRow = [&](Value row) {
    positions[row] = Position(Value(), {1, 0});
    known[row] = LanePosition(firstRow, {1, 0});
  };
  if (headsOfRows(map) == 1)
    setRow(body.getArgument(coordinates));
  positions[body.getArgument(coordinates + 1)] = Position(Value(), {0, 1});
  known[body.getArgument(coordinates + 1)] = LanePosition(firstColumn, {0, 1});

  for (Operation &op : body.without_terminator()) {
    if (op.getNumResults() != 1)
      continue;
    Value result = op.getResult(0);
    if (isRowPosition(result, map)) {
      setRow(result);
    } else if (matchPattern(&op, m_Constant()) && result.getType().isInteger(32)) {
      positions[result] = Position(builder.clone(op)->getResult(0));
    } else if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op)) {
      SmallVector<Position> operands;
      for (Value operand : op.getOperands()) {
        if (operand.getParentBlock() != &body)
          operands.push_back(Position(outer.lookup(operand)));
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
        known[result] = LanePosition(laneOf(builder, loc, *sum, firstRow, firstColumn), *sum);
    } else if (auto convert = dyn_cast<arith::SIToFPOp>(op)) {
      // The conversion is exact (see Positions.cpp), so the sum of the two parts is exact, too.
      auto found = positions.find(convert.getIn());
      if (found == positions.end() || found->second.base || found->second.isUniform())
        continue;
      Value lane =
          arith::SIToFPOp::create(builder, loc, result.getType(), known[convert.getIn()].lane);
      known[result] = LanePosition(lane, found->second);
    } else if (auto sum = dyn_cast<arith::AddFOp>(op)) {
      auto found = known.find(sum.getRhs());
      if (!bitEnumContainsAll(sum.getFastmath(), arith::FastMathFlags::reassoc) ||
          found == known.end() || sum.getLhs().getParentBlock() == &body)
        continue;
      Value lane =
          arith::AddFOp::create(builder, loc, outer.lookup(sum.getLhs()), found->second.lane);
      known[result] = LanePosition(lane, found->second);
    }
  }
}

} // namespace tesela::nvvm
