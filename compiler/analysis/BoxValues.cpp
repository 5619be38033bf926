//===- BoxValues.cpp - Bounds of a hook's values over a box -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/BoxValues.h"

#include "analysis/UsedValues.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;

namespace tesela {

static constexpr int64_t leastInteger = std::numeric_limits<int32_t>::min(),
                         mostInteger = std::numeric_limits<int32_t>::max();

std::optional<MinMax> matchMinMax(Value value) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  auto compare = select ? select.getCondition().getDefiningOp<arith::CmpIOp>() : nullptr;
  if (!compare || compare.getLhs() != select.getTrueValue() ||
      compare.getRhs() != select.getFalseValue())
    return std::nullopt;
  bool isMin = compare.getPredicate() == arith::CmpIPredicate::slt;
  if (!isMin && compare.getPredicate() != arith::CmpIPredicate::sgt)
    return std::nullopt;
  return MinMax{isMin, select.getFalseValue(), select.getTrueValue()};
}

static std::optional<int64_t> constantOf(Value value) {
  APInt number;
  if (!matchPattern(value, m_ConstantInt(&number)))
    return std::nullopt;
  return number.getSExtValue();
}

static bool isPoint(BoxInterval a) { return a.low == a.high; }

BoxValues::BoxValues(OpBuilder &outer, Location loc, Block &body, const BoxFrame &frame)
    : frame(frame), wide(outer, loc), body(body), outerBox{outer, Value(), Value(), 0} {
  // The first argument of a score's hook is the score; the last five are b, h, hkv, q and k.
  auto arguments = body.getArguments().take_back(5);
  hoisted.map(arguments[0], frame.batch);
  if (frame.lastHead)
    heads = arguments[1];
  else
    hoisted.map(arguments[1], frame.head);
  hoisted.map(arguments[2], frame.kvHead);
  bool rowsAreQueries = frame.axis == tile::Axis::Query;
  row = arguments[rowsAreQueries ? 3 : 4];
  column = arguments[rowsAreQueries ? 4 : 3];
}

//===----------------------------------------------------------------------===//
// Dependencies of a value
//===----------------------------------------------------------------------===//

BoxValues::Dependence BoxValues::dependence(Value value) {
  if (value == column || (body.getNumArguments() == 6 && value == body.getArgument(0)))
    return Dependence::column;
  if (value == row || value == heads)
    return Dependence::row;
  Operation *op = value.getDefiningOp();
  if (reductionOf(value)) // an index: in each box it takes every value of its interval
    return Dependence::row;
  if (!op || !body.getParent()->isAncestor(op->getParentRegion())) // b h hkv, values from outside
    return Dependence::none;
  auto [known, inserted] = dependences.try_emplace(op, Dependence::none);
  if (!inserted)
    return known->second;
  Dependence result = Dependence::none;
  for (Value each : valuesUsedBy(*op))
    result = std::max(result, dependence(each));
  return dependences[op] = result;
}

attn::ReduceOp BoxValues::reductionOf(Value index) {
  auto argument = dyn_cast<BlockArgument>(index);
  return argument ? dyn_cast<attn::ReduceOp>(argument.getOwner()->getParentOp()) : nullptr;
}

Value BoxValues::hoist(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && body.getParent()->isAncestor(op->getParentRegion()) && !hoisted.contains(value)) {
    for (Value each : valuesUsedBy(*op))
      hoist(each);
    wide.builder.clone(*op, hoisted);
  }
  return hoisted.lookupOrDefault(value);
}

void BoxValues::lose(Operation *op, StringRef reason) {
  lost.push_back({op->getLoc(), reason.str()});
}

//===----------------------------------------------------------------------===//
// Linear forms
//===----------------------------------------------------------------------===//

std::optional<LinearForm> BoxValues::linear(Value value) {
  auto known = forms.find(value);
  if (known != forms.end())
    return known->second;
  std::optional<LinearForm> form = findLinear(value);
  forms.try_emplace(value, form);
  return form;
}

BoxInterval BoxValues::rowTerm(int64_t factor) {
  Value a = wide.times(factor, frame.firstRow), b = wide.times(factor, frame.lastRow);
  return factor >= 0 ? BoxInterval{a, b} : BoxInterval{b, a};
}

static BoxInterval sum(WideArithmetic &at, BoxInterval a, BoxInterval b) {
  Value low = at.add(a.low, b.low);
  return {low, isPoint(a) && isPoint(b) ? low : at.add(a.high, b.high)};
}

