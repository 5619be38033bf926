//===- ConvergentAssembly.h - What a whole warp must run --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Barriers, votes, shuffles and matrix instructions are for all threads of a warp at once: where
// one stands behind a branch that only some of them take, the kernel hangs or is undefined. LLVM
// moves no call that is marked convergent to where it depends on other conditions. Of inline
// assembly it cannot tell, and the LLVM dialect's op for it has no place to say so; so the calls
// are marked by their text, once the module is LLVM IR.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_CONVERGENTASSEMBLY_H
#define TESELA_COMPILER_TARGETS_NVVM_CONVERGENTASSEMBLY_H

#include "llvm/ADT/StringRef.h"

namespace llvm {
class Module;
} // namespace llvm

namespace tesela::nvvm {

/// Whether an instruction of `text`, PTX, must be run by all threads of a warp together: those with
/// the qualifiers .sync or .aligned, and bar, which is barrier.cta with .aligned (PTX ISA, 9.7.13).
bool needsWholeWarp(llvm::StringRef text);

/// Marks the calls of inline assembly that need a whole warp as convergent.
void markConvergentAssembly(llvm::Module &module);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_CONVERGENTASSEMBLY_H
