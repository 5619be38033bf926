//===- MaskPeriods.cpp - Quotients and remainders that repeat ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The part of MaskTranslation for divisors C that are less than the tile's columns. Let x be linear
// and rise with the column j, and let p = T mod C be the phase of the row's first element T. Then
//
//   x mod C = (p + j) mod C            which is tile.phase
//   ⌊x / C⌋ = ⌊T / C⌋ + ⌊(p + j) / C⌋
//
// If x falls, x = -x' - 1, where x' rises:
//
//   x mod C = C - 1 - x' mod C
//   ⌊x / C⌋ = -1 - ⌊x' / C⌋
//
// Comparisons with a limit become
//
//   ⌊x / C⌋ < limit     j < C · (limit - ⌊T / C⌋) - p, a bound of the column
//   x mod C ⋈ limit     if the limit is the same for all rows: a function of the phase only
//   x mod C = limit     if each row has its own limit: the phase, started `limit` earlier, is 0
//   x mod C < limit     if each row has its own limit: ⌊(p + j) / C⌋ and ⌊(p + j - limit) / C⌋
//                       differ. Then they differ by 1, so one is even and the other is odd. That
//                       is two phases with the period 2 · C
//
// So a target needs only one pattern for all rows. The sum p + j is less than 2^12, so its quotient
// is a product and a shift, as in tile.phase.
//
//===----------------------------------------------------------------------===//
#include "transforms/MaskTranslation.h"

#include "attn/Attn.h"
#include "tile/Tile.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela {

using Predicate = arith::CmpIPredicate;
using Period = MaskTraits::Period;

//===----------------------------------------------------------------------===//
// Values that depend on the divisor only
//===----------------------------------------------------------------------===//

int64_t MaskTraits::largestDivisor(int64_t columns) {
  return columns > tile::PhaseOp::mostColumns ? 0 : std::min(columns - 1, mostOfPeriod);
}

static int64_t factorOf(int64_t period) {
  return (int64_t(1) << tile::PhaseOp::factorBits) / period + 1;
}

Period MaskTraits::periodOf(OpBuilder &builder, Location loc, int64_t divisor) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  };
  Value period = constant(divisor);
  return {.divisor = period,
          .period = period,
          .factor = constant(factorOf(divisor)),
          .doubled = constant(2 * divisor),
          .doubledFactor = constant(factorOf(2 * divisor)),
          .reciprocal = Value()};
}

Period MaskTraits::periodOf(OpBuilder &builder, Location loc, Value divisor, Value reciprocal,
                            int64_t columns) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  };
  auto factor = [&](Value period) -> Value {
    Value quotient = arith::DivUIOp::create(
        builder, loc, constant(int64_t(1) << tile::PhaseOp::factorBits), period);
    return arith::AddIOp::create(builder, loc, quotient, constant(1));
  };
  Value period = arith::MaxUIOp::create(builder, loc, divisor, constant(1));
  period = arith::MinUIOp::create(builder, loc, period, constant(largestDivisor(columns)));
  Value doubled = arith::ShLIOp::create(builder, loc, period, constant(1));
  Value ofPeriod = factor(period), ofDoubled = factor(doubled);
  return {.divisor = divisor,
          .period = period,
          .factor = ofPeriod,
          .doubled = doubled,
          .doubledFactor = ofDoubled,
          .reciprocal = reciprocal};
}

std::optional<Period> MaskTranslation::periodOf(Value divisor) {
  if (auto known = traits.periods.find(divisor); known != traits.periods.end())
    return known->second;
  std::optional<int64_t> constant = constantOf(divisor);
  if (!constant || *constant < 1 || *constant > MaskTraits::largestDivisor(columns))
    return std::nullopt;
  Period &period = constantPeriods[*constant];
  if (!period.divisor)
    period = MaskTraits::periodOf(before, column.getLoc(), *constant);
  return period;
}

//===----------------------------------------------------------------------===//
// Which divisions have a period
//===----------------------------------------------------------------------===//

std::optional<MaskTranslation::Division> MaskTranslation::shortDivision(Operation &op,
                                                                        Scope &scope) {
  std::optional<Division> found = divisionOf(op, scope);
  if (!found || !found->dividend.firstRange().isI32())
    return std::nullopt;
  bool isPeriod = traits.periods.contains(found->divisor);
  if (std::optional<int64_t> constant = constantOf(found->divisor))
    isPeriod = *constant >= 1 && *constant <= MaskTraits::largestDivisor(columns);
  return isPeriod ? found : std::nullopt;
}