static BoxInterval negated(WideArithmetic &at, BoxInterval a) {
  Value low = at.negate(a.high);
  return {low, isPoint(a) ? low : at.negate(a.low)};
}

/// factor · a, for a factor > 0.
static BoxInterval scaled(WideArithmetic &at, int64_t factor, BoxInterval a) {
  Value low = at.times(factor, a.low);
  return {low, isPoint(a) ? low : at.times(factor, a.high)};
}

/// ⌊x / divisor⌋ as an i64, for an x inside i32, as the kernel computes it.
static Value floorDivide(WideArithmetic &at, Value x, Value divisor) {
  Value narrow = at.narrow(x);
  return at.wide(attn::FloorDivOp::create(at.builder, at.loc, narrow.getType(), narrow, divisor));
}

BoxInterval BoxValues::boundsOf(const LinearForm &form, WideArithmetic &at, Value first,
                                Value last) {
  BoxInterval bounds = form.offset;
  if (form.row)
    bounds = sum(at, bounds, rowTerm(form.row));
  if (!first) {
    first = wide.constant(0);
    last = wide.max(wide.add(frame.columnCount, -1), wide.constant(0));
  }
  if (form.column) {
    Value a = at.times(form.column, first), b = at.times(form.column, last);
    bounds = sum(at, bounds, form.column > 0 ? BoxInterval{a, b} : BoxInterval{b, a});
  }
  if (attn::FloorDivOp op = form.quotient) {
    // findLinear has checked that the operand is linear and the divisor uniform. If the divisor is
    // not positive, `fits` is false, and these ends are not used.
    BoxInterval x = boundsOf(*linear(op.getLhs()), at, first, last);
    Value least = at.constant(leastInteger), most = at.constant(mostInteger);
    Value divisor = hoist(op.getRhs());
    Value a = floorDivide(at, at.max(x.low, least), divisor),
          b = floorDivide(at, at.min(x.high, most), divisor);
    BoxInterval quotient{a, b};
    bounds = sum(at, bounds, form.quotientSign > 0 ? quotient : negated(at, quotient));
  }
  return bounds;
}

std::optional<LinearForm> BoxValues::difference(const LinearForm &a, const LinearForm &b) {
  LinearForm form{a - b,
                  sum(wide, a.offset, negated(wide, b.offset)),
                  wide.both(a.fits, b.fits),
                  a.quotient ? a.quotient : b.quotient,
                  a.quotient ? a.quotientSign : -b.quotientSign,
                  a.least - b.most,
                  a.most - b.least};
  if (a.quotient && b.quotient) {
    Operation *left = a.quotient, *right = b.quotient;
    if (left != right || a.quotientSign != b.quotientSign)
      return std::nullopt;
    form.quotient = {};
    form.quotientSign = 0;
  }
  return form.isSmall() ? std::optional(form) : std::nullopt;
}

