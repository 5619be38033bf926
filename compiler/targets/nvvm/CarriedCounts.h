//===- CarriedCounts.h - Loops that carry more ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_CARRIEDCOUNTS_H
#define TESELA_COMPILER_TARGETS_NVVM_CARRIEDCOUNTS_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tesela::nvvm {

/// Replaces `loop` by one that carries more values, which start as `starts`, behind its own. Each
/// is yielded as it came: the caller sets what the next iteration gets.
inline mlir::scf::ForOp carryMore(mlir::scf::ForOp loop, mlir::ValueRange starts) {
  mlir::IRRewriter rewriter(loop);
  auto yields = [](mlir::OpBuilder &, mlir::Location,
                   llvm::ArrayRef<mlir::BlockArgument> arguments) {
    return llvm::SmallVector<mlir::Value>(arguments.begin(), arguments.end());
  };
  return llvm::cast<mlir::scf::ForOp>(
      *llvm::cast<mlir::LoopLikeOpInterface>(*loop).replaceWithAdditionalYields(
          rewriter, starts, /*replaceInitOperandUsesInLoop=*/false, yields));
}

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_CARRIEDCOUNTS_H
