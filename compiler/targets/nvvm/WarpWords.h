//===- WarpWords.h - Conditions that a warp tests together ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Take a condition that compares what a row holds with what a column holds, such as id[q] == id[k].
// If each lane tests its own elements, it needs a read for each column, and a comparison and a bit
// for each element. A warp can test them together, 32 columns of one row in one vote:
//
//   vote p of word i, p = 0..3: lane L asks for column 128·i + 8·(L / 2) + 2·p + L mod 2
//
// The ballot is word i of that row (ColumnWords.h) for the lanes that begin with column 2·p. So a
// lane reads 4 of 128 columns instead of 32. Rows that hold the same value have the same words. If
// all 16 rows of a warp do, as in long documents, 4 votes answer for all of them. Otherwise the
// rows take turns, which needs as many comparisons as if each lane tested its own elements.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_WARPWORDS_H
#define TESELA_COMPILER_TARGETS_NVVM_WARPWORDS_H

#include "targets/nvvm/PtxInstructions.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tesela::nvvm {

class WarpWords {
public:
  static constexpr int64_t votes = 4; ///< votes for a word

  /// For rows with `columns` columns; `lane` is the thread's. Values that depend on the lane are
  /// computed here, because in front of a loop they would hold registers.
  WarpWords(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value lane, int64_t columns);

  /// The column (i32) that this lane tests in vote `vote` of word `word`. Beyond the last column it
  /// is one of the row's columns.
  mlir::Value column(int64_t word, int64_t vote);

  /// Whether (i1) the condition is true for a row that holds `held` and column(word, vote).
  using Ask = llvm::function_ref<mlir::Value(int64_t word, int64_t vote, mlir::ValueRange held)>;
  /// The words of the lane's rows, row by row. `rows`: what the rows hold (i32 or f32). All lanes
  /// of the warp must come here together.
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
