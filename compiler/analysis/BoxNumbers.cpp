//===- BoxNumbers.cpp - Bounds of f32 values over a box ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/BoxValues.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;

namespace tesela {

std::optional<BoxNumbers> BoxValues::numbers(Value value, ColumnBox *box) {
  if (!dependsOnColumn(value))
    box = &outerBox;
  auto known = box->numbers.find(value);
  if (known != box->numbers.end())
    return known->second;
  std::optional<BoxNumbers> result = findNumbers(value, box);
  return box->numbers[value] = result;
}

namespace {
/// Operations on f32 bounds.
struct Ends {
  WideArithmetic &at;
  Value constant(float value) {
    return arith::ConstantFloatOp::create(at.builder, at.loc, at.builder.getF32Type(),
                                          APFloat(value));
  }
  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return at.builder.createOrFold<arith::CmpFOp>(at.loc, predicate, a, b);
  }
  Value isNaN(Value a) { return compare(arith::CmpFPredicate::UNO, a, a); }
  Value min(Value a, Value b) { return at.builder.createOrFold<arith::MinNumFOp>(at.loc, a, b); }
  Value max(Value a, Value b) { return at.builder.createOrFold<arith::MaxNumFOp>(at.loc, a, b); }
  /// The interval [low, high], or the unbounded interval if an end is NaN.
  BoxNumbers unlessNaN(Value low, Value high, Value mayBeNaN) {
    Value broken = at.either(isNaN(low), isNaN(high));
    float infinity = std::numeric_limits<float>::infinity();
    Value any = at.either(mayBeNaN, broken);
    return {at.select(any, constant(-infinity), low), at.select(any, constant(infinity), high),
            any};
  }
};
} // namespace

std::optional<BoxNumbers> BoxValues::findNumbers(Value value, ColumnBox *box) {
  WideArithmetic at(box->builder, wide.loc);
  Ends ends{at};
  using Result = std::optional<BoxNumbers>;
  if (isUniform(value)) {
    Value point = hoist(value);
    return ends.unlessNaN(point, point, at.truth(false));
  }
  Operation *op = value.getDefiningOp();
  if (!op) // the score itself
    return std::nullopt;
  auto operand = [&](unsigned index) { return numbers(op->getOperand(index), box); };
  // Combines the ends of x and y. If x op y can be NaN for infinities of both signs inside the
  // intervals, it is NaN for the ends, too.
  auto corners = [&](auto combine) -> Result {
    Result a = operand(0), b = operand(1);
    if (!a || !b)
      return std::nullopt;
    Value results[4];
    for (int i = 0; i < 4; ++i)
      results[i] = combine(i & 1 ? a->high : a->low, i & 2 ? b->high : b->low);
    Value mayBeNaN = at.either(a->mayBeNaN, b->mayBeNaN);
    Value low = results[0], high = results[0];
    for (int i = 0; i < 4; ++i) {
      Value isNaN = ends.isNaN(results[i]);
      mayBeNaN = at.either(mayBeNaN, isNaN);
      low = ends.min(low, results[i]);
      high = ends.max(high, results[i]);
    }
    return ends.unlessNaN(low, high, mayBeNaN);
  };
  return TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::SIToFPOp convert) -> Result {
        std::optional<BoxInterval> x = interval(convert.getIn(), box);
        if (!x)
          return std::nullopt;
        auto toFloat = [&](Value end) -> Value {
          return arith::SIToFPOp::create(at.builder, at.loc, at.builder.getF32Type(),
                                         at.narrow(end));
        };
        return BoxNumbers{toFloat(x->low), toFloat(x->high), at.truth(false)};
      })
      .Case([&](arith::AddFOp) {
        return corners([&](Value a, Value b) -> Value {
          return arith::AddFOp::create(at.builder, at.loc, a, b);
        });
      })
      .Case([&](arith::SubFOp) {
        return corners([&](Value a, Value b) -> Value {
          return arith::SubFOp::create(at.builder, at.loc, a, b);
        });
      })
      .Case([&](arith::MulFOp) -> Result {
        Result result = corners([&](Value a, Value b) -> Value {
          return arith::MulFOp::create(at.builder, at.loc, a, b);
        });
        // 0 inside one interval and an infinity at an end of the other give NaN, too.
        if (!result)
          return result;
        Value isInfinite = at.truth(false);
        for (unsigned index : {0u, 1u}) {
          Result x = operand(index);
          for (Value end : {x->low, x->high}) {
            Value magnitude = math::AbsFOp::create(at.builder, at.loc, end);
            Value infinite = ends.compare(arith::CmpFPredicate::OEQ, magnitude,
                                          ends.constant(std::numeric_limits<float>::infinity()));
            isInfinite = at.either(isInfinite, infinite);
          }
        }
        Value mayBeNaN = at.either(result->mayBeNaN, isInfinite);
        return ends.unlessNaN(result->low, result->high, mayBeNaN);
      })
      .Case([&](arith::NegFOp) -> Result {
        Result x = operand(0);
        if (!x)
          return std::nullopt;
        auto negated = [&](Value end) -> Value {
          return arith::NegFOp::create(at.builder, at.loc, end);
        };
        return BoxNumbers{negated(x->high), negated(x->low), x->mayBeNaN};
      })
      .Case([&](math::AbsFOp) -> Result {
        Result x = operand(0);
        if (!x)
          return std::nullopt;
        Value zero = ends.constant(0);
        Value negated = arith::NegFOp::create(at.builder, at.loc, x->low);
        return BoxNumbers{
            ends.max(ends.max(x->low, arith::NegFOp::create(at.builder, at.loc, x->high)), zero),
            ends.max(negated, x->high), x->mayBeNaN};
      })
      .Case([&](math::FloorOp) -> Result {
        Result x = operand(0);
        if (!x)
          return std::nullopt;
        auto floored = [&](Value end) -> Value {
          return math::FloorOp::create(at.builder, at.loc, end);
        };
        return BoxNumbers{floored(x->low), floored(x->high), x->mayBeNaN};
      })
      .Case([&](arith::SelectOp) -> Result {
        Result a = operand(1), b = operand(2);
        if (!a || !b)
          return std::nullopt;
        return BoxNumbers{ends.min(a->low, b->low), ends.max(a->high, b->high),
                          at.either(a->mayBeNaN, b->mayBeNaN)};
      })
      .Case([&](tile::ReadOp read) -> Result {
        std::optional<std::pair<Value, Value>> bounds = readBounds(read, box);
        if (!bounds)
          return std::nullopt;
        return ends.unlessNaN(bounds->first, bounds->second, at.truth(false));
      })
      .Default([&](Operation *) -> Result {
        lose(op, "the compiler computes no bounds of this operation");
        return std::nullopt;
      });
}

