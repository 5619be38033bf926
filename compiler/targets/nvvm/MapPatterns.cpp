//===- MapPatterns.cpp - Conditions of a map that repeat --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/MapPatterns.h"

#include "analysis/UsedValues.h"
#include "targets/common/Phases.h"
#include "targets/nvvm/HoistPure.h"
#include "targets/nvvm/PeriodicWords.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

Value MapPatterns::word(Value condition, int64_t index, Value start) {
  Value &known = words[{condition, index, start}];
  if (known)
    return known;
  auto plus = [&](Value a, Value b) -> Value { return arith::AddIOp::create(builder, loc, a, b); };
  Value begin = plus(start, firstColumn);
  if (index > 0) {
    int64_t columnsOfWord = 8 * ColumnWords::groupsOfWord;
    begin = plus(begin, arith::ConstantIntOp::create(builder, loc, columnsOfWord * index, 32));
    tile::PhaseOp phase = columns.phaseOf(condition);
    begin = emitPhase(builder, loc, begin, outer.lookup(phase.getPeriod()),
                      outer.lookup(phase.getFactor()));
  }
  return known = PeriodicWords(builder, loc).word(patternOf(condition), begin);
}

/// The pattern is computed in front of the loops in which it does not change.
Value MapPatterns::patternOf(Value condition) {
  Value &pattern = patterns[condition];
  if (pattern)
    return pattern;
  tile::PhaseOp phase = columns.phaseOf(condition);
  Block *body = phase->getBlock();
  llvm::SetVector<Value> fromOutside;
  SmallVector<Value> worklist = {condition, phase.getPeriod(), phase.getFactor()};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (next.getParentBlock() != body)
      fromOutside.insert(next);
    else if (next != phase.getPhase())
      llvm::append_range(worklist, valuesUsedBy(*next.getDefiningOp()));
  }
  SmallVector<Value> needed = {lane};
  for (Value value : fromOutside)
    needed.push_back(outer.lookup(value));
  OpBuilder::InsertionGuard guard(builder);
  IRMapping copies = hoistPure(builder, needed), scalars;
  for (Value value : fromOutside)
    scalars.map(value, copies.lookupOrDefault(outer.lookup(value)));
  pattern = PeriodicWords(builder, loc)
                .pattern(lane, scalars.lookup(phase.getPeriod()), scalars.lookup(phase.getFactor()),
                         [&](Value at) {
                           IRMapping ofPhase = scalars;
                           ofPhase.map(phase.getPhase(), at);
                           return evaluate(condition, ofPhase);
                         });
  return pattern;
}

} // namespace tesela::nvvm