std::optional<LinearForm> BoxValues::findLinear(Value value) {
  Value nothing = wide.constant(0);
  BoxInterval zero{nothing, nothing};
  if (value == row)
    return LinearForm{{1, 0}, zero, {}, {}, 0, 0, mostInteger};
  if (value == column)
    return LinearForm{{0, 1}, zero, {}, {}, 0, 0, mostInteger};
  if (value == heads)
    return LinearForm{{}, {wide.wide(frame.head), frame.lastHead}, {}, {}, 0, 0, mostInteger};
  if (attn::ReduceOp reduce = reductionOf(value)) { // from 0 to bound - 1; 0 if there is no round
    Value last = wide.max(wide.add(wide.wide(hoist(reduce.getBound())), -1), nothing);
    return LinearForm{{}, {nothing, last}, {}, {}, 0, 0, mostInteger};
  }
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number))) {
    int64_t n = number.getSExtValue();
    Value point = wide.constant(n);
    return LinearForm{{}, {point, point}, {}, {}, 0, n, n};
  }
  if (isUniform(value)) {
    Value point = wide.wide(hoist(value));
    bool isExtent =
        llvm::isa_and_present<tile::ExtentOp, tile::ViewExtentOp>(value.getDefiningOp());
    return LinearForm{{}, {point, point}, {}, {}, 0, isExtent ? 0 : leastInteger, mostInteger};
  }

  Operation *op = value.getDefiningOp();
  std::optional<LinearForm> form;
  if (isa<arith::AddIOp, arith::SubIOp>(op)) {
    std::optional<LinearForm> a = linear(op->getOperand(0)), b = linear(op->getOperand(1));
    if (a && b && isa<arith::AddIOp>(op)) {
      LinearForm opposite{*b * -1,     negated(wide, b->offset), b->fits,
                          b->quotient, -b->quotientSign,         -b->most,
                          -b->least};
      form = difference(*a, opposite);
    } else if (a && b) {
      form = difference(*a, *b);
    }
  } else if (isa<arith::MulIOp>(op)) {
    Value factor = op->getOperand(0), other = op->getOperand(1);
    if (!matchPattern(factor, m_ConstantInt(&number)))
      std::swap(factor, other);
    std::optional<LinearForm> a;
    if (matchPattern(factor, m_ConstantInt(&number)) && number.getSExtValue() > 0 &&
        number.getSExtValue() <= ElementMultiples::largest)
      a = linear(other);
    if (a && !a->quotient) {
      int64_t n = number.getSExtValue();
      form =
          LinearForm{*a * n, scaled(wide, n, a->offset), a->fits, {}, 0, n * a->least, n * a->most};
      if (!form->isSmall())
        form.reset();
    }
  } else if (auto divide = dyn_cast<attn::FloorDivOp>(op); divide && dependsOnColumn(value)) {
    std::optional<LinearForm> x = linear(divide.getLhs());
    if (x && x->column && !x->quotient && isUniform(divide.getRhs())) {
      Value divisor = wide.wide(hoist(divide.getRhs()));
      Value isPositive = wide.lessEqual(wide.constant(1), divisor);
      return LinearForm{{},           zero,       wide.both(x->fits, isPositive), divide, 1,
                        leastInteger, mostInteger};
    }
  }
  if (!form) {
    // A value that does not depend on the column is an offset, even if it is not linear.
    std::optional<BoxInterval> bounds;
    if (!dependsOnColumn(value))
      bounds = findInterval(value, &outerBox);
    if (!bounds)
      return std::nullopt;
    return LinearForm{{}, *bounds, {}, {}, 0, leastInteger, mostInteger};
  }
  if (form->least < leastInteger || form->most > mostInteger) {
    BoxInterval bounds = boundsOf(*form, wide, {}, {});
    Value fits = wide.both(wide.lessEqual(wide.constant(leastInteger), bounds.low),
                           wide.lessEqual(bounds.high, wide.constant(mostInteger)));
    form->fits = wide.both(form->fits, fits);
    form->least = leastInteger;
    form->most = mostInteger;
  }
  return form;
}

//===----------------------------------------------------------------------===//
// i32
//===----------------------------------------------------------------------===//

std::optional<BoxInterval> BoxValues::interval(Value value, ColumnBox *box) {
  if (!dependsOnColumn(value))
    box = &outerBox;
  assert(box && "a value that depends on the column needs columns");
  auto known = box->intervals.find(value);
  if (known != box->intervals.end())
    return known->second;
  std::optional<BoxInterval> result;
  if (std::optional<LinearForm> form = linear(value)) {
    WideArithmetic at(box->builder, wide.loc);
    result = boundsOf(*form, at, box->first, box->last);
    if (form->fits)
      result = BoxInterval{at.select(form->fits, result->low, at.constant(leastInteger)),
                           at.select(form->fits, result->high, at.constant(mostInteger))};
  } else {
    result = findInterval(value, box);
  }
  return box->intervals[value] = result;
}

