//===- ColumnWords.cpp - Conditions on columns as words of bits -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/ColumnWords.h"

#include "analysis/UsedValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela::nvvm {

using Predicate = arith::CmpIPredicate;

ColumnWords::ColumnWords(tile::MapOp map)
    : body(&map.getBody().front()), row(body->getArgument(map.getSources().size())),
      column(body->getArgument(map.getSources().size() + 1)) {
  if (cast<tile::TileType>(map.getType()).getRank() == 1)
    return; // a row has one element
  varying.insert(column);
  for (auto [argument, source] : llvm::zip(body->getArguments(), map.getSources()))
    if (cast<tile::TileType>(source.getType()).getRank() == 2)
      varying.insert(argument);
  auto isKnown = [&](Value value) {
    return value.getType().isInteger(1) && (isOfRow(value) || isFormula(value));
  };
  for (Operation &op : body->without_terminator()) {
    if (llvm::all_of(valuesUsedBy(op), [&](Value value) { return isOfColumn(value); }))
      ofColumn.insert_range(op.getResults());
    if (llvm::none_of(valuesUsedBy(op), [&](Value value) { return varying.contains(value); }))
      continue;
    varying.insert_range(op.getResults());
    if (tile::PhaseOp phase = findPhase(op)) {
      phases[op.getResult(0)] = phase;
      if (op.getResult(0).getType().isInteger(1))
        formulas.insert(op.getResult(0));
      continue;
    }
    if (auto loop = dyn_cast<scf::ForOp>(op);
        loop && BooleanReduction::of(loop) && neededOfRow(loop.getResult(0))) {
      reductions.insert(loop.getResult(0));
      formulas.insert(loop.getResult(0));
      continue;
    }
    auto compare = dyn_cast<arith::CmpIOp>(op);
    bool isBound =
        compare && compare.getLhs() == column && isOfRow(compare.getRhs()) &&
        (compare.getPredicate() == Predicate::slt || compare.getPredicate() == Predicate::sge);
    if (isBound || (isJoin(op) && llvm::all_of(op.getOperands(), isKnown)))
      formulas.insert(op.getResult(0));
  }
}

std::optional<BooleanReduction> BooleanReduction::of(scf::ForOp loop) {
  if (loop.getNumResults() != 1 || !loop.getResult(0).getType().isInteger(1))
    return std::nullopt;
  Value carried = loop.getRegionIterArg(0);
  Operation *join = loop.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  bool isAny = isa_and_nonnull<arith::OrIOp>(join);
  APInt start;
  if (!isa_and_nonnull<arith::OrIOp, arith::AndIOp>(join) || !carried.hasOneUse() ||
      !llvm::is_contained(join->getOperands(), carried) ||
      !matchPattern(loop.getInitArgs().front(), m_ConstantInt(&start)) || start.isZero() != isAny)
    return std::nullopt;
  bool isFirst = join->getOperand(0) == carried;
  return BooleanReduction{join->getOperand(isFirst ? 1 : 0), isAny};
}

/// `op` itself if it is a tile.phase, otherwise the one on which its operands depend.
tile::PhaseOp ColumnWords::findPhase(Operation &op) const {
  if (auto phase = dyn_cast<tile::PhaseOp>(op)) {
    bool isPattern = phase.getColumn() == column && isOfRow(phase.getStart()) &&
                     phase.getPeriod().getParentBlock() != body &&
                     phase.getFactor().getParentBlock() != body;
    return isPattern ? phase : tile::PhaseOp();
  }
  if (!isa<arith::ArithDialect>(op.getDialect()) || op.getNumResults() != 1)
    return {};
  tile::PhaseOp found;
  for (Value operand : op.getOperands()) {
    if (isUniform(operand))
      continue;
    tile::PhaseOp phase = phaseOf(operand);
    if (!phase || (found && found != phase))
      return {};
    found = phase;
  }
  return found;
}

bool ColumnWords::isJoin(Operation &op) {
  return isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::SelectOp>(op) &&
         op.getResult(0).getType().isInteger(1);
}

bool ColumnWords::isOfRow(Value value) const {
  return value.getParentBlock() != body || !varying.contains(value);
}

bool ColumnWords::isOfColumn(Value value) const {
  return value.getParentBlock() != body || value == column || ofColumn.contains(value);
}

