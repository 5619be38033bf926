//===- KeyRange.cpp - Which keys a block of queries can need ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/KeyRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

#include <limits>
#include <optional>

using namespace mlir;

namespace tesela {
namespace {

// Far beyond every key and query, and far from the ends of i64.
constexpr int64_t farAway = int64_t(1) << 40;

class RangeEmitter {
public:
  RangeEmitter(OpBuilder &builder, tile::MaskOp mask, Value rows)
      : builder(builder), loc(mask.getLoc()), body(mask.getBody().front()) {
    auto place = tile::CoordinatesOp::create(builder, loc, rows);
    Value queries = tile::ExtentOp::create(builder, loc, builder.getI32Type(), "Sq");
    Value keys = tile::ExtentOp::create(builder, loc, builder.getI32Type(), "Sk");
    hoisted.map(body.getArgument(0), place.getBatch());
    hoisted.map(body.getArgument(1), place.getHead());
    hoisted.map(body.getArgument(2), place.getKvHead());
    query = body.getArgument(3);
    key = body.getArgument(4);

    int64_t rowCount = cast<tile::BlockType>(rows.getType()).getRows();
    firstQuery = wide(place.getFirst());
    lastQuery = subtract(min(add(firstQuery, constant(rowCount)), wide(queries)), constant(1));
    keyCount = wide(keys);
  }

  KeyRange emit() {
    KeyRange range = visit(body.getTerminator()->getOperand(0), /*negated=*/false);
    Value zero = constant(0);
    for (KeyInterval *interval : {&range.may, &range.must}) {
      interval->low = min(max(interval->low, zero), keyCount);
      interval->high = min(max(interval->high, zero), keyCount);
    }
    return range;
  }

private:
  //===--- i64 arithmetic ---------------------------------------------------===//

  Value constant(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 64); }
  Value wide(Value value) {
    return arith::ExtSIOp::create(builder, loc, builder.getI64Type(), value);
  }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value subtract(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
  Value min(Value a, Value b) { return arith::MinSIOp::create(builder, loc, a, b); }
  Value max(Value a, Value b) { return arith::MaxSIOp::create(builder, loc, a, b); }
  Value both(Value a, Value b) { return arith::AndIOp::create(builder, loc, a, b); }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  }
  Value lessEqual(Value a, Value b) { return compare(arith::CmpIPredicate::sle, a, b); }

  //===--- intervals --------------------------------------------------------===//

  KeyInterval everything() { return {constant(-farAway), constant(farAway)}; }
  KeyInterval nothing() { return {constant(farAway), constant(-farAway)}; }
  KeyRange unknown() { return {everything(), nothing()}; }

  KeyInterval choose(Value condition, KeyInterval a, KeyInterval b) {
    return {select(condition, a.low, b.low), select(condition, a.high, b.high)};
  }

  KeyRange conjunction(KeyRange a, KeyRange b) {
    auto intersect = [&](KeyInterval x, KeyInterval y) -> KeyInterval {
      return {max(x.low, y.low), min(x.high, y.high)};
    };
    return {intersect(a.may, b.may), intersect(a.must, b.must)};
  }

  KeyRange disjunction(KeyRange a, KeyRange b) {
    auto hull = [&](KeyInterval x, KeyInterval y) -> KeyInterval {
      return {min(x.low, y.low), max(x.high, y.high)};
    };
    auto isEmpty = [&](KeyInterval x) { return lessEqual(x.high, x.low); };
    // An empty interval must not widen a hull: its ends say nothing.
    KeyInterval mayHull =
        choose(isEmpty(a.may), b.may, choose(isEmpty(b.may), a.may, hull(a.may, b.may)));
    Value touch = both(lessEqual(a.must.low, b.must.high), lessEqual(b.must.low, a.must.high));
    Value aIsLonger =
        lessEqual(subtract(b.must.high, b.must.low), subtract(a.must.high, a.must.low));
    KeyInterval must = choose(touch, hull(a.must, b.must), choose(aIsLonger, a.must, b.must));
    must = choose(isEmpty(a.must), b.must, choose(isEmpty(b.must), a.must, must));
    return {mayHull, must};
  }

  //===--- values that are the same for the whole block ---------------------===//