/// The interval of a value that is not linear.
std::optional<BoxInterval> BoxValues::findInterval(Value value, ColumnBox *box) {
  WideArithmetic at(box->builder, wide.loc);
  Operation *op = value.getDefiningOp();
  Value least = at.constant(leastInteger), most = at.constant(mostInteger);
  auto operand = [&](unsigned index) { return interval(op->getOperand(index), box); };
  auto unlessWrapping = [&](BoxInterval result) {
    Value fits = at.both(at.lessEqual(least, result.low), at.lessEqual(result.high, most));
    return BoxInterval{at.select(fits, result.low, least), at.select(fits, result.high, most)};
  };
  auto where = [&](Value condition, BoxInterval result) {
    return BoxInterval{at.select(condition, result.low, least),
                       at.select(condition, result.high, most)};
  };
  using Result = std::optional<BoxInterval>;
  return TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::AddIOp) -> Result {
        Result a = operand(0), b = operand(1);
        return a && b ? Result(unlessWrapping(sum(at, *a, *b))) : std::nullopt;
      })
      .Case([&](arith::SubIOp) -> Result {
        Result a = operand(0), b = operand(1);
        if (!a || !b)
          return std::nullopt;
        return unlessWrapping({at.subtract(a->low, b->high), at.subtract(a->high, b->low)});
      })
      .Case([&](arith::MulIOp) -> Result {
        Result a = operand(0), b = operand(1);
        if (!a || !b)
          return std::nullopt;
        Value ends[] = {at.multiply(a->low, b->low), at.multiply(a->low, b->high),
                        at.multiply(a->high, b->low), at.multiply(a->high, b->high)};
        return unlessWrapping({at.min(at.min(ends[0], ends[1]), at.min(ends[2], ends[3])),
                               at.max(at.max(ends[0], ends[1]), at.max(ends[2], ends[3]))});
      })
      .Case([&](attn::FloorDivOp divide) -> Result {
        Result x = operand(0);
        if (!x || !isUniform(divide.getRhs())) {
          if (x)
            lose(op, "the divisor varies within a tile");
          return std::nullopt;
        }
        Value divisor = hoist(divide.getRhs());
        Value isPositive = at.lessEqual(at.constant(1), at.wide(divisor));
        return where(isPositive,
                     {floorDivide(at, x->low, divisor), floorDivide(at, x->high, divisor)});
      })
      .Case([&](attn::FloorModOp divide) -> Result {
        Result x = operand(0);
        if (!x || !isUniform(divide.getRhs())) {
          if (x)
            lose(op, "the divisor varies within a tile");
          return std::nullopt;
        }
        if (takesEveryRemainder(divide, box))
          return BoxInterval{at.constant(0), at.constant(*constantOf(divide.getRhs()) - 1)};
        Value divisor = hoist(divide.getRhs()), wideDivisor = at.wide(divisor);
        Value a = floorDivide(at, x->low, divisor), b = floorDivide(at, x->high, divisor);
        Value oneQuotient = at.equal(a, b);
        Value before = at.multiply(a, wideDivisor);
        BoxInterval result{
            at.select(oneQuotient, at.subtract(x->low, before), at.constant(0)),
            at.select(oneQuotient, at.subtract(x->high, before), at.add(wideDivisor, -1))};
        return where(at.lessEqual(at.constant(1), wideDivisor), result);
      })
      .Case([&](arith::SelectOp select) -> Result {
        if (std::optional<MinMax> extreme = matchMinMax(value)) {
          Result a = interval(extreme->a, box), b = interval(extreme->b, box);
          if (!a || !b)
            return std::nullopt;
          if (extreme->isMin)
            return BoxInterval{at.min(a->low, b->low), at.min(a->high, b->high)};
          return BoxInterval{at.max(a->low, b->low), at.max(a->high, b->high)};
        }
        Result a = operand(1), b = operand(2);
        if (!a || !b)
          return std::nullopt;
        BoxTruth test = truth(select.getCondition(), box);
        BoxInterval hull{at.min(a->low, b->low), at.max(a->high, b->high)};
        auto choose = [&](Value hull, Value a, Value b) {
          Value unlessFalse = test.mayBeTrue ? at.select(test.mayBeTrue, hull, b) : hull;
          return test.mayBeFalse ? at.select(test.mayBeFalse, unlessFalse, a) : unlessFalse;
        };
        return BoxInterval{choose(hull.low, a->low, b->low), choose(hull.high, a->high, b->high)};
      })
      .Case([&](attn::ToIntOp convert) -> Result {
        std::optional<BoxNumbers> x = numbers(convert.getOperand(), box);
        if (!x)
          return std::nullopt;
        auto toInt = [&](Value end) {
          return at.wide(attn::ToIntOp::create(at.builder, at.loc, at.builder.getI32Type(), end));
        };
        return where(at.inverse(x->mayBeNaN), {toInt(x->low), toInt(x->high)});
      })
      .Case([&](attn::ReduceOp reduce) -> Result {
        Result each = interval(reduce.getBody().front().getTerminator()->getOperand(0), box);
        if (!each)
          return std::nullopt;
        Value count = at.max(at.wide(hoist(reduce.getBound())), at.constant(0));
        return unlessWrapping({at.multiply(count, each->low), at.multiply(count, each->high)});
      })
      .Case([&](tile::ReadOp read) -> Result {
        std::optional<std::pair<Value, Value>> ends = readBounds(read, box);
        if (!ends)
          return std::nullopt;
        return BoxInterval{at.wide(ends->first), at.wide(ends->second)};
      })
      .Default([&](Operation *) -> Result {
        lose(op, "the compiler computes no bounds of this operation");
        return std::nullopt;
      });
}

