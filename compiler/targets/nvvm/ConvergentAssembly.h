//===- ConvergentAssembly.h - Assembly for whole warps ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Barriers, votes, shuffles and matrix instructions must be run by all threads of a warp together.
// If one stands behind a branch that only some threads take, the kernel hangs or is undefined. LLVM
// does not move a call that is marked convergent to a place with other conditions. It cannot tell
// which inline assembly needs that, and the LLVM dialect's op for it has no such mark. So the calls
// are marked by their text, when the module is LLVM IR.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_CONVERGENTASSEMBLY_H
#define TESELA_COMPILER_TARGETS_NVVM_CONVERGENTASSEMBLY_H

#include "llvm/ADT/StringRef.h"

namespace llvm {
class Instruction;
class Module;
} // namespace llvm

namespace tesela::nvvm {

/// The text of a call of inline assembly; empty for any other instruction.
llvm::StringRef assemblyOf(const llvm::Instruction &instruction);

/// Whether all threads of a warp must run an instruction of `text` (PTX) together: instructions
/// with the qualifier .sync or .aligned, and bar, which is barrier.cta.aligned (PTX ISA, 9.7.13).
bool needsWholeWarp(llvm::StringRef text);

/// Marks the calls of inline assembly that need a whole warp as convergent.
void markConvergentAssembly(llvm::Module &module);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_CONVERGENTASSEMBLY_H
