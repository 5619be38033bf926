//===- EqualCounts.cpp - Loops carry equal numbers once ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/EqualCounts.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instructions.h"

#include <map>

using namespace llvm;

namespace tesela::nvvm {
namespace {

using Key = SmallVector<uintptr_t, 4>;

/// The class of each phi. Phis of the same class may be equal.
using Classes = DenseMap<Value *, size_t>;

/// Numbers values: two values have the same number if they are equal, provided that all phis of a
/// class are equal.
class Numbers {
public:
  explicit Numbers(const Classes &classes) : classes(classes) {}

  size_t of(Value *value) {
    if (auto known = numbers.find(value); known != numbers.end())
      return known->second;
    Key key = keyOf(value);
    size_t number = keys.try_emplace(std::move(key), keys.size()).first->second;
    return numbers[value] = number;
  }

private:
  enum Kind : uintptr_t { phi, computed, other };

  Key keyOf(Value *value) {
    if (auto found = classes.find(value); found != classes.end())
      return {phi, found->second};
    auto *instruction = dyn_cast<Instruction>(value);
    if (!instruction || !isa<BinaryOperator, CastInst>(instruction))
      return {other, uintptr_t(value)};
    // The key includes the flags that can make the result poison: nsw, nuw, exact.
    Key key = {computed, instruction->getOpcode(), instruction->getRawSubclassOptionalData(),
               uintptr_t(instruction->getType())};
    for (Value *operand : instruction->operands())
      key.push_back(of(operand));
    return key;
  }

  const Classes &classes;
  DenseMap<Value *, size_t> numbers;
  std::map<Key, size_t> keys;
};

/// Splits classes of `phis` whose members receive different values. Returns the number of classes.
size_t refine(ArrayRef<PHINode *> phis, Classes &classes) {
  Numbers numbers(classes);
  Classes refined;
  std::map<Key, size_t> found;
  for (PHINode *phi : phis) {
    Key key = {classes[phi]};
    for (BasicBlock *from : predecessors(phi->getParent()))
      key.push_back(numbers.of(phi->getIncomingValueForBlock(from)));
    refined[phi] = found.try_emplace(std::move(key), found.size()).first->second;
  }
  classes = std::move(refined);
  return found.size();
}

} // namespace

PreservedAnalyses EqualCounts::run(Function &function, FunctionAnalysisManager &) {
  SmallVector<PHINode *> phis;
  Classes classes;
  std::map<std::pair<BasicBlock *, Type *>, size_t> blocks;
  for (BasicBlock &block : function)
    for (PHINode &phi : block.phis())
      if (phi.getType()->isIntegerTy()) {
        phis.push_back(&phi);
        classes[&phi] = blocks.try_emplace({&block, phi.getType()}, blocks.size()).first->second;
      }
  for (size_t before = 0, count = blocks.size(); count != before;) {
    before = count;
    count = refine(phis, classes);
  }
  DenseMap<size_t, PHINode *> first;
  for (PHINode *phi : phis) {
    PHINode *kept = first.try_emplace(classes[phi], phi).first->second;
    if (kept == phi)
      continue;
    phi->replaceAllUsesWith(kept);
    phi->eraseFromParent();
  }
  PreservedAnalyses preserved;
  preserved.preserveSet<CFGAnalyses>();
  return preserved;
}

} // namespace tesela::nvvm
