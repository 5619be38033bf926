//===- NegatedExtremes.cpp - A work-around for ptxas ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/NegatedExtremes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PatternMatch.h"

using namespace llvm;

namespace tesela::nvvm {

PreservedAnalyses NegatedExtremes::run(Function &function, FunctionAnalysisManager &) {
  // LLVM or ptxas may later make a minimum or maximum of what a select or a phi gives.
  auto mayFeedOne = [](User *user) {
    auto *extreme = dyn_cast<MinMaxIntrinsic>(user);
    return (extreme && extreme->isSigned()) || isa<SelectInst, PHINode, FreezeInst>(user);
  };
  bool isChanged = false;
  for (Instruction &instruction : make_early_inc_range(instructions(function))) {
    Value *negated = nullptr;
    if (!instruction.getType()->isIntegerTy(32) ||
        !match(&instruction, PatternMatch::m_Neg(PatternMatch::m_Value(negated))) ||
        none_of(instruction.users(), mayFeedOne))
      continue;
    Type *type = instruction.getType();
    InlineAsm *text = InlineAsm::get(FunctionType::get(type, {type}, /*isVarArg=*/false),
                                     "{\n .reg .b32 t;\n not.b32 t, $1;\n add.s32 $0, t, 1;\n}",
                                     "=r,r", /*hasSideEffects=*/false);
    IRBuilder<> builder(&instruction);
    Value *written = builder.CreateCall(text, {negated});
    instruction.replaceAllUsesWith(written);
    instruction.eraseFromParent();
    isChanged = true;
  }
  return isChanged ? PreservedAnalyses::none() : PreservedAnalyses::all();
}

} // namespace tesela::nvvm
