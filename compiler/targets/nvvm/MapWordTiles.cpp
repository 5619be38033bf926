//===- MapWordTiles.cpp - Maps that yield tiles of i1 -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/MapElements.h"
#include "targets/nvvm/WarpWords.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

void KernelLowering::MapElements::findJoined() {
  for (Operation &op : body.without_terminator())
    if (op.getNumResults() == 1 && !isKnownByRow(op.getResult(0)) && ColumnWords::isJoin(op) &&
        llvm::any_of(op.getOperands(), [&](Value operand) {
          return isKnownByRow(operand) || joined.contains(operand);
        }))
      joined.insert(op.getResult(0));
}

void KernelLowering::MapElements::findGathered(Value value, llvm::DenseSet<Value> &seen) {
  if (isKnownByRow(value) || !seen.insert(value).second)
    return;
  if (joined.contains(value)) {
    llvm::for_each(value.getDefiningOp()->getOperands(),
                   [&](Value operand) { findGathered(operand, seen); });
    return;
  }
  if (std::optional<SetVector<Value>> held = columns.heldByRows(value);
      held && askedByWarp++ < mostAskedByWarp)
    return askByWarp(value, held->getArrayRef());
  gathered.insert(
      {value, SmallVector<Values>(rows.size(), Values(shape.wordsOfRow(), lowering.constant(0)))});
  findNeeded(value);
}

void KernelLowering::MapElements::askByWarp(Value value, ArrayRef<Value> held) {
  WarpWords warp(builder, loc, lowering.lane, shape.columns);
  // Values that depend on the column are computed once, in front of the rows.
  SmallVector<Value> columnsNeeded = columns.neededOfColumn(value);
  SmallVector<IRMapping> common(shape.wordsOfRow() * WarpWords::votes, outer);
  for (auto [index, scalars] : llvm::enumerate(common)) {
    Value column = warp.column(index / WarpWords::votes, index % WarpWords::votes);
    if (lowering.partsOf(shape) > 1)
      column = lowering.add(column, begin);
    scalars.map(columnArgument(), column);
    for (Value needed : columnsNeeded)
      evaluate(needed, scalars, scalars);
  }
  SmallVector<Values> ofRows;
  for (Row &row : rows)
    ofRows.push_back(
        llvm::map_to_vector<2>(held, [&](Value source) { return row.scalars.lookup(source); }));
  SmallVector<Values> words = warp.emit(ofRows, [&](int64_t word, int64_t vote, ValueRange values) {
    IRMapping &ofVote = common[word * WarpWords::votes + vote], scalars = ofVote;
    scalars.map(held, values);
    return evaluate(value, scalars, ofVote);
  });
  for (auto [row, ofRow] : llvm::zip(rows, words))
    for (auto [index, word] : llvm::enumerate(ofRow))
      row.words->set(value, index, word);
}

Values KernelLowering::MapElements::emitWords(Value yielded) {
  if (looped.empty()) {
    findJoined();
    llvm::DenseSet<Value> seen;
    findGathered(yielded, seen);
  }
  if (!gathered.empty())
    forEachSlice([&](MutableArrayRef<Element> elements) {
      emitElements(elements);
      for (Element &at : elements)
        for (auto &[value, words] : gathered) {
          Value &word = words[&at.row - rows.data()][wordOf(at)];
          word = lowering.ptx().withBitIf(word, bitOf(at), ofElement(at, value));
        }
    });
  Values results;
  for (auto [number, row] : llvm::enumerate(rows))
    for (int64_t index = 0; index < shape.wordsOfRow(); ++index) {
      for (auto &[value, words] : gathered)
        row.words->set(value, index, words[number][index]);
      results.push_back(looped.empty() ? row.words->word(yielded, index) : joinedWord(row, index));
    }
  return results;
}

} // namespace tesela::nvvm
