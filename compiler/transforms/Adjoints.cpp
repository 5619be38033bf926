//===- Adjoints.cpp -------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/Adjoints.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;

namespace tesela {

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static std::optional<double> constantOf(Value value) {
  APFloat number(0.0f);
  if (!matchPattern(value, m_ConstantFloat(&number)))
    return std::nullopt;
  return number.convertToDouble();
}

/// Adds the factor `value` to `to`; if `from` has the same factor, removes it there instead.
static void cancel(SmallVector<Value, 4> &to, SmallVector<Value, 4> &from, Value value) {
  auto *found = llvm::find(from, value);
  if (found != from.end())
    from.erase(found);
  else
    to.push_back(value);
}

Product Product::times(Value value) const {
  Product result = *this;
  if (std::optional<double> number = constantOf(value))
    result.coefficient *= *number;
  else
    cancel(result.over, result.under, value);
  return result;
}

Product Product::dividedBy(Value value) const {
  Product result = *this;
  if (std::optional<double> number = constantOf(value))
    result.coefficient /= *number;
  else
    cancel(result.under, result.over, value);
  return result;
}

Product Product::times(double number) const {
  Product result = *this;
  result.coefficient *= number;
  return result;
}

Product Product::times(const Product &other) const {
  Product result = times(other.coefficient);
  for (Value value : other.over)
    result = result.times(value);
  for (Value value : other.under)
    result = result.dividedBy(value);
  return result;
}

static bool haveSameFactors(const Product &a, const Product &b) {
  return a.over == b.over && a.under == b.under;
}

//===----------------------------------------------------------------------===//
// Guards
//===----------------------------------------------------------------------===//

const Guard *Adjoints::where(const Guard *outer, Value condition, bool holds) {
  // !c holds if and only if c does not.
  auto inverted = condition.getDefiningOp<arith::XOrIOp>();
  if (inverted && matchPattern(inverted.getRhs(), m_One()))
    return where(outer, inverted.getLhs(), !holds);
  // If an outer guard already has this condition, no new guard is needed.
  for (const Guard *guard = outer; guard->outer; guard = guard->outer)
    if (guard->condition == condition && guard->holds == holds)
      return outer;
  const Guard *&found = guardOf[{outer, condition.getAsOpaquePointer(), holds}];
  if (!found)
    found = &guards.emplace_back(Guard{outer, condition, holds, outer->depth + 1});
  return found;
}

Value Adjoints::negation(Value condition) {
  if (auto compare = condition.getDefiningOp<arith::CmpIOp>())
    return arith::CmpIOp::create(builder, loc, arith::invertPredicate(compare.getPredicate()),
                                 compare.getLhs(), compare.getRhs());
  Value one = arith::ConstantIntOp::create(builder, loc, 1, 1);
  return arith::XOrIOp::create(builder, loc, condition, one);
}

Value Adjoints::condition(const Guard *guard, const Guard *from) {
  bool isWhole = from == &root;
  if (isWhole)
    if (Value known = conditions.lookup(guard))
      return known;
  Value literal = guard->holds ? guard->condition : negation(guard->condition);
  if (guard->outer != from)
    literal = arith::AndIOp::create(builder, loc, condition(guard->outer, from), literal);
  if (isWhole)
    conditions[guard] = literal;
  return literal;
}

Value Adjoints::select(const Guard *guard, Value chosen, Value other) {
  if (!guard->holds)
    std::swap(chosen, other);
  return arith::SelectOp::create(builder, loc, guard->condition, chosen, other);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

void Adjoints::add(Value value, Term term) {
  if (term.product.coefficient != 0)
    terms[value].push_back(std::move(term));
}

void Adjoints::add(Sum &sum, const Product &product) {
  auto *like = llvm::find_if(sum, [&](const Product &p) { return haveSameFactors(p, product); });
  if (like == sum.end()) {
    sum.push_back(product);
    return;
  }
  like->coefficient += product.coefficient;
  if (like->coefficient == 0)
    sum.erase(like);
}

Product Adjoints::product(const Sum &sum) {
  if (sum.size() == 1)
    return sum.front();
  // Begin with a product that is added, so that the sum needs no negation.
  auto isAdded = [](const Product &product) { return !(product.coefficient < 0); };
  auto *first = llvm::find_if(sum, isAdded);
  if (first == sum.end())
    first = sum.begin();
  Value value = write(*first);
  for (const Product &each : sum) {
    if (&each == first)
      continue;
    Value next = magnitude(each);
    value = isAdded(each) ? arith::AddFOp::create(builder, loc, value, next).getResult()
                          : arith::SubFOp::create(builder, loc, value, next).getResult();
  }
  return Product().times(value);
}

/// Moves the deepest sum that can be joined there one level up. Returns false if there is none.
bool Adjoints::joinDeepest(Sums &sums, bool isLast) {
  SmallVector<const Guard *> deepest;
  for (auto &[guard, sum] : sums)
    deepest.push_back(guard);
  llvm::stable_sort(deepest, [](auto *a, auto *b) { return a->depth > b->depth; });
  for (const Guard *guard : deepest) {
    if (!guard->outer)
      continue;
    const Guard *sibling = where(guard->outer, guard->condition, !guard->holds);
    Product joined;
    if (sums.contains(sibling)) {
      Product ofThis = product(sums[guard]), ofSibling = product(sums[sibling]);
      joined = haveSameFactors(ofThis, ofSibling) && ofThis.coefficient == ofSibling.coefficient
                   ? ofThis
                   : Product().times(select(guard, write(ofThis), write(ofSibling)));
      sums.erase(sibling);
    } else {
      // If an outer guard has a sum, too, the value is used whether this guard holds or not.
      bool isUsed = isLast;
      for (const Guard *outer = guard->outer; outer; outer = outer->outer)
        isUsed |= sums.contains(outer);
      if (!isUsed)
        continue;
      joined = Product().times(select(guard, write(product(sums[guard])), number(0)));
    }
    sums.erase(guard);
    add(sums[guard->outer], joined);
    if (sums[guard->outer].empty())
      sums.erase(guard->outer);
    return true;
  }
  return false;
}

/// Joins sums whose guards are not nested in each other. The result's guard holds if any of
/// their guards does.
Term Adjoints::joinApart(const Sums &sums) {
  const Guard *around = sums.front().first;
  for (auto &[guard, sum] : sums) {
    const Guard *other = guard;
    while (around != other)
      (around->depth > other->depth ? around : other) =
          around->depth > other->depth ? around->outer : other->outer;
  }
  Value either, total;
  for (auto &[guard, sum] : sums) {
    Value holds = condition(guard, around);
    Value value = arith::SelectOp::create(builder, loc, holds, write(product(sum)), number(0));
    either = either ? arith::OrIOp::create(builder, loc, either, holds).getResult() : holds;
    total = total ? arith::AddFOp::create(builder, loc, total, value).getResult() : value;
  }
  return {where(around, either, true), Product().times(total)};
}

std::optional<Term> Adjoints::take(Value value, bool isLast) {
  auto found = terms.find(value);
  if (found == terms.end())
    return std::nullopt;
  Sums sums;
  for (const Term &term : found->second)
    add(sums[term.guard], term.product);
  terms.erase(found);
  sums.remove_if([](auto &entry) { return entry.second.empty(); });
  while (sums.size() > 1 && joinDeepest(sums, isLast))
    ;
  if (sums.empty())
    return std::nullopt;
  if (sums.size() > 1)
    return joinApart(sums);
  return Term{sums.front().first, product(sums.front().second)};
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value Adjoints::number(double value) {
  return arith::ConstantFloatOp::create(builder, loc, builder.getF32Type(),
                                        APFloat(static_cast<float>(value)));
}

Value Adjoints::multiplied(ValueRange factors, Value first) {
  for (Value factor : factors)
    first = first ? arith::MulFOp::create(builder, loc, first, factor).getResult() : factor;
  return first;
}

/// Writes |coefficient| · over / under.
Value Adjoints::magnitude(const Product &product) {
  auto select = [&](ValueRange values, bool uniform) {
    SmallVector<Value> chosen;
    for (Value value : values)
      if (isUniform(value) == uniform)
        chosen.push_back(value);
    return chosen;
  };
  double coefficient = std::fabs(product.coefficient);
  Value value = coefficient == 1 ? Value() : number(coefficient);
  for (bool uniform : {true, false}) {
    value = multiplied(select(product.over, uniform), value);
    if (Value divisor = multiplied(select(product.under, uniform)))
      value = arith::DivFOp::create(builder, loc, value ? value : number(1), divisor);
  }
  return value ? value : number(1);
}

Value Adjoints::write(const Product &product) {
  if (!(product.coefficient < 0))
    return magnitude(product);
  if (product.size() == 0)
    return number(product.coefficient);
  return arith::NegFOp::create(builder, loc, magnitude(product));
}

Value Adjoints::write(const Term &term) {
  Value value = write(term.product);
  if (term.guard == &root)
    return value;
  if (term.guard->outer == &root)
    return select(term.guard, value, number(0));
  // The guard says that all conditions are false: write 0 where one of them is true.
  Value any;
  for (const Guard *guard = term.guard; guard->outer && !guard->holds; guard = guard->outer) {
    any = any ? arith::OrIOp::create(builder, loc, guard->condition, any).getResult()
              : guard->condition;
    if (guard->outer == &root)
      return arith::SelectOp::create(builder, loc, any, number(0), value);
  }
  return arith::SelectOp::create(builder, loc, condition(term.guard, &root), value, number(0));
}

} // namespace tesela
