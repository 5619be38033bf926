//===- CarriedProducts.h - Products of carried numbers ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The exponentials of a block subtract m · c, where the loop over blocks carries m, the reference
// of a row, and c is the same for all blocks. If the loop carries m · c as well, the product is
// ready when the scores come. A thread has two such products, which take turns as operands. The
// operand cache keeps both only if their registers are in different banks. ptxas 13.0 gave them
// such registers where the loop carries them. Where it does not, eleven kernels of D 64 had both in
// one bank. Of the warps' samples of one of them, 16.2 % were in `stall_dispatch`; a kernel with
// two banks had 12.9 % (docs/log/2026-11-29-first-item.md).
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
