//===- NegatedExtremes.h - A defect of ptxas --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// ptxas 13.0 (13.0.88, sm_90a) makes one VIMNMX3 of two signed minima or maxima of i32, and drops
// the sign of an operand that is a negation: min(min(a, -b), c) gives min(a, b, c). Unsigned ones,
// and sums, it gets right. So a negation that a minimum or maximum reads, or a choice that may
// become one, is written as ~x + 1, which ptxas does not take for one.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_NEGATEDEXTREMES_H
#define TESELA_COMPILER_TARGETS_NVVM_NEGATEDEXTREMES_H

#include "llvm/IR/PassManager.h"

namespace tesela::nvvm {

/// Writes such negations so. The last pass: LLVM would write them back.
struct NegatedExtremes : llvm::PassInfoMixin<NegatedExtremes> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &);
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_NEGATEDEXTREMES_H