SmallVector<MaskTranslation::PeriodicDivisor> MaskTranslation::periodicDivisors() {
  SmallVector<PeriodicDivisor> result;
  Scope scope;
  for (Operation &op : hook->without_terminator()) {
    std::optional<Division> found = divisionOf(op, scope);
    if (!found || constantOf(found->divisor) || !found->dividend.firstRange().isI32())
      continue;
    bool ofRemainder = isa<attn::FloorModOp>(op);
    auto known = llvm::find_if(
        result, [&](const PeriodicDivisor &each) { return each.divisor == found->divisor; });
    if (known == result.end())
      result.push_back({found->divisor, ofRemainder});
    else
      known->ofRemainder |= ofRemainder;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Values of a row
//===----------------------------------------------------------------------===//

/// Divides `dividend`, an unsigned number.
std::pair<Value, Value> MaskTranslation::divideBy(Value dividend, const Period &period) {
  if (period.reciprocal)
    return divideByProduct(dividend, period.divisor, period.reciprocal);
  OpBuilder &builder = isUniform(dividend) ? before : body;
  Location loc = column.getLoc();
  Value quotient = builder.createOrFold<arith::DivUIOp>(loc, dividend, period.divisor);
  Value product = builder.createOrFold<arith::MulIOp>(loc, quotient, period.divisor);
  return {quotient, builder.createOrFold<arith::SubIOp>(loc, dividend, product)};
}

MaskTranslation::Residue MaskTranslation::residueOf(Value dividend, const Linear &form,
                                                    const Period &period, Scope &scope) {
  auto [known, isNew] = scope.residues.try_emplace({dividend, period.divisor});
  if (!isNew)
    return known->second;
  bool isFalling = form.column < 0;
  Linear rising = form;
  Range range = form.firstRange();
  if (isFalling) { // x' = -(x + 1)
    rising.constant += 1;
    range = {-1 - range.high, -1 - range.low};
  }
  Value first = emitFirst(rising, isFalling ? -1 : 1, Ends::wrap, scope);
  OpBuilder &builder = isUniform(first) ? before : body;
  Location loc = column.getLoc();
  auto minus = [&](Value a, Value b) -> Value { return arith::SubIOp::create(builder, loc, a, b); };
  bool isSigned = range.low < 0;
  if (isSigned) { // T + 2^31 is not negative
    Value end = arith::ConstantIntOp::create(builder, loc, INT32_MIN, 32);
    first = arith::XOrIOp::create(builder, loc, first, end);
  }
  auto [quotient, phase] = divideBy(first, period);
  if (isSigned) {
    auto [endQuotient, end] =
        divideBy(arith::ConstantIntOp::create(before, loc, INT32_MIN, 32), period);
    Value isLess = arith::CmpIOp::create(builder, loc, Predicate::ult, phase, end);
    phase = minus(phase, end);
    Value more = arith::AddIOp::create(builder, loc, phase, period.divisor);
    phase = arith::SelectOp::create(builder, loc, isLess, more, phase);
    quotient = minus(minus(quotient, endQuotient),
                     arith::ExtUIOp::create(builder, loc, builder.getI32Type(), isLess));
  }
  Range ofQuotient{std::min<int64_t>(range.low, 0), std::max<int64_t>(range.high, 0)};
  Residue residue{period, quotient, phase, ofQuotient, isFalling};
  scope.residues[{dividend, period.divisor}] = residue;
  return residue;
}

Value MaskTranslation::phaseOf(Value start, Value period, Value factor) {
  return tile::PhaseOp::create(body, column.getLoc(), body.getI32Type(), start, column, period,
                               factor);
}

//===----------------------------------------------------------------------===//
// Element by element
//===----------------------------------------------------------------------===//

Value MaskTranslation::remainderOf(const Residue &residue) {
  const Period &period = residue.period;
  Value phase = phaseOf(residue.phase, period.period, period.factor);
  if (!residue.isFalling)
    return phase;
  Location loc = column.getLoc();
  Value one = arith::ConstantIntOp::create(before, loc, 1, 32);
  Value last = arith::SubIOp::create(before, loc, period.divisor, one);
  return arith::SubIOp::create(body, loc, last, phase);
}

Value MaskTranslation::quotientOf(const Residue &residue) {
  Location loc = column.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(body, loc, value, 32);
  };
  Value sum = arith::AddIOp::create(body, loc, residue.phase, column);
  Value scaled = arith::MulIOp::create(body, loc, sum, residue.period.factor);
  Value more = arith::ShRUIOp::create(body, loc, scaled, constant(tile::PhaseOp::factorBits));
  Value quotient = arith::AddIOp::create(body, loc, residue.quotient, more);
  if (!residue.isFalling)
    return quotient;
  return arith::SubIOp::create(body, loc, constant(-1), quotient);
}

Value MaskTranslation::periodicElement(Operation &op, Scope &scope) {
  if (std::optional<Division> division = shortDivision(op, scope)) {
    Residue residue =
        residueOf(op.getOperand(0), division->dividend, *periodOf(division->divisor), scope);
    return isa<attn::FloorDivOp>(op) ? quotientOf(residue) : remainderOf(residue);
  }
  // ⌊x / C⌋ mod D = ⌊(x mod C·D) / C⌋.
  auto remainder = dyn_cast<attn::FloorModOp>(op);
  auto inner = remainder ? remainder.getLhs().getDefiningOp<attn::FloorDivOp>() : nullptr;
  if (!inner || inner->getBlock() != hook)
    return Value();
  std::optional<Division> division = shortDivision(*inner, scope);
  std::optional<int64_t> outer = constantOf(ofRow.lookupOrDefault(remainder.getRhs())),
                         divisor = division ? constantOf(division->divisor) : std::nullopt;
  if (!outer || !divisor || *outer < 1 || *outer > MaskTraits::mostOfPeriod / *divisor)
    return Value();
  Period &period = constantPeriods[*outer * *divisor];
  if (!period.divisor)
    period = MaskTraits::periodOf(before, column.getLoc(), *outer * *divisor);
  Residue residue = residueOf(inner.getLhs(), division->dividend, period, scope);
  return arith::DivUIOp::create(body, op.getLoc(), remainderOf(residue), division->divisor);
}

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

Value MaskTranslation::negatedIf(bool negated, Value truth) {
  if (!negated)
    return truth;
  Value one = arith::ConstantIntOp::create(before, column.getLoc(), 1, 1);
  return arith::XOrIOp::create(body, column.getLoc(), truth, one);
}

Value MaskTranslation::compareDivision(Predicate predicate, const Linear &difference,
                                       Scope &scope) {
  Operation &op = *difference.division;
  Division division = *shortDivision(op, scope);
  Residue residue =
      residueOf(op.getOperand(0), division.dividend, *periodOf(division.divisor), scope);
  // ± x / C + rest ⋈ 0 is x / C ⋈ ∓ rest.
  Linear limit = difference;
  limit.division = nullptr;
  limit.divisionFactor = 0;
  if (difference.divisionFactor > 0) {
    limit.constant = -limit.constant;
    for (Linear::Term &term : limit.terms)
      term.factor = -term.factor;
  } else {
    predicate = swapped(predicate);
  }
  bool isQuotient = isa<attn::FloorDivOp>(op);
  bool isEqual = predicate == Predicate::eq, isUnequal = predicate == Predicate::ne;
  // x <= l is x < l + 1; x >= l is the negation of x < l.
  Linear next = limit;
  next.constant += 1;
  bool isNext = predicate == Predicate::sle || predicate == Predicate::sgt;
  bool isNegated = predicate == Predicate::sge || predicate == Predicate::sgt || isUnequal;
  if (isQuotient && (isEqual || isUnequal)) {
    Value isLess = isQuotientLess(residue, next, isNegated, scope),
          isMore = isQuotientLess(residue, limit, !isNegated, scope);
    return joined(isEqual, isLess, isMore);
  }
  if (isQuotient)
    return isQuotientLess(residue, isNext ? next : limit, isNegated, scope);
  Value held = emitFirst(limit, 1, Ends::hold, scope);
  if (isUniform(held))
    return arith::CmpIOp::create(body, column.getLoc(), predicate, element(op.getResult(0), scope),
                                 held);
  if (isEqual || isUnequal)
    return isRemainder(residue, held, isRemainderBy(limit, division.divisor, ofRow), isUnequal);
  return isRemainderLess(residue, isNext ? emitFirst(next, 1, Ends::hold, scope) : held, isNegated);
}

/// Whether ⌊x / C⌋ < limit; `negated`: whether it is not.
Value MaskTranslation::isQuotientLess(const Residue &residue, Linear limit, bool negated,
                                      Scope &scope) {
  // -1 - ⌊x' / C⌋ < l if and only if ⌊x' / C⌋ >= -l.
  if (residue.isFalling) {
    negated = !negated;
    limit.constant = -limit.constant;
    for (Linear::Term &term : limit.terms)
      term.factor = -term.factor;
  }
  limit.terms.push_back({residue.quotient, -1, residue.ofQuotient});
  Value left = emitFirst(limit, 1, Ends::hold, scope);
  bool isShared = isUniform(left) && isUniform(residue.phase);
  OpBuilder &builder = isShared ? before : body;
  Location loc = column.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  };
  // 0 <= ⌊(p + j) / C⌋ < columns.
  left = arith::MaxSIOp::create(builder, loc, left, constant(0));
  left = arith::MinSIOp::create(builder, loc, left, constant(columns));
  Value bound = arith::SubIOp::create(
      builder, loc, arith::MulIOp::create(builder, loc, left, residue.period.divisor),
      residue.phase);
  return arith::CmpIOp::create(body, loc, negated ? Predicate::sge : Predicate::slt, column, bound);
}

