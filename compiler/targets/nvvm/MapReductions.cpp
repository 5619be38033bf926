//===- MapReductions.cpp - Words of any() and all() -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// In a row, any(i < n: c) is the union of the words of c in all rounds. The rounds are the outer
// loop. So values that a round's condition needs of the row alone, such as `start[h, q, i]`, are
// read once for all columns of the row.
//
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/nvvm/MapElements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

Value KernelLowering::MapElements::reductionWord(Value result, int64_t index, unsigned row) {
  if (!reductions.contains(result)) {
    SmallVector<Values> words = reductionWords(result.getDefiningOp<scf::ForOp>());
    reductions[result] = std::move(words);
  }
  return reductions[result][row][index];
}

SmallVector<Values> KernelLowering::MapElements::reductionWords(scf::ForOp loop) {
  BooleanReduction reduction = *BooleanReduction::of(loop);
  // Values that all rounds share are computed in front of the loop.
  SetVector<Value> beforehand = *columns.neededOfRow(loop.getResult(0));
  for (Row &row : rows)
    for (Value value : beforehand)
      ofRow(row, value);

  // The ops of a round without the join: those that depend on the row, and those that depend on the
  // column, too.
  SmallVector<Operation *> byRow, byColumn;
  llvm::DenseSet<Value> varying;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (&op == loop.getBody()->getTerminator()->getOperand(0).getDefiningOp())
      continue;
    bool varies = llvm::any_of(valuesUsedBy(op), [&](Value used) {
      return varying.contains(used) || (used.getParentBlock() == &body && !columns.isOfRow(used));
    });
    (varies ? byColumn : byRow).push_back(&op);
    if (varies)
      varying.insert_range(op.getResults());
  }

  int64_t wordsOfRow = shape.wordsOfRow();
  Values start = {ofRow(rows.front(), loop.getLowerBound())};
  start.append(rows.size() * wordsOfRow, lowering.constant(reduction.isAny ? 0 : -1));
  Value end = ofRow(rows.front(), loop.getUpperBound()), step = ofRow(rows.front(), loop.getStep());
  auto lowered = scf::WhileOp::create(
      builder, loc, ValueRange(start).getTypes(), start,
      [&](OpBuilder &, Location, ValueRange carried) {
        lowering.ptx().keepLoop();
        Value more =
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, carried.front(), end);
        scf::ConditionOp::create(builder, loc, more, carried);
      },
      [&](OpBuilder &, Location, ValueRange carried) {
        SmallVector<IRMapping> ofRows;
        for (Row &row : rows) {
          IRMapping &scalars = ofRows.emplace_back(row.scalars);
          scalars.map(loop.getInductionVar(), carried.front());
          for (Operation *op : byRow)
            lowering.emitInBody(op, &scalars);
        }
        SmallVector<Values> words =
            wordsByColumn(ofRows, [&](IRMapping &scalars, IRMapping &common) {
              for (Operation *op : byColumn) {
                for (Value used : valuesUsedBy(*op))
                  if (used.getParentBlock() == &body)
                    evaluate(used, scalars, common);
                lowering.emitInBody(op, &scalars);
              }
              // The condition may be computed in front of the loop, if it does not use the round.
              return evaluate(reduction.condition, scalars, common);
            });
        Values next = {lowering.add(carried.front(), step)};
        for (auto [number, ofRow] : llvm::enumerate(words))
          for (auto [index, word] : llvm::enumerate(ofRow)) {
            Value before = carried[1 + number * wordsOfRow + index];
            next.push_back(reduction.isAny
                               ? arith::OrIOp::create(builder, loc, before, word).getResult()
                               : arith::AndIOp::create(builder, loc, before, word).getResult());
          }
        scf::YieldOp::create(builder, loc, next);
      });

  SmallVector<Values> result(rows.size());
  for (auto [index, word] : llvm::enumerate(lowered.getResults().drop_front()))
    result[index / wordsOfRow].push_back(word);
  return result;
}

} // namespace tesela::nvvm