  bool isUniform(Value value) {
    if (value == query || value == key)
      return false;
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != &body) // b h hkv, and what stands outside
      return true;
    auto [known, inserted] = uniform.try_emplace(op, false);
    if (!inserted)
      return known->second;
    bool result = op->getNumRegions() == 0 &&
                  llvm::all_of(op->getOperands(), [&](Value v) { return isUniform(v); });
    return uniform[op] = result;
  }

  /// `value`, computed outside the loop; only where isUniform(value).
  Value hoist(Value value) {
    Operation *op = value.getDefiningOp();
    if (op && op->getBlock() == &body && !hoisted.contains(value)) {
      for (Value operand : op->getOperands())
        hoist(operand);
      builder.clone(*op, hoisted);
    }
    return hoisted.lookupOrDefault(value);
  }

  //===--- linear forms -----------------------------------------------------===//

  /// query · q + key · k + offset, and an i1 that says whether no step of the kernel's i32
  /// arithmetic wrapped (null: none can).
  struct Linear {
    int query = 0, key = 0;
    Value offset;
    Value fits;
  };

  std::optional<Linear> linear(Value value) {
    auto known = forms.find(value);
    if (known != forms.end())
      return known->second;
    std::optional<Linear> form = findLinear(value);
    forms.try_emplace(value, form);
    return form;
  }

  std::optional<Linear> findLinear(Value value) {
    if (value == query)
      return Linear{1, 0, constant(0), Value()};
    if (value == key)
      return Linear{0, 1, constant(0), Value()};
    if (isUniform(value))
      return Linear{0, 0, wide(hoist(value)), Value()};
    Operation *op = value.getDefiningOp();
    if (!isa<arith::AddIOp, arith::SubIOp>(op))
      return std::nullopt;
    std::optional<Linear> a = linear(op->getOperand(0)), b = linear(op->getOperand(1));
    if (!a || !b)
      return std::nullopt;
    int sign = isa<arith::AddIOp>(op) ? 1 : -1;
    Linear sum{a->query + sign * b->query, a->key + sign * b->key,
               sign == 1 ? add(a->offset, b->offset) : subtract(a->offset, b->offset),
               conjoin(a->fits, b->fits)};
    if (std::abs(sum.query) > 1 || std::abs(sum.key) > 1)
      return std::nullopt;
    auto [low, high] = bounds(sum);
    Value fits = both(lessEqual(constant(std::numeric_limits<int32_t>::min()), low),
                      lessEqual(high, constant(std::numeric_limits<int32_t>::max())));
    sum.fits = conjoin(sum.fits, fits);
    return sum;
  }

  Value conjoin(Value a, Value b) { return !a ? b : !b ? a : both(a, b); }

  /// Least and largest value of `coefficient` · q over the block.
  std::pair<Value, Value> queryBounds(int coefficient) {
    Value zero = constant(0);
    if (coefficient == 0)
      return {zero, zero};
    if (coefficient > 0)
      return {firstQuery, lastQuery};
    return {subtract(zero, lastQuery), subtract(zero, firstQuery)};
  }

  std::pair<Value, Value> bounds(const Linear &form) {
    auto [low, high] = queryBounds(form.query);
    low = add(low, form.offset);
    high = add(high, form.offset);
    Value lastKey = subtract(keyCount, constant(1));
    if (form.key > 0)
      high = add(high, lastKey);
    if (form.key < 0)
      low = subtract(low, lastKey);
    return {low, high};
  }

  //===--- booleans ---------------------------------------------------------===//

