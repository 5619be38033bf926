//===- EqualCounts.h - Loops carry each number once -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A role counts the uses of each of its channels. Channels that are used together have equal
// counts, and a loop would carry them all: a register each, and the stage and the parity of each
// anew.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_EQUALCOUNTS_H
#define TESELA_COMPILER_TARGETS_NVVM_EQUALCOUNTS_H

#include "llvm/IR/PassManager.h"

namespace tesela::nvvm {

/// Replaces integers that loops carry, and that are equal in every iteration, by one of them. Found
/// as by partition refinement (Alpern, Wegman and Zadeck, "Detecting equality of variables in
/// programs", POPL'88): phis of a block are taken as equal until what they receive differs.
struct EqualCounts : llvm::PassInfoMixin<EqualCounts> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &);
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_EQUALCOUNTS_H
