//===- WarpWords.cpp - Conditions that a warp tests together ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/WarpWords.h"

#include "targets/nvvm/ColumnWords.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tesela::nvvm {

using Predicate = arith::CmpIPredicate;

/// How many lanes share a row. Each holds two neighbouring columns of each eight.
static constexpr int64_t lanesOfRow = 4;
static constexpr int64_t columnsOfWord = 8 * ColumnWords::groupsOfWord;

WarpWords::WarpWords(OpBuilder &builder, Location loc, Value lane, int64_t columns)
    : builder(builder), loc(loc), lane(ptx().pinned(lane)), columns(columns),
      words((columns + columnsOfWord - 1) / columnsOfWord) {}

Value WarpWords::constant(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

Value WarpWords::column(int64_t word, int64_t vote) {
  Value group = arith::ShRUIOp::create(builder, loc, lane, constant(1));
  Value odd = arith::AndIOp::create(builder, loc, lane, constant(1));
  Value own = arith::AddIOp::create(builder, loc,
                                    arith::ShLIOp::create(builder, loc, group, constant(3)), odd);
  Value column =
      arith::AddIOp::create(builder, loc, own, constant(columnsOfWord * word + 2 * vote));
  if (columns >= columnsOfWord * (word + 1))
    return column;
  return arith::MinSIOp::create(builder, loc, column, constant(columns - 1));
}

/// What lane `lane` holds of its row.
Values WarpWords::heldBy(ValueRange row, Value lane) {
  return llvm::map_to_vector<2>(row, [&](Value held) { return ptx().shuffleFrom(held, lane); });
}

/// The lane's words of a row that holds `held`, which is the same in all lanes.
Values WarpWords::wordsOf(ValueRange held, Ask ask) {
  Values result;
  for (int64_t word = 0; word < words; ++word) {
    Value own;
    for (int64_t vote = 0; vote < votes; ++vote) {
      Value ballot = ptx().ballot(ask(word, vote, held));
      Value place = arith::AndIOp::create(builder, loc, lane, constant(lanesOfRow - 1));
      Value isOwn = arith::CmpIOp::create(builder, loc, Predicate::eq, place, constant(vote));
      own = own ? arith::SelectOp::create(builder, loc, isOwn, ballot, own).getResult() : ballot;
    }
    result.push_back(own);
  }
  return result;
}

Value WarpWords::allHoldTheSame(ArrayRef<Values> rows, ValueRange first) {
  auto bits = [&](Value value) {
    return builder.createOrFold<arith::BitcastOp>(loc, builder.getI32Type(), value);
  };
  Value same;
  for (const Values &row : rows)
    for (auto [held, other] : llvm::zip(row, first)) {
      Value one = arith::CmpIOp::create(builder, loc, Predicate::eq, bits(held), bits(other));
      same = same ? arith::AndIOp::create(builder, loc, same, one).getResult() : one;
    }
  return arith::CmpIOp::create(builder, loc, Predicate::eq, ptx().ballot(same), constant(-1));
}

/// Lanes 4·g to 4·g + 3 hold the same rows, so the eight groups of four lanes take turns.
Values WarpWords::inTurn(ArrayRef<Values> rows, Ask ask) {
  Values start(1 + rows.size() * words, constant(0));
  auto loop = scf::WhileOp::create(
      builder, loc, ValueRange(start).getTypes(), start,
      [&](OpBuilder &, Location, ValueRange carried) {
        ptx().keepLoop(); // this loop seldom runs
        Value more = arith::CmpIOp::create(builder, loc, Predicate::slt, carried.front(),
                                           constant(32 / lanesOfRow));
        scf::ConditionOp::create(builder, loc, more, carried);
      },
      [&](OpBuilder &, Location, ValueRange carried) {
        Value turn = carried.front();
        Value from = arith::MulIOp::create(builder, loc, turn, constant(lanesOfRow));
        Value place = arith::DivUIOp::create(builder, loc, lane, constant(lanesOfRow));
        Value isOwn = arith::CmpIOp::create(builder, loc, Predicate::eq, place, turn);
        Values next = {arith::AddIOp::create(builder, loc, turn, constant(1))};
        for (const Values &row : rows)
          for (Value word : wordsOf(heldBy(row, from), ask))
            next.push_back(
                arith::SelectOp::create(builder, loc, isOwn, word, carried[next.size()]));
        scf::YieldOp::create(builder, loc, next);
      });
  return Values(loop.getResults().drop_front());
}

SmallVector<Values> WarpWords::emit(ArrayRef<Values> rows, Ask ask) {
  Values first = heldBy(rows.front(), constant(0));
  auto branch = scf::IfOp::create(
      builder, loc, allHoldTheSame(rows, first),
      [&](OpBuilder &, Location) {
        Values common = wordsOf(first, ask), all;
        for (size_t row = 0; row < rows.size(); ++row)
          all.append(common);
        scf::YieldOp::create(builder, loc, all);
      },
      [&](OpBuilder &, Location) { scf::YieldOp::create(builder, loc, inTurn(rows, ask)); });
  SmallVector<Values> result;
  for (size_t row = 0; row < rows.size(); ++row)
    result.push_back(Values(branch.getResults().slice(row * words, words)));
  return result;
}

} // namespace tesela::nvvm
