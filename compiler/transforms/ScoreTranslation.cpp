//===- ScoreTranslation.cpp -----------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/ScoreTranslation.h"

#include "analysis/UsedValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;

namespace tesela {

Value ScoreTranslation::number(Location loc, float value) {
  return arith::ConstantFloatOp::create(uniforms, loc, uniforms.getF32Type(), APFloat(value));
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

std::optional<Position> ScoreTranslation::position(Value value) {
  if (auto found = positions.find(value); found != positions.end())
    return found->second;
  if (isUniform(value))
    return Position(uniform.lookupOrDefault(value));
  return std::nullopt;
}

std::optional<ScoreTranslation::Range> ScoreTranslation::range(Value value) {
  if (auto found = ranges.find(value); found != ranges.end())
    return found->second;
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return Range{constant.getSExtValue(), constant.getSExtValue()};
  return std::nullopt;
}

void ScoreTranslation::translateInteger(Operation &op) {
  SmallVector<Position> operands;
  SmallVector<Range> spans;
  for (Value operand : op.getOperands()) {
    std::optional<Position> known = position(operand);
    if (!known)
      return;
    operands.push_back(*known);
    if (std::optional<Range> span = range(operand))
      spans.push_back(*span);
  }
  std::optional<Position> result = combinePositions(op, operands, uniforms);
  if (!result)
    return;
  positions[op.getResult(0)] = *result;
  if (spans.size() != 2 || !isa<arith::AddIOp, arith::SubIOp>(op))
    return;
  auto [a, b] = std::pair(spans[0], spans[1]);
  Range span = isa<arith::AddIOp>(op) ? Range{a.low + b.low, a.high + b.high}
                                      : Range{a.low - b.high, a.high - b.low};
  if (span.low >= std::numeric_limits<int32_t>::min() &&
      span.high <= std::numeric_limits<int32_t>::max())
    ranges[op.getResult(0)] = span;
}

/// row · i + column · j of the element. `position` must depend on the row or the column.
Value ScoreTranslation::offsetOf(const Position &position, Location loc) {
  auto times = [&](Value value, int64_t factor) -> Value {
    Value constant = arith::ConstantIntOp::create(body, loc, factor, 32);
    return body.createOrFold<arith::MulIOp>(loc, value, constant);
  };
  if (position.row == 0)
    return times(column, position.column);
  if (position.column == 0)
    return times(row, position.row);
  if (position.row < 0)
    return arith::SubIOp::create(body, loc, times(column, position.column),
                                 times(row, -position.row));
  if (position.column < 0)
    return arith::SubIOp::create(body, loc, times(row, position.row),
                                 times(column, -position.column));
  return arith::AddIOp::create(body, loc, times(row, position.row), times(column, position.column));
}

/// float(base) + float(row · i + column · j). The second term is exact, so targets may reassociate
/// the sum of its parts with the first (reassoc).
Value ScoreTranslation::toFloat(const Position &position, Location loc) {
  Type f32 = body.getF32Type();
  Value moved = arith::SIToFPOp::create(body, loc, f32, offsetOf(position, loc));
  if (!position.base)
    return moved;
  Value base = arith::SIToFPOp::create(uniforms, loc, f32, position.base);
  return arith::AddFOp::create(body, loc, base, moved, arith::FastMathFlags::reassoc);
}

/// Returns x if `value` is max(x, -x), which is the form of the language's abs; otherwise null.
static Value absoluteOf(Value value) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  auto compare = select ? select.getCondition().getDefiningOp<arith::CmpIOp>() : nullptr;
  auto negated = select ? select.getTrueValue().getDefiningOp<arith::SubIOp>() : nullptr;
  if (!compare || !negated || !matchPattern(negated.getLhs(), m_Zero()))
    return {};
  Value x = negated.getRhs();
  bool isMaximum = select.getFalseValue() == x && compare.getLhs() == negated.getResult() &&
                   compare.getRhs() == x && compare.getPredicate() == arith::CmpIPredicate::sgt;
  return isMaximum ? x : Value();
}

std::optional<Linear> ScoreTranslation::fromInteger(Value source, Location loc) {
  auto wrapsNowhere = [&](Value value) {
    std::optional<Position> known = position(value);
    return known && !known->isUniform() && range(value);
  };
  if (wrapsNowhere(source))
    return Linear{{{Value(), toFloat(*position(source), loc)}}, Value()};
  if (Value x = absoluteOf(source); x && wrapsNowhere(x)) {
    Value magnitude = math::AbsFOp::create(body, loc, toFloat(*position(x), loc));
    return Linear{{{Value(), magnitude}}, Value()};
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Normal forms
//===----------------------------------------------------------------------===//

Linear ScoreTranslation::scaled(const Linear &form, Value factor) {
  auto times = [&](Value value) -> Value {
    return value ? uniforms.createOrFold<arith::MulFOp>(factor.getLoc(), value, factor) : factor;
  };
  Linear result;
  for (const Linear::Term &term : form.terms)
    result.terms.push_back({times(term.coefficient), term.value});
  if (form.constant)
    result.constant = times(form.constant);
  return result;
}

Linear ScoreTranslation::sum(const Linear &a, const Linear &b, Location loc) {
  auto add = [&](Value x, Value y) -> Value {
    return uniforms.createOrFold<arith::AddFOp>(loc, x, y);
  };
  auto coefficientOf = [&](const Linear::Term &term) {
    return term.coefficient ? term.coefficient : number(loc, 1);
  };
  Linear result = a;
  for (const Linear::Term &term : b.terms) {
    Linear::Term *same =
        llvm::find_if(result.terms, [&](Linear::Term &t) { return t.value == term.value; });
    if (same == result.terms.end())
      result.terms.push_back(term);
    else
      same->coefficient = add(coefficientOf(*same), coefficientOf(term));
  }
  if (b.constant)
    result.constant = a.constant ? add(a.constant, b.constant) : b.constant;
  return result;
}

Linear ScoreTranslation::linear(Value value) {
  if (auto found = forms.find(value); found != forms.end())
    return found->second;
  if (isUniform(value))
    return Linear{{}, uniform.lookupOrDefault(value)};
  return Linear{{{Value(), element(value)}}, Value()};
}

std::optional<Linear> ScoreTranslation::floatArithmetic(Operation &op) {
  Location loc = op.getLoc();
  using Form = std::optional<Linear>;
  if (exact)
    return std::nullopt;
  return TypeSwitch<Operation *, Form>(&op)
      .Case([&](arith::AddFOp add) -> Form {
        return sum(linear(add.getLhs()), linear(add.getRhs()), loc);
      })
      .Case([&](arith::SubFOp subtract) -> Form {
        Linear negated = scaled(linear(subtract.getRhs()), number(loc, -1));
        return sum(linear(subtract.getLhs()), negated, loc);
      })
      .Case([&](arith::NegFOp negate) -> Form {
        return scaled(linear(negate.getOperand()), number(loc, -1));
      })
      .Case([&](arith::MulFOp multiply) -> Form {
        Value a = multiply.getLhs(), b = multiply.getRhs();
        if (!isUniform(a) && !isUniform(b))
          return std::nullopt;
        if (!isUniform(b))
          std::swap(a, b);
        return scaled(linear(a), uniform.lookupOrDefault(b));
      })
      .Case([&](arith::DivFOp divide) -> Form {
        if (!isUniform(divide.getRhs()))
          return std::nullopt;
        Value divisor = uniform.lookupOrDefault(divide.getRhs());
        Value inverse = uniforms.createOrFold<arith::DivFOp>(loc, number(loc, 1), divisor);
        return scaled(linear(divide.getLhs()), inverse);
      })
      .Case([&](arith::SIToFPOp convert) { return fromInteger(convert.getIn(), loc); })
      .Default([](Operation *) { return Form(); });
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// Elements on one diagonal share the sums of positions, so the product of Q and K is added last.
/// But if the sum is c · v + product, the product comes first: that is one fma.
Value ScoreTranslation::element(const Linear &form) {
  SmallVector<Linear::Term> terms = form.terms;
  std::stable_partition(terms.begin(), terms.end(),
                        [&](const Linear::Term &term) { return term.value != product; });
  if (terms.size() == 2 && !form.constant && terms[0].coefficient && !terms[1].coefficient)
    std::swap(terms[0], terms[1]);
  Value result = form.constant;
  for (const Linear::Term &term : terms) {
    Location loc = term.value.getLoc();
    if (!result && !term.coefficient)
      result = term.value;
    else if (!result)
      result = arith::MulFOp::create(body, loc, term.coefficient, term.value);
    else if (!term.coefficient)
      result = arith::AddFOp::create(body, loc, term.value, result);
    else
      result = math::FmaOp::create(body, loc, term.coefficient, term.value, result);
  }
  return result;
}

Value ScoreTranslation::element(Value value) {
  if (isUniform(value))
    return uniform.lookupOrDefault(value);
  if (Value known = elements.lookupOrNull(value))
    return known;
  Value result;
  if (auto found = forms.find(value); found != forms.end()) {
    result = element(found->second);
  } else {
    Position position = positions.lookup(value);
    result = offsetOf(position, value.getLoc());
    if (position.base)
      result = arith::AddIOp::create(body, value.getLoc(), position.base, result);
  }
  elements.map(value, result);
  return result;
}

const Linear *ScoreTranslation::tanhArgument(Value value) const {
  auto found = tanhArguments.find(value);
  return found == tanhArguments.end() ? nullptr : &found->second;
}

Linear ScoreTranslation::tanh(const Linear &argument, Location loc) {
  Value result = math::TanhOp::create(body, loc, element(argument));
  tanhArguments[result] = argument;
  return Linear{{{Value(), result}}, Value()};
}

void ScoreTranslation::translate(Operation &op) {
  Value result = op.getResult(0);
  SmallVector<Value> used = valuesUsedBy(op);
  if (llvm::all_of(used, [&](Value value) { return isUniform(value); })) {
    uniforms.clone(op, uniform);
    return;
  }
  if (std::optional<Linear> form = floatArithmetic(op)) {
    forms[result] = *form;
    return;
  }
  if (auto function = dyn_cast<math::TanhOp>(op)) {
    forms[result] = tanh(linear(function.getOperand()), op.getLoc());
    return;
  }
  translateInteger(op);
  if (std::optional<Position> known = position(result)) {
    if (known->isUniform() && !known->base)
      known->base = arith::ConstantIntOp::create(uniforms, op.getLoc(), 0, 32);
    if (known->isUniform())
      uniform.map(result, known->base);
    return;
  }
  IRMapping operands;
  for (Value value : used)
    operands.map(value, element(value));
  Operation *copy = body.clone(op, operands);
  elements.map(result, copy->getResult(0));
  if (auto divide = dyn_cast<arith::DivFOp>(copy); divide && !exact)
    divide.setFastmath(arith::FastMathFlags::arcp);
}

bool isSurelyFinite(Block &body) {
  return llvm::all_of(body, [](Operation &op) {
    return isa<arith::ConstantOp, arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp,
               arith::MaxNumFOp, arith::MinNumFOp, arith::CmpFOp, arith::SelectOp, math::FmaOp,
               math::TanhOp, math::AbsFOp, arith::SIToFPOp>(op) ||
           llvm::all_of(op.getResultTypes(), [](Type type) { return type.isSignlessInteger(); });
  });
}

} // namespace tesela
