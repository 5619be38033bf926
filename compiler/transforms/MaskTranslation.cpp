//===- MaskTranslation.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/MaskTranslation.h"

#include "analysis/UsedValues.h"
#include "attn/Attn.h"
#include "tile/Tile.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela {

using Predicate = arith::CmpIPredicate;

//===----------------------------------------------------------------------===//
// Constants and ranges
//===----------------------------------------------------------------------===//

std::optional<int64_t> MaskTranslation::constantOf(Value value) {
  APInt constant;
  if (!matchPattern(value, m_ConstantInt(&constant)))
    return std::nullopt;
  return constant.getSExtValue();
}

static bool isDivision(Operation &op) { return isa<attn::FloorDivOp, attn::FloorModOp>(op); }

bool MaskTranslation::isOfRow(Value value, Scope &scope) {
  if (value.getParentBlock() != hook || ofRow.contains(value) || scope.quotients.contains(value))
    return true;
  if (auto known = scope.ofRow.find(value); known != scope.ofRow.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  bool result =
      op && op->getNumRegions() == 0 && !scope.remainders.contains(value) &&
      llvm::all_of(op->getOperands(), [&](Value operand) { return isOfRow(operand, scope); });
  return scope.ofRow[value] = result;
}

bool MaskTranslation::isPositive(Value divisor) {
  divisor = ofRow.lookupOrDefault(divisor);
  if (std::optional<int64_t> constant = constantOf(divisor))
    return *constant > 0;
  return llvm::is_contained(traits.large, divisor) || traits.periods.contains(divisor);
}

MaskTranslation::Range MaskTranslation::rangeOf(Value value) {
  if (auto known = ranges.find(value); known != ranges.end())
    return known->second;
  if (std::optional<int64_t> constant = constantOf(value))
    return {*constant, *constant};
  Range range = ofI32;
  Operation *op = value.getDefiningOp();
  if (traits.small.contains(value)) {
    range = ofSmall;
  } else if (op && isa<tile::ExtentOp, tile::ViewExtentOp>(op)) {
    range = {0, INT32_MAX};
  } else if (op && isDivision(*op) && isPositive(op->getOperand(1))) {
    Range dividend = rangeOf(op->getOperand(0)), divisor = rangeOf(op->getOperand(1));
    Range quotient{std::min<int64_t>(dividend.low, 0), std::max<int64_t>(dividend.high, 0)};
    int64_t mostLeft = divisor.high - 1;
    if (traits.periods.contains(ofRow.lookupOrDefault(op->getOperand(1))))
      mostLeft = MaskTraits::largestDivisor(columns) - 1;
    if (dividend.low >= 0)
      mostLeft = std::min(mostLeft, dividend.high);
    range = isa<attn::FloorModOp>(op) ? Range{0, mostLeft} : quotient;
  } else if (op && isa<arith::SelectOp>(op)) {
    Range a = rangeOf(op->getOperand(1)), b = rangeOf(op->getOperand(2));
    range = {std::min(a.low, b.low), std::max(a.high, b.high)};
  } else if (op && isa<arith::AddIOp, arith::SubIOp>(op)) {
    Range a = rangeOf(op->getOperand(0)), b = rangeOf(op->getOperand(1));
    Range sum = isa<arith::AddIOp>(op) ? Range{a.low + b.low, a.high + b.high}
                                       : Range{a.low - b.high, a.high - b.low};
    if (sum.isI32())
      range = sum;
  }
  return ranges[value] = range;
}

//===----------------------------------------------------------------------===//
// Linear forms
//===----------------------------------------------------------------------===//

bool MaskTranslation::Linear::operator==(const Linear &other) const {
  return constant == other.constant && column == other.column && division == other.division &&
         divisionFactor == other.divisionFactor &&
         llvm::equal(terms, other.terms, [](const Term &a, const Term &b) {
           return a.value == b.value && a.factor == b.factor;
         });
}

MaskTranslation::Range MaskTranslation::Linear::firstRange() const {
  Range range{constant, constant};
  for (const Term &term : terms) {
    range.low += term.factor * (term.factor > 0 ? term.range.low : term.range.high);
    range.high += term.factor * (term.factor > 0 ? term.range.high : term.range.low);
  }
  return range;
}

/// Returns nullopt if both have a division.
std::optional<MaskTranslation::Linear> MaskTranslation::combined(const Linear &a, const Linear &b,
                                                                 int64_t sign) {
  if (a.division && b.division)
    return std::nullopt;
  Linear result = a;
  if (b.division) {
    result.division = b.division;
    result.divisionFactor = sign * b.divisionFactor;
  }
  for (Linear::Term term : b.terms) {
    term.factor *= sign;
    result.terms.push_back(term);
  }
  result.constant += sign * b.constant;
  result.column += sign * b.column;
  result.range = sign > 0 ? Range{a.range.low + b.range.low, a.range.high + b.range.high}
                          : Range{a.range.low - b.range.high, a.range.high - b.range.low};
  return result;
}

/// Returns nullopt if `value` is not linear, or may have wrapped.
std::optional<MaskTranslation::Linear> MaskTranslation::linear(Value value, Scope &scope) {
  if (auto known = scope.forms.find(value); known != scope.forms.end())
    return known->second;
  std::optional<Linear> form = findLinear(value, scope);
  scope.forms[value] = form;
  return form;
}

std::optional<MaskTranslation::Linear> MaskTranslation::findLinear(Value value, Scope &scope) {
  if (value == columnIndex)
    return Linear{{{firstColumn, 1, ofIndex}}, 0, 1, ofIndex};
  if (auto remainder = scope.remainders.find(value); remainder != scope.remainders.end())
    return remainder->second;
  Value translated = ofRow.lookupOrDefault(value);
  if (std::optional<int64_t> constant = constantOf(translated))
    return Linear{{}, *constant, 0, {*constant, *constant}};
  Operation *op = value.getParentBlock() == hook ? value.getDefiningOp() : nullptr;
  if (op && isa<arith::AddIOp, arith::SubIOp>(op) && !ofRow.contains(value)) {
    std::optional<Linear> a = linear(op->getOperand(0), scope),
                          b = linear(op->getOperand(1), scope);
    if (a && b)
      if (std::optional<Linear> sum = combined(*a, *b, isa<arith::AddIOp>(op) ? 1 : -1);
          sum && sum->range.isI32() && sum->terms.size() <= mostTerms)
        return sum;
  }
  if (op && shortDivision(*op, scope))
    return Linear{{}, 0, 0, rangeOf(value), op, 1};
  if (!isOfRow(value, scope))
    return std::nullopt;
  return Linear{{{value, 1, rangeOf(value)}}, 0, 0, rangeOf(value)};
}

bool MaskTranslation::mayWrap() {
  Scope scope;
  return llvm::any_of(hook->without_terminator(), [&](Operation &op) {
    if (!isa<arith::AddIOp, arith::SubIOp>(op) || isOfRow(op.getResult(0), scope) ||
        linear(op.getResult(0), scope))
      return false;
    std::optional<Linear> a = linear(op.getOperand(0), scope), b = linear(op.getOperand(1), scope);
    return a && b && combined(*a, *b, isa<arith::AddIOp>(op) ? 1 : -1);
  });
}

Value MaskTranslation::emitFirst(const Linear &form, int64_t sign, Ends ends, Scope &scope) {
  Range range = form.firstRange();
  if (sign < 0)
    range = {-range.high, -range.low};
  SmallVector<std::pair<Value, int64_t>> terms;
  bool uniform = true;
  for (const Linear::Term &term : form.terms) {
    int64_t factor = sign * term.factor;
    Value value = element(term.value, scope);
    uniform &= isUniform(value);
    // Positive terms come first, so that the sum needs no negation.
    terms.insert(factor > 0 ? terms.begin() : terms.end(), {value, factor});
  }
  OpBuilder &builder = uniform ? before : body;
  Location loc = column.getLoc();
  bool isNarrow = ends == Ends::wrap || range.isI32();
  Type type = builder.getIntegerType(isNarrow ? 32 : 64);
  Value sum;
  if (int64_t constant = sign * form.constant; constant != 0 || terms.empty())
    sum = arith::ConstantIntOp::create(builder, loc, type, constant);
  for (auto [value, factor] : terms) {
    if (!isNarrow)
      value = arith::ExtSIOp::create(builder, loc, type, value);
    if (factor > 0)
      sum = sum ? arith::AddIOp::create(builder, loc, value, sum).getResult() : value;
    else
      sum = arith::SubIOp::create(
          builder, loc, sum ? sum : arith::ConstantIntOp::create(builder, loc, type, 0), value);
  }
  if (isNarrow)
    return sum;
  auto end = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, type, value);
  };
  sum = arith::MaxSIOp::create(builder, loc, sum, end(INT32_MIN));
  sum = arith::MinSIOp::create(builder, loc, sum, end(INT32_MAX));
  return arith::TruncIOp::create(builder, loc, builder.getI32Type(), sum);
}

