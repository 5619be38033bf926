//===- MapConditions.cpp - Conditions of maps as words of bits --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/SeldomMap.h"
#include "analysis/UsedValues.h"
#include "targets/nvvm/MapElements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

void KernelLowering::MapElements::splitCondition(Value yielded) {
  Value asked = yielded;
  if (!isWords) {
    auto select = yielded.getDefiningOp<arith::SelectOp>();
    if (!select || select->getBlock() != &body || columns.isOfRow(select.getCondition()) ||
        isa<BlockArgument>(select.getCondition()))
      return;
    asked = select.getCondition();
  }
  llvm::DenseSet<Value> seen;
  std::function<void(Value)> split = [&](Value value) {
    if (!seen.insert(value).second)
      return;
    auto both = value.getDefiningOp<arith::AndIOp>();
    if (columns.isFormula(value) || (columns.isOfRow(value) && (isWords || !parts.empty()))) {
      parts.push_back(value);
    } else if (both && both->getBlock() == &body) {
      split(both.getLhs());
      split(both.getRhs());
    } else {
      rest.push_back(value);
    }
  };
  bool hasLoops = llvm::any_of(body.getOps<scf::ForOp>(),
                               [&](scf::ForOp loop) { return !isKnownByRow(loop.getResult(0)); });
  bool isLooped = isSeldom(map) || hasLoops;
  if (isWords && (!isLooped || isKnownByRow(asked)))
    return; // emitWords joins the words
  if (isSeldom(map))
    rest.push_back(asked);
  else
    split(asked);
  if (isLooped || asksLoops(rest))
    loopOverColumns();
  if (isWords)
    return;
  if (parts.empty() && looped.empty())
    rest.clear();
  else
    condition = asked;
}

bool KernelLowering::MapElements::asksLoops(ArrayRef<Value> conditions) {
  llvm::SetVector<Value> asked(conditions.begin(), conditions.end());
  for (size_t i = 0; i < asked.size(); ++i) {
    Operation *op = asked[i].getDefiningOp();
    if (!op || op->getBlock() != &body || columns.isOfRow(asked[i]))
      continue;
    if (isa<scf::ForOp>(op))
      return true;
    asked.insert_range(valuesUsedBy(*op));
  }
  return false;
}

Value KernelLowering::MapElements::hasBit(Value word, int64_t bit) {
  Value single = lowering.constant(int32_t(uint32_t(1) << bit));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                               arith::AndIOp::create(builder, loc, word, single),
                               lowering.constant(0));
}

Value KernelLowering::MapElements::keeps(Element &at) {
  Value word = joinedWord(at.row, wordOf(at));
  return rest.empty() ? hasBit(word, bitOf(at))
                      : lowering.ptx().hasBitAnd(word, bitOf(at), keepsRest(at));
}

Value KernelLowering::MapElements::keepsRest(Element &at) {
  Value kept;
  for (Value other : rest)
    kept = kept ? lowering.ptx().both(kept, ofElement(at, other)) : ofElement(at, other);
  return kept;
}

Value KernelLowering::MapElements::joinedWord(Row &row, int64_t index) {
  Value word = looped.empty() ? Value() : row.looped[index];
  for (Value part : parts) {
    Value next = row.words->word(part, index);
    word = word ? arith::AndIOp::create(builder, loc, word, next).getResult() : next;
  }
  return word;
}

} // namespace tesela::nvvm
