//===- ConvergentAssembly.cpp - Assembly for whole warps --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/ConvergentAssembly.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace tesela::nvvm {

StringRef assemblyOf(const Instruction &instruction) {
  auto *call = dyn_cast<CallBase>(&instruction);
  auto *assembly = call ? dyn_cast<InlineAsm>(call->getCalledOperand()) : nullptr;
  return assembly ? StringRef(assembly->getAsmString()) : StringRef();
}

/// `instruction`: its text with qualifiers, such as "shfl.sync.idx.b32" or "bar.arrive".
static bool instructionNeedsWholeWarp(StringRef instruction) {
  SmallVector<StringRef> parts;
  instruction.split(parts, '.');
  return parts.size() > 1 &&
         (parts.front() == "bar" || is_contained(parts, "sync") || is_contained(parts, "aligned"));
}

bool needsWholeWarp(StringRef text) {
  SmallVector<StringRef> words;
  SplitString(text, words, " \n\t;{}");
  return any_of(words, instructionNeedsWholeWarp);
}

void markConvergentAssembly(Module &module) {
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (needsWholeWarp(assemblyOf(instruction)))
        cast<CallBase>(instruction).setConvergent();
}

} // namespace tesela::nvvm