/// Whether a box with the full number of columns takes every remainder. Then only a narrower box
/// could have a smaller interval than [0, C - 1].
bool BoxValues::takesEveryRemainder(attn::FloorModOp op, ColumnBox *box) {
  std::optional<int64_t> divisor = constantOf(op.getRhs());
  std::optional<LinearForm> form = linear(op.getLhs());
  return divisor && *divisor > 0 && *divisor <= box->count && form && !form->quotient &&
         std::abs(form->column) == 1;
}

BoxValues::ReadBox BoxValues::boxOf(tile::ReadOp read, ColumnBox *box) {
  WideArithmetic at(box->builder, wide.loc);
  ReadBox result;
  auto &[low, high, within] = result;
  for (Value index : read.getIndices()) {
    if (isUniform(index)) {
      low.push_back(hoist(index));
      high.push_back(low.back());
      within.push_back(1);
      continue;
    }
    std::optional<BoxInterval> ends = interval(index, box);
    if (!ends) // nothing known: any element of the axis
      ends = BoxInterval{at.constant(leastInteger), at.constant(mostInteger)};
    low.push_back(at.narrow(ends->low));
    high.push_back(at.narrow(ends->high));
    std::optional<LinearForm> form = linear(index);
    bool steps = form && !form->quotient && !form->fits && isPoint(form->offset) &&
                 std::abs(form->row) + std::abs(form->column) == 1;
    within.push_back(!steps ? 0 : form->column ? box->count : frame.rows);
  }
  return result;
}

/// The bounds of a read, in the element's type.
std::optional<std::pair<Value, Value>> BoxValues::readBounds(tile::ReadOp read, ColumnBox *box) {
  WideArithmetic at(box->builder, wide.loc);
  auto [low, high, within] = boxOf(read, box);
  Type type = read.getElement().getType();
  auto bounds = tile::BoundsOp::create(at.builder, read.getLoc(), type, type, read.getView(), low,
                                       high, within);
  return std::pair<Value, Value>(bounds.getLeast(), bounds.getLargest());
}

//===----------------------------------------------------------------------===//
// bool
//===----------------------------------------------------------------------===//

BoxTruth BoxValues::truth(Value value, ColumnBox *box) {
  if (!dependsOnColumn(value))
    box = &outerBox;
  auto known = box->truths.find(value);
  if (known != box->truths.end())
    return known->second;
  BoxTruth result = findTruth(value, box);
  return box->truths[value] = result;
}

BoxTruth BoxValues::findTruth(Value value, ColumnBox *box) {
  WideArithmetic at(box->builder, wide.loc);
  if (isUniform(value)) {
    Value point = hoist(value);
    return {point, at.inverse(point)};
  }
  auto both = [&](BoxTruth a, BoxTruth b) -> BoxTruth {
    return {at.both(a.mayBeTrue, b.mayBeTrue), at.either(a.mayBeFalse, b.mayBeFalse)};
  };
  auto opposite = [](BoxTruth a) -> BoxTruth { return {a.mayBeFalse, a.mayBeTrue}; };
  auto either = [&](BoxTruth a, BoxTruth b) { return opposite(both(opposite(a), opposite(b))); };
  auto differ = [&](BoxTruth a, BoxTruth b) {
    return either(both(a, opposite(b)), both(opposite(a), b));
  };
  Operation *op = value.getDefiningOp();
  auto operand = [&](unsigned index) { return truth(op->getOperand(index), box); };
  return TypeSwitch<Operation *, BoxTruth>(op)
      .Case([&](arith::AndIOp) { return both(operand(0), operand(1)); })
      .Case([&](arith::OrIOp) { return either(operand(0), operand(1)); })
      .Case([&](arith::XOrIOp) { return differ(operand(0), operand(1)); })
      .Case([&](arith::SelectOp) {
        BoxTruth test = operand(0);
        return either(both(test, operand(1)), both(opposite(test), operand(2)));
      })
      .Case([&](arith::CmpIOp compare) {
        if (compare.getLhs().getType().isInteger(1)) {
          BoxTruth different = differ(operand(0), operand(1));
          bool isNotEqual = compare.getPredicate() == arith::CmpIPredicate::ne;
          return isNotEqual ? different : opposite(different);
        }
        return compareIntegers(compare, box);
      })
      .Case([&](arith::CmpFOp compare) { return compareNumbers(compare, box); })
      .Case([&](attn::ReduceOp reduce) -> BoxTruth {
        BoxTruth each = truth(reduce.getBody().front().getTerminator()->getOperand(0), box);
        Value hasRounds = at.lessEqual(at.constant(1), at.wide(hoist(reduce.getBound())));
        if (reduce.getKind() == attn::Reduction::Any)
          return {at.both(hasRounds, each.mayBeTrue),
                  at.either(at.inverse(hasRounds), each.mayBeFalse)};
        return {at.either(at.inverse(hasRounds), each.mayBeTrue),
                at.both(hasRounds, each.mayBeFalse)};
      })
      .Default([&](Operation *) {
        lose(op, "the compiler computes no bounds of this condition");
        return BoxTruth{};
      });
}

