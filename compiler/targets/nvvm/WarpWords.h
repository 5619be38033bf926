//===- WarpWords.h - Conditions that a warp asks together -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A condition on what a row holds and what a column holds, as id[q] == id[k], asked by each lane
// for its own elements, costs a lane a read for each of its columns and a comparison and a bit for
// each of its elements. A warp can ask it together, 32 columns of one row in one vote:
//
//   vote p of word i, p = 0..3: lane L asks for column 128·i + 8·(L / 2) + 2·p + L mod 2
//
// Its ballot is word i of that row (ColumnWords.h) for the lanes that begin with column 2·p. So a
// lane reads 4 columns of 128 instead of 32. Rows that hold the same have the same words: where all
// 16 rows of a warp do, as in long documents, 4 votes answer for all of them; else each row has its
// turn, which takes as many comparisons as the elements of the lanes would.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_WARPWORDS_H
#define TESELA_COMPILER_TARGETS_NVVM_WARPWORDS_H

#include "targets/nvvm/PtxInstructions.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tesela::nvvm {

class WarpWords {
public:
  static constexpr int64_t votes = 4; ///< of a word

  /// Of rows with `columns` columns; `lane` is the thread's. What follows from it is computed here:
  /// before a loop it would hold registers.
  WarpWords(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value lane, int64_t columns);

  /// The column (i32) for which this lane asks in vote `vote` of word `word`; one of the row's
  /// where it has no more.
  mlir::Value column(int64_t word, int64_t vote);

  /// Whether (i1) the condition holds of a row that holds `held` and column(word, vote).
  using Ask = llvm::function_ref<mlir::Value(int64_t word, int64_t vote, mlir::ValueRange held)>;
  /// The words of the lane's rows, which hold `rows` (i32 or f32), row by row. All lanes of the
  /// warp must come here together.
  llvm::SmallVector<Values> emit(llvm::ArrayRef<Values> rows, Ask ask);

private:
  Values wordsOf(mlir::ValueRange held, Ask ask);
  mlir::Value allHoldTheSame(llvm::ArrayRef<Values> rows, mlir::ValueRange first);
  Values inTurn(llvm::ArrayRef<Values> rows, Ask ask);
  Values heldBy(mlir::ValueRange row, mlir::Value lane);
  mlir::Value constant(int64_t value);
  PtxInstructions ptx() { return PtxInstructions(builder, loc); }

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Value lane;
  int64_t columns, words;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_WARPWORDS_H
