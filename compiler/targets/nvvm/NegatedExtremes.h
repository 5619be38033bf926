//===- NegatedExtremes.h - A work-around for ptxas --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// ptxas 13.0 (13.0.88, sm_90a) combines two signed minima or maxima of i32 into one VIMNMX3 and
// loses the sign of a negated operand: min(min(a, -b), c) gives min(a, b, c). Unsigned ones and
// sums are right. So this pass writes a negation as ~x + 1, which ptxas does not recognise, if a
// minimum or maximum reads it, or a select that may become one.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_NEGATEDEXTREMES_H
#define TESELA_COMPILER_TARGETS_NVVM_NEGATEDEXTREMES_H

#include "llvm/IR/PassManager.h"

namespace tesela::nvvm {

/// Rewrites such negations. Must be the last pass, because LLVM would rewrite them back.
struct NegatedExtremes : llvm::PassInfoMixin<NegatedExtremes> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &);
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_NEGATEDEXTREMES_H
