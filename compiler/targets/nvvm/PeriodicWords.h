//===- PeriodicWords.h - Words of conditions that repeat --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A condition that follows from tile.phase alone has one pattern for all rows, of which each has
// another begin. Of a pattern of up to 256 columns a warp holds 512 columns in one register, eight
// words that begin with neighbouring columns, and those that go on where they end:
//
//   lane 8·i + a, a = 0..7, i = 0..3: bit 2·n + odd says it of column 128·i + 8·n + a + odd
//
// The word (ColumnWords.h) of a row that begins in column 128·i + 8·m + a of the pattern is the
// lanes 8·i + a and 8·(i + 1) + a, one behind the other, shifted by 2·m bits: two shuffles.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_PERIODICWORDS_H
#define TESELA_COMPILER_TARGETS_NVVM_PERIODICWORDS_H

#include "targets/nvvm/PtxInstructions.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tesela::nvvm {

class PeriodicWords {
public:
  PeriodicWords(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  /// What lane `lane` holds; `holds` gives the condition (i1) at a phase. `period` and `factor` are
  /// those of tile.phase.
  mlir::Value pattern(mlir::Value lane, mlir::Value period, mlir::Value factor,
                      llvm::function_ref<mlir::Value(mlir::Value phase)> holds);
  /// The word of a row that begins in column `begin` (i32) of the pattern, below 384. All lanes of
  /// the warp must come here together.
  mlir::Value word(mlir::Value pattern, mlir::Value begin);

private:
  /// From x, less than twice the period, to x mod period.
  mlir::Value reduced(mlir::Value x, mlir::Value period);
  mlir::Value constant(int64_t value);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_PERIODICWORDS_H
