//===- DiagonalValues.cpp - Values that a diagonal shares -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/DiagonalValues.h"

#include "analysis/DiagonalSteps.h"
#include "analysis/RowMap.h"
#include "analysis/UsedValues.h"
#include "pipe/Pipe.h"
#include "targets/nvvm/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela::nvvm {

/// With fewer operations, a read from shared memory between two barriers saves nothing.
static constexpr size_t fewestOperations = 24;

/// Whether `value` is a position: the first row (or column) of a block plus `argument`, the number
/// of a row (or column) in its tile.
static bool isPosition(Value value, BlockArgument argument) {
  auto sum = value.getDefiningOp<arith::AddIOp>();
  if (!sum || !llvm::is_contained(sum->getOperands(), argument))
    return false;
  Value first = sum.getLhs() == argument ? sum.getRhs() : sum.getLhs();
  auto block = first.getDefiningOp<tile::CoordinatesOp>();
  return block && first == block.getFirst();
}

/// How many ops of `body` are needed to compute `value`, not counting constants.
static size_t operationsOf(Value value, Block &body) {
  llvm::DenseSet<Operation *> seen;
  SmallVector<Value> worklist = {value};
  size_t count = 0;
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || op->getBlock() != &body || !seen.insert(op).second)
      continue;
    count += !matchPattern(op, m_Constant());
    llvm::append_range(worklist, valuesUsedBy(*op));
  }
  return count;
}

Operation *findDiagonalValue(tile::MapOp map) {
  auto type = cast<tile::TileType>(map.getType());
  // All threads of a warpgroup must come here, so no branch may stand around the map.
  for (Operation *op = map->getParentOp(); !isa<pipe::RolesOp>(op); op = op->getParentOp())
    if (isa<tile::KernelOp>(op) || (isa<scf::IfOp>(op) && !op->hasAttr(countedAttr)))
      return nullptr;
  if (type.getRank() != 2 || type.isSingleRow() || !type.getElementType().isF32() ||
      headsOfRows(map) != 1)
    return nullptr;
  // A warpgroup must have 64 rows and all columns of them.
  tile::ScheduleAttr schedule = map->getParentOfType<tile::KernelOp>().getScheduleAttr();
  auto sum = dyn_cast_or_null<pipe::AccumulatorAttr>(type.getEncoding());
  if (!sum || sum.getWarps() != schedule->warps || type.getExtent(0) != 64 * schedule->consumers)
    return nullptr;
  Block &body = map.getBody().front();
  BlockArgument row = body.getArgument(map.getSources().size()),
                column = body.getArgument(map.getSources().size() + 1);
  DiagonalSteps steps(body);
  steps.set(row, 1);
  steps.set(column, 1);
  for (auto sum : body.getOps<arith::AddIOp>())
    if (isPosition(sum, row) || isPosition(sum, column))
      steps.setPosition(sum);
  Operation *found = nullptr;
  size_t most = fewestOperations;
  for (Operation &op : body.without_terminator()) {
    if (op.getNumResults() != 1 || steps.of(op.getResult(0)) != 0u)
      continue;
    Type result = op.getResult(0).getType();
    bool isNeeded = llvm::any_of(op.getUsers(), [&](Operation *user) {
      return user->getBlock() != &body || user->getNumResults() != 1 ||
             steps.of(user->getResult(0)) != 0u;
    });
    if (!isNeeded || !(result.isF32() || result.isInteger(32)))
      continue;
    size_t operations = operationsOf(op.getResult(0), body);
    if (operations > most) {
      most = operations;
      found = &op;
    }
  }
  return found;
}

Operation *diagonalValueOf(tile::MapOp map) {
  auto number = map->getAttrOfType<IntegerAttr>(diagonalsOpAttr);
  return number ? &*std::next(map.getBody().front().begin(), number.getInt()) : nullptr;
}

int64_t diagonalsOfGroup(tile::MapOp map, tile::ScheduleAttr schedule) {
  auto type = cast<tile::TileType>(map.getType());
  return type.getExtent(0) / schedule->consumers + type.getExtent(1) - 1;
}

} // namespace tesela::nvvm
