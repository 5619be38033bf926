//===- TruthNumbers.h - A work-around for ptxas -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// ptxas 13.0 and 13.5 (13.0.88 and 13.5.37, sm_90a) turn a predicate p into a number where a number
// is needed: selp a, b, p with constants a and b; or, for p ? x : 0 that an AND reads, x AND (selp
// -1, 0, p). If two blocks need the same number, ptxas may compute it in the first block only,
// although the second block can be reached without the first. Then the second block reads an old
// value of the register. Seen with a mask that joined a truth of the row, a bound and a read by the
// column: the block before a loop and the loop's own block needed the row's number.
//
// So this pass computes a number that several blocks need once, right behind its predicate: every
// path to these blocks goes through that place.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_TRUTHNUMBERS_H
#define TESELA_COMPILER_TARGETS_NVVM_TRUTHNUMBERS_H

#include "llvm/IR/PassManager.h"

namespace tesela::nvvm {

/// Rewrites numbers of predicates: selects between two constants, selects with a zero, and
/// extensions of i1, with 32 and 64 bits. Must run behind all LLVM passes that would turn them back
/// into selects.
struct TruthNumbers : llvm::PassInfoMixin<TruthNumbers> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &);
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_TRUTHNUMBERS_H
