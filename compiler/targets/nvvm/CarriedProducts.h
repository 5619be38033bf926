//===- CarriedProducts.h - Products of carried numbers ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The exponentials of a block subtract m · c, where the loop over blocks carries m, the reference
// of a row, and c is the same for all blocks. If the loop carries m · c as well, the product is
// ready when the scores come. It also lives as long as m, and then ptxas 13.0 gives the products of
// a thread's two rows registers of different banks: their values stay in the operand cache while
// the two rows take turns. Otherwise it was seen to give them registers of the same bank, and a
// third of the warps' waits were for operands (docs/log/2026-11-29-first-item.md).
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_CARRIEDPRODUCTS_H
#define TESELA_COMPILER_TARGETS_NVVM_CARRIEDPRODUCTS_H

#include "llvm/IR/PassManager.h"

namespace tesela::nvvm {

/// Replaces products of a number that an innermost loop carries and one that is the same in all its
/// iterations by numbers that the loop carries, if the loop multiplies tiles by wgmma. The results
/// have the same bits.
struct CarriedProducts : llvm::PassInfoMixin<CarriedProducts> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_CARRIEDPRODUCTS_H