/// Whether an element that the rounds of a reduction read may be equal to `other`. Null if `value`
/// is not such a read.
Value BoxValues::mayRoundsMeet(Value value, Value other, ColumnBox *box) {
  auto read = value.getDefiningOp<tile::ReadOp>();
  if (!read || !read->getParentOfType<attn::ReduceOp>())
    return {};
  std::optional<BoxInterval> ends = interval(other, box);
  if (!ends)
    return {};
  WideArithmetic at(box->builder, wide.loc);
  ReadBox elements = boxOf(read, box);
  return tile::HasElementOp::create(at.builder, read.getLoc(), at.builder.getI1Type(),
                                    read.getView(), elements.low, elements.high,
                                    at.narrow(ends->low), at.narrow(ends->high));
}

BoxTruth BoxValues::compareIntegers(arith::CmpIOp op, ColumnBox *box) {
  WideArithmetic at(box->builder, wide.loc);
  for (auto [read, other] : {std::pair(op.getLhs(), op.getRhs()), {op.getRhs(), op.getLhs()}}) {
    bool isEquality = op.getPredicate() == arith::CmpIPredicate::eq ||
                      op.getPredicate() == arith::CmpIPredicate::ne;
    Value mayMeet = isEquality ? mayRoundsMeet(read, other, box) : Value();
    if (mayMeet && op.getPredicate() == arith::CmpIPredicate::eq)
      return {mayMeet, Value()};
    if (mayMeet)
      return {Value(), mayMeet};
  }
  std::optional<BoxInterval> bounds; // of left - right
  std::optional<LinearForm> a = linear(op.getLhs()), b = linear(op.getRhs()), form;
  if (a && b)
    form = difference(*a, *b);
  if (form)
    bounds = boundsOf(*form, at, box->first, box->last);
  if (!bounds) {
    std::optional<BoxInterval> left = interval(op.getLhs(), box),
                               right = interval(op.getRhs(), box);
    if (!left || !right)
      return {};
    bounds = BoxInterval{at.subtract(left->low, right->high), at.subtract(left->high, right->low)};
  }
  Value zero = at.constant(0);
  auto below = [&](BoxInterval d, bool orEqual) -> BoxTruth { // d < 0, d <= 0
    Value limit = orEqual ? zero : at.constant(-1);
    return {at.lessEqual(d.low, limit), at.inverse(at.lessEqual(d.high, limit))};
  };
  BoxInterval opposite = negated(at, *bounds);
  using Predicate = arith::CmpIPredicate;
  BoxTruth result;
  switch (op.getPredicate()) {
  case Predicate::slt:
  case Predicate::sle:
    result = below(*bounds, op.getPredicate() == Predicate::sle);
    break;
  case Predicate::sgt:
  case Predicate::sge:
    result = below(opposite, op.getPredicate() == Predicate::sge);
    break;
  case Predicate::eq:
  case Predicate::ne: {
    Value mayBeEqual = at.both(at.lessEqual(bounds->low, zero), at.lessEqual(zero, bounds->high));
    Value isEqual = at.both(at.equal(bounds->low, zero), at.equal(bounds->high, zero));
    result = {mayBeEqual, at.inverse(isEqual)};
    if (op.getPredicate() == Predicate::ne)
      std::swap(result.mayBeTrue, result.mayBeFalse);
    break;
  }
  default: // the language has no unsigned comparison
    return {};
  }
  if (form && form->fits) {
    Value wraps = at.inverse(form->fits);
    result.mayBeTrue = at.either(result.mayBeTrue, wraps);
    result.mayBeFalse = at.either(result.mayBeFalse, wraps);
  }
  return result;
}

} // namespace tesela