//===----------------------------------------------------------------------===//
// Quotients
//===----------------------------------------------------------------------===//

/// The dividend and the divisor of `op`, if it is a division whose dividend is linear with a
/// column, and whose divisor is the same for the launch. Otherwise nullopt.
std::optional<MaskTranslation::Division> MaskTranslation::divisionOf(Operation &op, Scope &scope) {
  if (!isDivision(op) || scope.quotients.contains(op.getResult(0)) ||
      scope.remainders.contains(op.getResult(0)) || byRow.contains(op.getOperand(1)))
    return std::nullopt;
  Value divisor = ofRow.lookupOrDefault(op.getOperand(1));
  std::optional<Linear> dividend = linear(op.getOperand(0), scope);
  if (!isUniform(divisor) || divisor.getParentBlock() == hook || !dividend || dividend->division ||
      std::abs(dividend->column) != 1)
    return std::nullopt;
  Range first = dividend->firstRange();
  if (!first.isI32() && !first.isU32()) // a 32-bit division is either signed or unsigned
    return std::nullopt;
  return Division{*dividend, divisor};
}

std::optional<MaskTranslation::Division> MaskTranslation::longDivision(Operation &op,
                                                                       Scope &scope) {
  std::optional<Division> found = divisionOf(op, scope);
  std::optional<int64_t> constant = found ? constantOf(found->divisor) : std::nullopt;
  return constant && *constant < columns ? std::nullopt : found;
}