BoxTruth BoxValues::compareNumbers(arith::CmpFOp op, ColumnBox *box) {
  WideArithmetic at(box->builder, wide.loc);
  std::optional<BoxNumbers> a = numbers(op.getLhs(), box), b = numbers(op.getRhs(), box);
  if (!a || !b)
    return {};
  Ends ends{at};
  Value mayBeNaN = at.either(a->mayBeNaN, b->mayBeNaN);
  using Predicate = arith::CmpFPredicate;
  // x < y (or x <= y): for some pair, for all pairs. It is false for a NaN.
  auto below = [&](BoxNumbers x, BoxNumbers y, Predicate predicate) -> BoxTruth {
    Value always = ends.compare(predicate, x.high, y.low);
    return {ends.compare(predicate, x.low, y.high), at.either(mayBeNaN, at.inverse(always))};
  };
  switch (op.getPredicate()) {
  case Predicate::OLT:
  case Predicate::OLE:
    return below(*a, *b, op.getPredicate());
  case Predicate::OGT:
    return below(*b, *a, Predicate::OLT);
  case Predicate::OGE:
    return below(*b, *a, Predicate::OLE);
  case Predicate::OEQ:
  case Predicate::UNE: {
    Value meet = at.both(ends.compare(Predicate::OLE, a->low, b->high),
                         ends.compare(Predicate::OLE, b->low, a->high));
    Value areEqual = at.both(ends.compare(Predicate::OEQ, a->low, b->high),
                             ends.compare(Predicate::OEQ, a->high, b->low));
    BoxTruth result{meet, at.either(mayBeNaN, at.inverse(areEqual))};
    if (op.getPredicate() == Predicate::UNE)
      std::swap(result.mayBeTrue, result.mayBeFalse);
    return result;
  }
  default:
    return {};
  }
}

} // namespace tesela
