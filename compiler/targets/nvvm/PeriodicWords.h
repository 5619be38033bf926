//===- PeriodicWords.h - Words of conditions that repeat --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A condition that depends on tile.phase alone has one pattern for all rows; each row starts at
// another column of the pattern. For a pattern of up to 256 columns a warp holds 512 columns in one
// register per lane: eight words that begin at neighbouring columns, and those that follow them:
//
//   lane 8·i + a, a = 0..7, i = 0..3: bit 2·n + odd is that of column 128·i + 8·n + a + odd
//
// A row that starts at column 128·i + 8·m + a of the pattern has this word (ColumnWords.h): the
// words of lanes 8·i + a and 8·(i + 1) + a, joined and shifted by 2·m bits: two shuffles.
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

  /// The word that lane `lane` holds. `holds` gives the condition (i1) at a phase. `period` and
  /// `factor` are those of tile.phase.
  mlir::Value pattern(mlir::Value lane, mlir::Value period, mlir::Value factor,
                      llvm::function_ref<mlir::Value(mlir::Value phase)> holds);
  /// The word of a row that starts at column `begin` (i32, below 384) of the pattern. All lanes of
  /// the warp must come here together.
  mlir::Value word(mlir::Value pattern, mlir::Value begin);

private:
  /// x mod period, for an x that is less than twice the period.
  mlir::Value reduced(mlir::Value x, mlir::Value period);
  mlir::Value constant(int64_t value);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_PERIODICWORDS_H