std::optional<MaskTranslation::Division> MaskTranslation::splittable(Operation &op, Scope &scope) {
  std::optional<Division> found = longDivision(op, scope);
  bool isLarge =
      found && (constantOf(found->divisor) || llvm::is_contained(traits.large, found->divisor));
  return isLarge ? found : std::nullopt;
}

SmallVector<Value> MaskTranslation::divisors() {
  SmallVector<Division> divisions;
  SmallVector<Value> result;
  Scope scope;
  for (Operation &op : hook->without_terminator()) {
    std::optional<Division> found = longDivision(op, scope);
    if (!found || divisions.size() == mostDivisions ||
        llvm::any_of(divisions, [&](const Division &known) {
          return known.divisor == found->divisor && known.dividend == found->dividend;
        }))
      continue;
    divisions.push_back(*found);
    if (!constantOf(found->divisor) && !llvm::is_contained(result, found->divisor))
      result.push_back(found->divisor);
  }
  return result;
}

/// ⌊x · r / 2^32⌋ is the quotient or the quotient - 1: r >= 2^32 / C - 1, so x · r / 2^32 is less
/// than x / C by at most x / 2^32 < 1.
std::pair<Value, Value> MaskTranslation::divideByProduct(Value dividend, Value divisor,
                                                         Value reciprocal) {
  OpBuilder &builder = isUniform(dividend) ? before : body;
  Location loc = column.getLoc();
  auto minus = [&](Value a, Value b) -> Value { return arith::SubIOp::create(builder, loc, a, b); };
  auto times = [&](Value a, Value b) -> Value { return arith::MulIOp::create(builder, loc, a, b); };
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  Value product = times(arith::ExtUIOp::create(builder, loc, i64, dividend),
                        arith::ExtUIOp::create(builder, loc, i64, reciprocal));
  Value half = arith::ConstantIntOp::create(builder, loc, 32, 64);
  Value low = arith::TruncIOp::create(builder, loc, i32,
                                      arith::ShRUIOp::create(builder, loc, product, half));
  Value rest = minus(dividend, times(low, divisor));
  Value isMore = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, rest, divisor);
  Value more = arith::ExtUIOp::create(builder, loc, i32, isMore);
  return {arith::AddIOp::create(builder, loc, low, more),
          arith::SelectOp::create(builder, loc, isMore, minus(rest, divisor), rest)};
}