/// Whether `limit` is y mod C for some y, with C = `divisor`.
bool MaskTranslation::isRemainderBy(const Linear &limit, Value divisor, const IRMapping &ofRow) {
  if (limit.constant != 0 || limit.terms.size() != 1 || limit.terms.front().factor != 1)
    return false;
  auto remainder = limit.terms.front().value.getDefiningOp<attn::FloorModOp>();
  return remainder && ofRow.lookupOrDefault(remainder.getRhs()) == divisor;
}

/// Whether x mod C = limit; `negated`: whether it is not.
Value MaskTranslation::isRemainder(const Residue &residue, Value limit, bool isPossible,
                                   bool negated) {
  const Period &period = residue.period;
  Location loc = column.getLoc();
  Value inside;
  if (!isPossible)
    inside = arith::CmpIOp::create(body, loc, Predicate::ult, limit, period.divisor);
  if (residue.isFalling) {
    Value one = arith::ConstantIntOp::create(before, loc, 1, 32);
    Value last = arith::SubIOp::create(before, loc, period.divisor, one);
    limit = arith::SubIOp::create(body, loc, last, limit);
  }
  // If `start` is negative, it is large as an unsigned number, and start + C is the minimum.
  Value start = arith::SubIOp::create(body, loc, residue.phase, limit);
  start = arith::MinUIOp::create(body, loc, start,
                                 arith::AddIOp::create(body, loc, start, period.divisor));
  Value zero = arith::ConstantIntOp::create(before, loc, 0, 32);
  Value isZero = arith::CmpIOp::create(body, loc, Predicate::eq,
                                       phaseOf(start, period.period, period.factor), zero);
  return negatedIf(negated, inside ? joined(/*isAnd=*/true, inside, isZero) : isZero);
}

