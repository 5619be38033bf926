//===- CarriedCounts.h - Loops that carry more values -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_CARRIEDCOUNTS_H
#define TESELA_COMPILER_TARGETS_NVVM_CARRIEDCOUNTS_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tesela::nvvm {

/// Replaces `loop` by one that also carries values that start as `starts`, behind its own. The body
/// yields each unchanged: the caller sets what the next iteration gets.
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

/// The same for an `scf.while`: it also carries a value that starts as `start`, behind its own, and
/// passes it on unchanged. The caller sets what the next iteration gets.
inline mlir::scf::WhileOp carryMore(mlir::scf::WhileOp loop, mlir::Value start) {
  mlir::OpBuilder builder(loop);
  auto types = llvm::to_vector(loop.getResultTypes());
  types.push_back(start.getType());
  auto starts = llvm::to_vector(loop.getInits());
  starts.push_back(start);
  auto wider = mlir::scf::WhileOp::create(builder, loop.getLoc(), types, starts);
  wider->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  wider.getBefore().takeBody(loop.getBefore());
  wider.getAfter().takeBody(loop.getAfter());
  mlir::Value before = wider.getBefore().addArgument(start.getType(), loop.getLoc());
  mlir::Value after = wider.getAfter().addArgument(start.getType(), loop.getLoc());
  wider.getConditionOp().getArgsMutable().append(before);
  wider.getYieldOp()->insertOperands(wider.getYieldOp()->getNumOperands(), after);
  loop.replaceAllUsesWith(wider.getResults().drop_back());
  loop.erase();
  return wider;
}

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_CARRIEDCOUNTS_H
