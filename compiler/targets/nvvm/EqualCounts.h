//===- EqualCounts.h - Loops carry equal numbers once -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A role counts the uses of each of its channels. Channels that are used together have equal
// counts. Without this pass a loop would carry all of them: a register for each, and it would
// compute the stage and the parity of each separately.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_EQUALCOUNTS_H
#define TESELA_COMPILER_TARGETS_NVVM_EQUALCOUNTS_H

#include "llvm/IR/PassManager.h"

namespace tesela::nvvm {

/// Replaces integers that loops carry and that are equal in every iteration by one of them. It
/// finds them by partition refinement (Alpern, Wegman and Zadeck, "Detecting equality of variables
/// in programs", POPL'88): phis of a block count as equal until their incoming values differ.
struct EqualCounts : llvm::PassInfoMixin<EqualCounts> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &);
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_EQUALCOUNTS_H
