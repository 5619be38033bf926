//===- ColumnInterval.cpp - Conditions on a column as an interval -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/ColumnInterval.h"

#include "analysis/RowMap.h"

using namespace mlir;

namespace tesela::nvvm {

using Predicate = arith::CmpIPredicate;

ColumnInterval::ColumnInterval(OpBuilder &builder, tile::MapOp map, const IRMapping &outer,
                               Value firstRow, Value firstColumn)
    : builder(builder), loc(map.getLoc()), map(map), outer(outer), firstRow(firstRow),
      firstColumn(firstColumn) {
  Block &body = map.getBody().front();
  auto select = body.getTerminator()->getOperand(0).getDefiningOp<arith::SelectOp>();
  if (!select || select->getBlock() != &body || !select.getCondition().hasOneUse())
    return;
  join(select.getCondition());
  if (!atoms.empty())
    joined = select.getCondition();
}

Value ColumnInterval::constant(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

void ColumnInterval::join(Value value) {
  Operation *op = value.getDefiningOp();
  bool isOwn = op && op->getBlock() == &map.getBody().front();
  if (auto both = isOwn ? dyn_cast<arith::AndIOp>(op) : arith::AndIOp()) {
    join(both.getLhs());
    join(both.getRhs());
  } else if (auto compare = isOwn ? dyn_cast<arith::CmpIOp>(op) : arith::CmpIOp()) {
    if (std::optional<Atom> atom = atomOf(compare))
      atoms.push_back(*atom);
    else
      others.push_back(value);
  } else {
    others.push_back(value);
  }
}

/// The position q or k of an element, which is a block's first plus the row's position or the
/// column; or the difference of two such.
std::optional<ColumnInterval::Place> ColumnInterval::placeOf(Value value) {
  Block &body = map.getBody().front();
  if (auto sum = value.getDefiningOp<arith::AddIOp>(); sum && sum->getBlock() == &body) {
    auto block = sum.getLhs().getDefiningOp<tile::CoordinatesOp>();
    bool isRow = isRowPosition(sum.getRhs(), map);
    bool isColumn = sum.getRhs() == body.getArgument(map.getSources().size() + 1);
    if (!block || sum.getLhs() != block.getFirst() || (!isRow && !isColumn))
      return std::nullopt;
    Value lane = arith::AddIOp::create(builder, loc, outer.lookup(sum.getLhs()),
                                       isRow ? firstRow : firstColumn);
    return Place{lane, isRow, !isRow};
  }
  if (auto difference = value.getDefiningOp<arith::SubIOp>();
      difference && difference->getBlock() == &body &&
      difference.getLhs().getDefiningOp<arith::AddIOp>() &&
      difference.getRhs().getDefiningOp<arith::AddIOp>()) {
    std::optional<Place> left = placeOf(difference.getLhs()), right = placeOf(difference.getRhs());
    if (!left || !right)
      return std::nullopt;
    return Place{arith::SubIOp::create(builder, loc, left->lane, right->lane),
                 left->row - right->row, left->column - right->column};
  }
  return std::nullopt;
}

static Predicate swapped(Predicate predicate) {
  switch (predicate) {
  case Predicate::slt:
    return Predicate::sgt;
  case Predicate::sle:
    return Predicate::sge;
  case Predicate::sgt:
    return Predicate::slt;
  default:
    return Predicate::sle;
  }
}

std::optional<ColumnInterval::Atom> ColumnInterval::atomOf(arith::CmpIOp compare) {
  Predicate predicate = compare.getPredicate();
  if (predicate != Predicate::slt && predicate != Predicate::sle && predicate != Predicate::sgt &&
      predicate != Predicate::sge)
    return std::nullopt;
  Block &body = map.getBody().front();
  auto isUniform = [&](Value value) {
    return value.getType().isInteger(32) &&
           (value.getParentBlock() != &body || value.getDefiningOp<arith::ConstantOp>());
  };
  auto uniform = [&](Value value) -> Value {
    if (Value known = outer.lookupOrNull(value))
      return known;
    return builder.clone(*value.getDefiningOp())->getResult(0);
  };
  PtxInstructions ptx(builder, loc);
  Value left = compare.getLhs(), right = compare.getRhs();
  std::optional<Atom> atom;
  if (isUniform(right)) {
    if (std::optional<Place> place = placeOf(left))
      atom = {predicate, ptx.subtractSaturating(uniform(right), place->lane), place->row,
              place->column};
  } else if (isUniform(left)) {
    if (std::optional<Place> place = placeOf(right))
      atom = {swapped(predicate), ptx.subtractSaturating(uniform(left), place->lane), place->row,
              place->column};
  } else if (left.getDefiningOp<arith::AddIOp>() && right.getDefiningOp<arith::AddIOp>()) {
    std::optional<Place> a = placeOf(left), b = placeOf(right);
    if (a && b) // two positions: their difference does not wrap
      atom = {predicate, arith::SubIOp::create(builder, loc, b->lane, a->lane), a->row - b->row,
              a->column - b->column};
  }
  if (!atom || (atom->column != 1 && atom->column != -1))
    return std::nullopt;
  return atom;
}

Value ColumnInterval::contains(int64_t row, int64_t column) {
  auto known = ends.find(row);
  if (known == ends.end()) {
    PtxInstructions ptx(builder, loc);
    std::pair<Value, Value> both;
    for (const Atom &atom : atoms) {
      // row·i + j ⋈ d is j ⋈ d - row·i; row·i - j ⋈ d is j ⋈' row·i - d with the sense turned.
      bool isAdded = atom.column == 1;
      Predicate predicate = isAdded ? atom.predicate : swapped(atom.predicate);
      bool isUpper = predicate == Predicate::slt || predicate == Predicate::sle;
      // j <= x is j < x + 1; j > x is j >= x + 1.
      int64_t beyond = predicate == Predicate::sle || predicate == Predicate::sgt;
      Value fixed = constant(atom.row * row);
      Value end = isAdded ? ptx.subtractSaturating(atom.difference, fixed)
                          : ptx.subtractSaturating(fixed, atom.difference);
      if (beyond)
        end = ptx.subtractSaturating(end, constant(-1));
      Value &other = isUpper ? both.second : both.first;
      if (!other)
        other = end;
      else if (isUpper)
        other = arith::MinSIOp::create(builder, loc, other, end);
      else
        other = arith::MaxSIOp::create(builder, loc, other, end);
    }
    known = ends.insert({row, both}).first;
  }
  auto [lower, upper] = known->second;
  Value inside;
  if (upper)
    inside = arith::CmpIOp::create(builder, loc, Predicate::sgt, upper, constant(column));
  if (lower) {
    Value above = arith::CmpIOp::create(builder, loc, Predicate::sle, lower, constant(column));
    inside = inside ? Value(arith::AndIOp::create(builder, loc, inside, above)) : above;
  }
  return inside;
}

} // namespace tesela::nvvm