std::pair<Value, Value> MaskTranslation::divide(Value dividend, Range range, Value divisor) {
  OpBuilder &builder = isUniform(dividend) ? before : body;
  Location loc = column.getLoc();
  auto minus = [&](Value a, Value b) -> Value { return arith::SubIOp::create(builder, loc, a, b); };
  auto times = [&](Value a, Value b) -> Value { return arith::MulIOp::create(builder, loc, a, b); };
  Value reciprocal = traits.reciprocals.lookup(divisor);
  if (reciprocal && range.low >= 0 && range.high <= INT32_MAX)
    return divideByProduct(dividend, divisor, reciprocal);
  Value quotient;
  if (range.low >= 0)
    quotient = arith::DivUIOp::create(builder, loc, dividend, divisor);
  else
    quotient = attn::FloorDivOp::create(builder, loc, dividend.getType(), dividend, divisor);
  return {quotient, minus(dividend, times(quotient, divisor))};
}

Value MaskTranslation::split(const Division &division, Scope &scope) {
  Location loc = column.getLoc();
  Scope inner = scope;
  ++inner.depth;
  const Linear &x = division.dividend;
  // How the row's first element is divided depends on its range (divisionOf).
  Value first = emitFirst(x, 1, Ends::wrap, inner);
  OpBuilder &builder = isUniform(first) ? before : body;
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  };
  Value divisor = division.divisor;
  auto [quotient, remainder] = divide(first, x.firstRange(), divisor);
  bool isRising = x.column > 0;
  // The column from which on the quotient changes: j >= C - r if x rises, j >= r + 1 if it falls.
  Value bound = isRising ? Value(arith::SubIOp::create(builder, loc, divisor, remainder))
                         : arith::AddIOp::create(builder, loc, remainder, constant(1));
  Value over = arith::CmpIOp::create(body, loc, Predicate::sge, column, bound);
  Value next = arith::AddIOp::create(builder, loc, quotient, constant(isRising ? 1 : -1));

  std::optional<int64_t> known = constantOf(divisor);
  int64_t largest = traits.areSmall() ? MaskTraits::smallEnd - 1 : INT32_MAX;
  Range ofDivisor = known ? Range{*known, *known} : Range{columns, largest};
  Linear within{{{remainder, 1, {0, ofDivisor.high - 1}}}, 0, x.column, {0, ofDivisor.high - 1}};
  Linear beyond = within;
  beyond.terms.push_back({divisor, isRising ? -1 : 1, ofDivisor});
  // The two sides have different values of a row and different linear forms.
  inner.ofRow.clear();
  inner.forms.clear();
  inner.formulas.clear();
  inner.comparisons.clear();
  inner.residues.clear();
  Scope sides[] = {inner, inner};
  for (Operation &op : hook->without_terminator()) {
    std::optional<Division> found = splittable(op, scope);
    if (!found || found->divisor != divisor || !(found->dividend == x))
      continue;
    Value result = op.getResult(0);
    for (bool isBeyond : {false, true})
      if (isa<attn::FloorDivOp>(op))
        sides[isBeyond].quotients.map(result, isBeyond ? next : quotient);
      else
        sides[isBeyond].remainders[result] = isBeyond ? beyond : within;
  }
  Value isWithin = translate(std::move(sides[0])), isBeyond = translate(std::move(sides[1]));
  return arith::SelectOp::create(body, loc, over, isBeyond, isWithin);
}

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

