//===- TruthNumbers.cpp - A work-around for ptxas ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/TruthNumbers.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/PatternMatch.h"

#include <tuple>

using namespace llvm;

namespace tesela::nvvm {
namespace {

/// The number truth ? whenTrue : whenFalse of two constants. `joined`: a value to which it is
/// joined by AND; null if there is none.
struct Number {
  Value *truth;
  Constant *whenTrue, *whenFalse;
  Value *joined;
};

bool isZero(Value *value) {
  auto *constant = dyn_cast<ConstantInt>(value);
  return constant && constant->isZero();
}

std::optional<Number> numberOf(Instruction &instruction) {
  Type *type = instruction.getType();
  if (!type->isIntegerTy(32) && !type->isIntegerTy(64) && !type->isFloatTy())
    return std::nullopt;
  auto integer = [&](int64_t value) { return ConstantInt::getSigned(type, value); };
  if (isa<ZExtInst, SExtInst>(instruction)) {
    Value *truth = instruction.getOperand(0);
    if (!truth->getType()->isIntegerTy(1))
      return std::nullopt;
    return Number{truth, integer(isa<SExtInst>(instruction) ? -1 : 1), integer(0), nullptr};
  }
  auto *select = dyn_cast<SelectInst>(&instruction);
  if (!select || !select->getCondition()->getType()->isIntegerTy(1))
    return std::nullopt;
  Value *a = select->getTrueValue(), *b = select->getFalseValue();
  if (isa<ConstantInt, ConstantFP>(a) && isa<ConstantInt, ConstantFP>(b))
    return Number{select->getCondition(), cast<Constant>(a), cast<Constant>(b), nullptr};
  if (isZero(b))
    return Number{select->getCondition(), integer(-1), integer(0), a};
  if (isZero(a))
    return Number{select->getCondition(), integer(0), integer(-1), b};
  return std::nullopt;
}

/// The place right behind `truth`, which is an instruction or an argument of `function`.
Instruction *placeBehind(Value *truth, Function &function) {
  auto *instruction = dyn_cast<Instruction>(truth);
  if (!instruction)
    return &*function.getEntryBlock().getFirstInsertionPt();
  return isa<PHINode>(instruction) ? &*instruction->getParent()->getFirstInsertionPt()
                                   : instruction->getNextNode();
}

/// Written as assembly, because LLVM would sink a select into the block that needs it.
Value *writeNumber(const Number &number, Function &function) {
  Type *type = number.whenTrue->getType();
  Type *truth = Type::getInt1Ty(function.getContext());
  bool isWide = type->isIntegerTy(64);
  const char *constraints = type->isFloatTy() ? "=f,f,f,b" : isWide ? "=l,l,l,b" : "=r,r,r,b";
  InlineAsm *text =
      InlineAsm::get(FunctionType::get(type, {type, type, truth}, /*isVarArg=*/false),
                     isWide ? "selp.b64 $0, $1, $2, $3;" : "selp.b32 $0, $1, $2, $3;", constraints,
                     /*hasSideEffects=*/false);
  IRBuilder<> builder(placeBehind(number.truth, function));
  return builder.CreateCall(text, {number.whenTrue, number.whenFalse, number.truth});
}

} // namespace

PreservedAnalyses TruthNumbers::run(Function &function, FunctionAnalysisManager &) {
  using Key = std::tuple<Value *, Constant *, Constant *>;
  MapVector<Key, SmallVector<Instruction *>> needed; // in the order of the function
  for (Instruction &instruction : instructions(function)) {
    std::optional<Number> number = numberOf(instruction);
    if (number && !isa<Constant>(number->truth))
      needed[{number->truth, number->whenTrue, number->whenFalse}].push_back(&instruction);
  }
  bool isChanged = false;
  for (auto &[key, users] : needed) {
    auto isElsewhere = [&](Instruction *user) {
      return user->getParent() != users.front()->getParent();
    };
    if (none_of(users, isElsewhere))
      continue; // in a single block every reader comes behind the computation
    isChanged = true;
    Value *written = writeNumber(*numberOf(*users.front()), function);
    for (Instruction *user : users) {
      Value *joined = numberOf(*user)->joined;
      IRBuilder<> builder(user);
      user->replaceAllUsesWith(joined ? builder.CreateAnd(joined, written) : written);
      user->eraseFromParent();
    }
  }
  return isChanged ? PreservedAnalyses::none() : PreservedAnalyses::all();
}

} // namespace tesela::nvvm
