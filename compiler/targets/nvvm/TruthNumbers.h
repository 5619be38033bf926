//===- TruthNumbers.h - A defect of ptxas -----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// ptxas 13.0 and 13.5 (13.0.88 and 13.5.37, sm_90a) turn a truth p (a predicate) into a number
// where it is needed: selp a, b, p with constants a and b; and p ? x : 0, which an AND reads, as
// x AND (selp -1, 0, p). Where two blocks need the same number, ptxas may compute it in the first
// of them alone, although the second one can be reached without the first: it then reads what the
// register held before. Seen where a mask joined a truth of the row, a bound and a read by the
// column: the block before a loop and the loop's own block needed the row's number.
//
// So a number that several blocks need is computed once, right behind the truth, which is on the way
// to all of them.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_TRUTHNUMBERS_H
#define TESELA_COMPILER_TARGETS_NVVM_TRUTHNUMBERS_H

#include "llvm/IR/PassManager.h"

namespace tesela::nvvm {

/// Writes the numbers of truths so: selects between two constants, selects with a zero, and
/// extensions of i1, of 32 and 64 bits. Runs behind all passes of LLVM that would write a select
/// back.
struct TruthNumbers : llvm::PassInfoMixin<TruthNumbers> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &);
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_TRUTHNUMBERS_H