Value MaskTranslation::condition(Value limit) {
  Scope scope;
  if (!limit)
    return translate(scope);
  Linear rest{{{firstColumn, 1, ofIndex}, {limit, -1, {0, INT32_MAX}}}, 0, 1, ofI32};
  Value inside = compareColumn(Predicate::slt, rest, scope);
  return hook ? joined(/*isAnd=*/true, inside, translate(scope)) : inside;
}

Value MaskTranslation::translate(Scope scope) {
  if (scope.depth < mostDivisions)
    for (Operation &op : hook->without_terminator())
      if (std::optional<Division> division = splittable(op, scope))
        return split(*division, scope);
  return formula(hook->getTerminator()->getOperand(0), scope);
}

Value MaskTranslation::joined(bool isAnd, Value a, Value b) {
  Location loc = column.getLoc();
  return isAnd ? arith::AndIOp::create(body, loc, a, b).getResult()
               : arith::OrIOp::create(body, loc, a, b).getResult();
}

Value MaskTranslation::formula(Value value, Scope &scope) {
  if (Value known = scope.formulas.lookup(value))
    return known;
  Value written = writeFormula(value, scope);
  return scope.formulas[value] = written;
}

Value MaskTranslation::writeFormula(Value value, Scope &scope) {
  Operation *op = value.getParentBlock() == hook ? value.getDefiningOp() : nullptr;
  if (!op || isOfRow(value, scope))
    return element(value, scope);
  if (auto compared = dyn_cast<arith::CmpIOp>(op);
      compared && compared.getLhs().getType().isInteger(32))
    return compare(compared.getPredicate(), compared.getLhs(), compared.getRhs(), scope);
  if (!isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::SelectOp>(op))
    return element(value, scope);
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, formula(operand, scope));
  return body.clone(*op, operands)->getResult(0);
}

Predicate MaskTranslation::swapped(Predicate predicate) {
  switch (predicate) {
  case Predicate::slt:
    return Predicate::sgt;
  case Predicate::sle:
    return Predicate::sge;
  case Predicate::sgt:
    return Predicate::slt;
  case Predicate::sge:
    return Predicate::sle;
  default:
    return predicate;
  }
}

/// Whether `value` is `b before a ? b : a`: true for a maximum, false for a minimum.
static std::optional<std::pair<bool, arith::SelectOp>> extremeOf(Value value) {
  auto choice = value.getDefiningOp<arith::SelectOp>();
  auto isBefore = choice ? choice.getCondition().getDefiningOp<arith::CmpIOp>() : arith::CmpIOp();
  if (!isBefore || isBefore.getLhs() != choice.getTrueValue() ||
      isBefore.getRhs() != choice.getFalseValue())
    return std::nullopt;
  if (isBefore.getPredicate() == Predicate::sgt)
    return std::pair(true, choice);
  if (isBefore.getPredicate() == Predicate::slt)
    return std::pair(false, choice);
  return std::nullopt;
}

Value MaskTranslation::compare(Predicate predicate, Value left, Value right, Scope &scope) {
  Comparison comparison{unsigned(predicate), left, right};
  if (Value known = scope.comparisons.lookup(comparison))
    return known;
  Value written = writeComparison(predicate, left, right, scope);
  return scope.comparisons[comparison] = written;
}

