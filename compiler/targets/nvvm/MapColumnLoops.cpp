//===- MapColumnLoops.cpp - Words from a loop over columns ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/nvvm/MapElements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

void KernelLowering::MapElements::loopOverColumns() {
  std::optional<SetVector<Value>> beforehand = columns.neededOfRow(rest);
  if (!beforehand || rest.empty())
    return;
  looped = std::exchange(rest, {});
  for (Row &row : rows)
    for (Value value : *beforehand)
      ofRow(row, value);
  SmallVector<IRMapping> ofRows;
  for (Row &row : rows)
    ofRows.push_back(row.scalars);
  SmallVector<Values> words = wordsByColumn(ofRows, [&](IRMapping &scalars, IRMapping &common) {
    Value kept;
    for (Value each : looped) {
      Value next = evaluate(each, scalars, common);
      kept = kept ? arith::AndIOp::create(builder, loc, kept, next).getResult() : next;
    }
    return kept;
  });
  for (auto [row, ofRow] : llvm::zip_equal(rows, words))
    row.looped = ofRow;
}

SmallVector<Values> KernelLowering::MapElements::wordsByColumn(ArrayRef<IRMapping> ofRows,
                                                               EvaluateCondition condition) {
  SmallVector<Values> words(ofRows.size());
  for (int64_t first = 0; first < shape.groups(); first += ColumnWords::groupsOfWord) {
    int64_t count = std::min(shape.groups() - first, ColumnWords::groupsOfWord);
    Values start(1 + ofRows.size(), lowering.constant(0));
    auto loop = scf::WhileOp::create(
        builder, loc, ValueRange(start).getTypes(), start,
        [&](OpBuilder &, Location, ValueRange carried) {
          lowering.ptx().keepLoop();
          Value more = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                             carried.front(), lowering.constant(count));
          scf::ConditionOp::create(builder, loc, more, carried);
        },
        [&](OpBuilder &, Location, ValueRange carried) {
          Values next(carried);
          for (int64_t odd = 0; odd < 2; ++odd)
            addColumn(first, odd, ofRows, condition, next);
          next.front() = lowering.add(next.front(), lowering.constant(1));
          scf::YieldOp::create(builder, loc, next);
        });
    for (auto [ofRow, word] : llvm::zip_equal(words, loop.getResults().drop_front()))
      ofRow.push_back(word);
  }
  return words;
}

void KernelLowering::MapElements::addColumn(int64_t first, int64_t odd, ArrayRef<IRMapping> ofRows,
                                            EvaluateCondition condition,
                                            MutableArrayRef<Value> groupAndWords) {
  Value group = groupAndWords.front();
  Value column = lowering.add(lowering.multiply(group, lowering.constant(8)),
                              lowering.add(firstColumn, lowering.constant(8 * first + odd)));
  Value bit = lowering.add(lowering.multiply(group, lowering.constant(2)), lowering.constant(odd));
  IRMapping common = outer;
  common.map(columnArgument(), column);
  for (auto [ofRow, word] : llvm::zip_equal(ofRows, groupAndWords.drop_front())) {
    IRMapping scalars = ofRow;
    scalars.map(columnArgument(), column);
    Value holds = condition(scalars, common);
    holds = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), holds);
    word =
        arith::OrIOp::create(builder, loc, word, arith::ShLIOp::create(builder, loc, holds, bit));
  }
}

Value KernelLowering::MapElements::evaluate(Value value, IRMapping &scalars, IRMapping &common) {
  if (Value known = scalars.lookupOrNull(value))
    return known;
  if (columns.isOfColumn(value) && &scalars != &common) {
    scalars.map(value, evaluate(value, common, common));
  } else {
    Operation *op = value.getDefiningOp();
    for (Value used : valuesUsedBy(*op))
      if (!isa<tile::ViewType>(used.getType()))
        evaluate(used, scalars, common);
    lowering.emitInBody(op, &scalars);
  }
  return scalars.lookup(value);
}

} // namespace tesela::nvvm