  /// The range of a - b + `plus` <= 0.
  KeyRange atMostZero(const Linear &a, const Linear &b, int64_t plus) {
    int queryFactor = a.query - b.query, keyFactor = a.key - b.key;
    if (std::abs(queryFactor) > 1 || std::abs(keyFactor) > 1)
      return unknown();
    Value offset = add(subtract(a.offset, b.offset), constant(plus));
    KeyRange range{everything(), everything()};
    if (keyFactor == 0) {
      auto [low, high] = queryBounds(queryFactor);
      Value zero = constant(0);
      range.may = choose(lessEqual(add(low, offset), zero), everything(), nothing());
      range.must = choose(lessEqual(add(high, offset), zero), everything(), nothing());
    } else if (keyFactor > 0) { // k < 1 - queryFactor · q - offset
      auto [low, high] = queryBounds(-queryFactor);
      Value end = subtract(constant(1), offset);
      range.may.high = add(high, end);
      range.must.high = add(low, end);
    } else { // k >= queryFactor · q + offset
      auto [low, high] = queryBounds(queryFactor);
      range.may.low = add(low, offset);
      range.must.low = add(high, offset);
    }
    if (Value fits = conjoin(a.fits, b.fits)) {
      range.may = choose(fits, range.may, everything());
      range.must = choose(fits, range.must, nothing());
    }
    return range;
  }

  KeyRange visitCompare(arith::CmpIOp op, bool negated) {
    std::optional<Linear> a, b;
    if (op.getLhs().getType().isInteger(32)) {
      a = linear(op.getLhs());
      b = linear(op.getRhs());
    }
    if (!a || !b)
      return unknown();
    using Predicate = arith::CmpIPredicate;
    Predicate predicate = negated ? arith::invertPredicate(op.getPredicate()) : op.getPredicate();
    switch (predicate) {
    case Predicate::sle:
      return atMostZero(*a, *b, 0);
    case Predicate::slt:
      return atMostZero(*a, *b, 1);
    case Predicate::sge:
      return atMostZero(*b, *a, 0);
    case Predicate::sgt:
      return atMostZero(*b, *a, 1);
    case Predicate::eq:
      return conjunction(atMostZero(*a, *b, 0), atMostZero(*b, *a, 0));
    case Predicate::ne:
      return disjunction(atMostZero(*a, *b, 1), atMostZero(*b, *a, 1));
    default: // the language has no unsigned comparison
      return unknown();
    }
  }

  /// Each value is visited once a sign, however often the mask uses it.
  KeyRange visit(Value value, bool negated) {
    auto known = ranges[negated].find(value);
    if (known != ranges[negated].end())
      return known->second;
    KeyRange range = findRange(value, negated);
    ranges[negated].try_emplace(value, range);
    return range;
  }

  KeyRange findRange(Value value, bool negated) {
    if (isUniform(value)) {
      Value keep = hoist(value);
      KeyInterval whenTrue = negated ? nothing() : everything();
      KeyInterval whenFalse = negated ? everything() : nothing();
      KeyInterval interval = choose(keep, whenTrue, whenFalse);
      return {interval, interval};
    }
    Operation *op = value.getDefiningOp();
    auto combine = [&](bool isAnd, KeyRange a, KeyRange b) {
      return isAnd != negated ? conjunction(a, b) : disjunction(a, b);
    };
    if (auto compareOp = dyn_cast<arith::CmpIOp>(op))
      return visitCompare(compareOp, negated);
    if (isa<arith::AndIOp, arith::OrIOp>(op))
      return combine(isa<arith::AndIOp>(op), visit(op->getOperand(0), negated),
                     visit(op->getOperand(1), negated));
    if (auto notOp = dyn_cast<arith::XOrIOp>(op); notOp && matchPattern(notOp.getRhs(), m_One()))
      return visit(notOp.getLhs(), !negated);
    if (auto selectOp = dyn_cast<arith::SelectOp>(op)) {
      Value condition = selectOp.getCondition();
      KeyRange whenTrue =
          conjunction(visit(condition, false), visit(selectOp.getTrueValue(), negated));
      KeyRange whenFalse =
          conjunction(visit(condition, true), visit(selectOp.getFalseValue(), negated));
      return disjunction(whenTrue, whenFalse);
    }
    return unknown();
  }

  OpBuilder &builder;
  Location loc;
  Block &body;
  Value query, key;
  Value firstQuery, lastQuery, keyCount;
  IRMapping hoisted;
  DenseMap<Operation *, bool> uniform;
  DenseMap<Value, std::optional<Linear>> forms;
  DenseMap<Value, KeyRange> ranges[2]; // of a value, of its negation
};

} // namespace

KeyRange emitKeyRange(OpBuilder &builder, tile::MaskOp mask, Value rows) {
  return RangeEmitter(builder, mask, rows).emit();
}

} // namespace tesela