Value MaskTranslation::writeComparison(Predicate predicate, Value left, Value right, Scope &scope) {
  bool isLess = predicate == Predicate::slt || predicate == Predicate::sle;
  bool isGreater = predicate == Predicate::sgt || predicate == Predicate::sge;
  if (isLess || isGreater) {
    if (!isOfRow(right, scope) && extremeOf(right) && !extremeOf(left))
      return compare(swapped(predicate), right, left, scope);
    // max(a, b) < x if both are less; max(a, b) > x if one is greater. For min the other way round.
    if (auto extreme = extremeOf(left); extreme && !isOfRow(left, scope))
      return joined(extreme->first == isLess,
                    compare(predicate, extreme->second.getTrueValue(), right, scope),
                    compare(predicate, extreme->second.getFalseValue(), right, scope));
  }
  std::optional<Linear> a = linear(left, scope), b = linear(right, scope);
  std::optional<Linear> difference = a && b ? combined(*a, *b, -1) : std::nullopt;
  if (difference && !difference->division && std::abs(difference->column) == 1)
    return compareColumn(predicate, *difference, scope);
  if (difference && difference->column == 0 && std::abs(difference->divisionFactor) == 1)
    return compareDivision(predicate, *difference, scope);
  Value first = element(left, scope), second = element(right, scope);
  return arith::CmpIOp::create(body, column.getLoc(), predicate, first, second);
}

Value MaskTranslation::compareColumn(Predicate predicate, const Linear &difference, Scope &scope) {
  if (predicate == Predicate::eq || predicate == Predicate::ne) {
    bool isEqual = predicate == Predicate::eq;
    return joined(isEqual,
                  compareColumn(isEqual ? Predicate::sle : Predicate::slt, difference, scope),
                  compareColumn(isEqual ? Predicate::sge : Predicate::sgt, difference, scope));
  }
  // first + j ⋈ 0 is j ⋈ -first. first - j ⋈ 0 is j ⋈' first, with the predicate swapped.
  Linear form = difference;
  bool isRising = form.column > 0;
  if (!isRising)
    predicate = swapped(predicate);
  // j <= x is j < x + 1; j > x is j >= x + 1.
  if (predicate == Predicate::sle || predicate == Predicate::sgt)
    form.constant += isRising ? -1 : 1;
  bool isUpper = predicate == Predicate::slt || predicate == Predicate::sle;
  Value bound = emitFirst(form, isRising ? -1 : 1, Ends::hold, scope);
  return arith::CmpIOp::create(body, column.getLoc(), isUpper ? Predicate::slt : Predicate::sge,
                               column, bound);
}

//===----------------------------------------------------------------------===//
// Element by element
//===----------------------------------------------------------------------===//

Value MaskTranslation::element(Value value, Scope &scope) {
  if (value.getParentBlock() != hook)
    return value;
  for (const IRMapping *known : {&ofRow, &scope.quotients, &scope.elements})
    if (Value translated = known->lookupOrNull(value))
      return translated;
  Value result = writeElement(value, scope);
  scope.elements.map(value, result);
  return result;
}

Value MaskTranslation::writeElement(Value value, Scope &scope) {
  Location loc = value.getLoc();
  if (value == columnIndex)
    return arith::AddIOp::create(body, loc, firstColumn, column);
  if (auto remainder = scope.remainders.find(value); remainder != scope.remainders.end()) {
    // The form is right on the side of the split that is taken, although its parts may wrap.
    const Linear &form = remainder->second;
    Value first = emitFirst(form, 1, Ends::wrap, scope);
    if (form.column > 0)
      return arith::AddIOp::create(body, loc, first, column);
    return arith::SubIOp::create(body, loc, first, column);
  }
  Operation *op = value.getDefiningOp();
  if (Value periodic = periodicElement(*op, scope))
    return periodic;
  IRMapping mapping;
  for (Value used : valuesUsedBy(*op))
    mapping.map(used, element(used, scope));
  std::optional<int64_t> divisor;
  if (isDivision(*op) && rangeOf(op->getOperand(0)).low >= 0)
    divisor = constantOf(mapping.lookup(op->getOperand(1)));
  if (!divisor || *divisor <= 0)
    return body.clone(*op, mapping)->getResult(0);
  Value a = mapping.lookup(op->getOperand(0)), b = mapping.lookup(op->getOperand(1));
  if (isa<attn::FloorDivOp>(op)) // unsigned, because both operands are not negative
    return arith::DivUIOp::create(body, loc, a, b);
  return arith::RemUIOp::create(body, loc, a, b);
}

} // namespace tesela