std::optional<SetVector<Value>> ColumnWords::neededOfRow(ArrayRef<Value> conditions) const {
  SetVector<Value> result;
  llvm::DenseSet<Value> seen;
  SmallVector<Value> worklist(conditions);
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (next == column || isa<tile::ViewType>(next.getType()) || !seen.insert(next).second)
      continue;
    if (isOfRow(next))
      result.insert(next);
    else if (Operation *op = next.getDefiningOp())
      llvm::append_range(worklist, valuesUsedBy(*op));
    else
      return std::nullopt;
  }
  return result;
}

std::optional<SetVector<Value>> ColumnWords::heldByRows(Value value) const {
  SetVector<Value> held;
  llvm::DenseSet<Value> seen;
  SmallVector<Value> worklist = {value};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (next == column || next.getParentBlock() != body || !seen.insert(next).second)
      continue;
    if (Operation *op = next.getDefiningOp())
      llvm::append_range(worklist, valuesUsedBy(*op));
    else if (next != row && isOfRow(next))
      held.insert(next);
    else
      return std::nullopt;
  }
  return held.empty() ? std::nullopt : std::optional(held);
}

SmallVector<Value> ColumnWords::neededOfColumn(Value value) const {
  SetVector<Value> seen;
  seen.insert(value);
  SmallVector<Value> result;
  for (size_t i = 0; i < seen.size(); ++i) {
    Operation *op = seen[i].getDefiningOp();
    if (!op || op->getBlock() != body)
      continue;
    if (isOfColumn(seen[i]))
      result.push_back(seen[i]);
    else
      seen.insert_range(valuesUsedBy(*op));
  }
  return result;
}

Value ColumnWords::Row::constant(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

/// The word of the columns less than `bound`. Of each 8 columns a lane has 2: so it has 2 for each
/// whole 8, and up to 2 of the rest.
Value ColumnWords::Row::below(Value bound, int64_t index) {
  // The difference is at least -6; then the count is -2 + 2 = 0 columns.
  Value from = arith::MaxSIOp::create(builder, loc, bound, begin);
  from = arith::SubIOp::create(builder, loc, from, firstColumn);
  Value eights = arith::ShRSIOp::create(builder, loc, from, constant(3));
  Value rest = arith::AndIOp::create(builder, loc, from, constant(7));
  rest = arith::MinSIOp::create(builder, loc, rest, constant(2));
  Value count = arith::ShLIOp::create(builder, loc, eights, constant(1));
  count = arith::AddIOp::create(builder, loc, count, rest);
  if (index > 0)
    count = arith::MaxSIOp::create(
        builder, loc,
        arith::SubIOp::create(builder, loc, count, constant(2 * groupsOfWord * index)),
        constant(0));
  return PtxInstructions(builder, loc).lowBits(count);
}

Value ColumnWords::Row::joined(Operation &op, int64_t index) {
  Value a = word(op.getOperand(0), index), b = word(op.getOperand(1), index);
  if (isa<arith::AndIOp>(op))
    return arith::AndIOp::create(builder, loc, a, b);
  if (isa<arith::OrIOp>(op))
    return arith::OrIOp::create(builder, loc, a, b);
  if (isa<arith::XOrIOp>(op))
    return arith::XOrIOp::create(builder, loc, a, b);
  Value other = arith::XOrIOp::create(builder, loc, a, constant(-1));
  return arith::OrIOp::create(
      builder, loc, arith::AndIOp::create(builder, loc, a, b),
      arith::AndIOp::create(builder, loc, other, word(op.getOperand(2), index)));
}

Value ColumnWords::Row::word(Value value, int64_t index) {
  auto known = words.find({value, index});
  if (known != words.end())
    return known->second;
  Value result;
  if (columns.isOfRow(value)) {
    result = arith::SelectOp::create(builder, loc, ofRow(value), constant(-1), constant(0));
  } else if (tile::PhaseOp phase = columns.phaseOf(value)) {
    result = periodic(value, index, ofRow(phase.getStart()));
  } else if (columns.isReduction(value)) {
    result = reduced(value, index);
  } else if (auto compare = value.getDefiningOp<arith::CmpIOp>()) {
    result = below(ofRow(compare.getRhs()), index);
    if (compare.getPredicate() == Predicate::sge)
      result = arith::XOrIOp::create(builder, loc, result, constant(-1));
  } else {
    result = joined(*value.getDefiningOp(), index);
  }
  words[{value, index}] = result;
  return result;
}

} // namespace tesela::nvvm