/// Whether x mod C < limit; `negated`: whether it is not.
Value MaskTranslation::isRemainderLess(const Residue &residue, Value limit, bool negated) {
  const Period &period = residue.period;
  Location loc = column.getLoc();
  Value zero = arith::ConstantIntOp::create(before, loc, 0, 32);
  limit = arith::MaxSIOp::create(body, loc, limit, zero);
  limit = arith::MinSIOp::create(body, loc, limit, period.divisor);
  if (residue.isFalling) { // C - 1 - x' mod C < l if and only if x' mod C >= C - l
    negated = !negated;
    limit = arith::SubIOp::create(body, loc, period.divisor, limit);
  }
  Value twice = arith::AddIOp::create(before, loc, period.divisor, period.divisor);
  Value earlier = arith::SubIOp::create(body, loc, residue.phase, limit);
  earlier =
      arith::MinUIOp::create(body, loc, earlier, arith::AddIOp::create(body, loc, earlier, twice));
  auto isEven = [&](Value start) -> Value {
    return arith::CmpIOp::create(body, loc, Predicate::slt,
                                 phaseOf(start, period.doubled, period.doubledFactor),
                                 period.period);
  };
  Value now = isEven(residue.phase), then = isEven(earlier);
  return negatedIf(negated, arith::XOrIOp::create(body, loc, now, then));
}

} // namespace tesela
