//===- CarriedProducts.cpp - Products of carried numbers --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/CarriedProducts.h"

#include "targets/nvvm/ConvergentAssembly.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace tesela::nvvm {
namespace {

/// A thread has two rows of a consumer's tile. Where a score brings more products, ALiBi was 1 %
/// slower if the loop carried all of them.
constexpr size_t rowsOfThread = 2;

/// A product of a number that a loop carries and a factor that is the same in all its iterations.
struct Product {
  BinaryOperator *op = nullptr;
  PHINode *phi = nullptr; ///< the number, or null: `op` is no such product
  Value *factor = nullptr;
};

/// The products by one factor in one loop.
class Products {
public:
  Products(const Loop &loop, const Product &first) : loop(loop), first(first) {}

  /// The phi whose values are the products of those of `phi`.
  PHINode *of(PHINode *phi) {
    if (PHINode *known = products.lookup(phi))
      return known;
    PHINode *product =
        PHINode::Create(phi->getType(), phi->getNumIncomingValues(), "", phi->getIterator());
    products[phi] = product;
    for (auto [value, block] : zip(phi->incoming_values(), phi->blocks())) {
      auto *other = dyn_cast<PHINode>(value);
      product->addIncoming(other && loop.contains(other) ? of(other) : multiplied(value, *block),
                           block);
    }
    return product;
  }

private:
  /// A block may come from another one by two edges, and then has one value for both.
  Value *multiplied(Value *value, BasicBlock &block) {
    Value *&product = inBlocks[{value, &block}];
    if (!product) {
      IRBuilder<> builder(block.getTerminator());
      builder.setFastMathFlags(first.op->getFastMathFlags());
      product = builder.CreateFMul(value, first.factor);
    }
    return product;
  }

  const Loop &loop;
  const Product &first;
  DenseMap<PHINode *, PHINode *> products;
  DenseMap<std::pair<Value *, BasicBlock *>, Value *> inBlocks;
};

/// Whether `loop` carries `phi`, or `phi` is a choice among values of which one is carried.
bool isCarried(PHINode &phi, const Loop &loop) {
  SmallVector<PHINode *> worklist = {&phi};
  SmallPtrSet<PHINode *, 4> seen = {&phi};
  while (!worklist.empty()) {
    PHINode *next = worklist.pop_back_val();
    if (next->getParent() == loop.getHeader())
      return true;
    if (loop.contains(next))
      for (Value *value : next->incoming_values())
        if (auto *other = dyn_cast<PHINode>(value); other && seen.insert(other).second)
          worklist.push_back(other);
  }
  return false;
}

/// Whether `loop` multiplies tiles by warpgroups (wgmma). Kernels with mma.sync have no registers
/// for more carried numbers: with them, D 128 spills 20 to 68 bytes on sm_80.
bool multipliesTiles(const Loop &loop) {
  return any_of(loop.blocks(), [](const BasicBlock *block) {
    return any_of(*block,
                  [](const Instruction &op) { return assemblyOf(op).contains("wgmma.mma_async"); });
  });
}

/// `op` as a product that `loop` can carry.
Product carriedProduct(Instruction &op, const Loop &loop) {
  if (op.getOpcode() == Instruction::FMul && op.getType()->isFloatTy())
    for (unsigned side : {0u, 1u})
      if (auto *phi = dyn_cast<PHINode>(op.getOperand(side));
          phi && loop.isLoopInvariant(op.getOperand(1 - side)) && isCarried(*phi, loop))
        return {cast<BinaryOperator>(&op), phi, op.getOperand(1 - side)};
  return {};
}

SmallVector<Product> carriedProducts(const Loop &loop) {
  SmallVector<Product> found;
  for (BasicBlock *block : loop.blocks())
    for (Instruction &op : *block)
      if (Product product = carriedProduct(op, loop); product.phi)
        found.push_back(product);
  return found;
}

} // namespace

PreservedAnalyses CarriedProducts::run(Function &function, FunctionAnalysisManager &analyses) {
  for (Loop *loop : analyses.getResult<LoopAnalysis>(function).getLoopsInPreorder()) {
    if (!loop->isInnermost() || !multipliesTiles(*loop))
      continue;
    SmallVector<Product> found = carriedProducts(*loop);
    if (found.size() != rowsOfThread)
      continue;
    for (const Product &product : found) {
      product.op->replaceAllUsesWith(Products(*loop, product).of(product.phi));
      product.op->eraseFromParent();
    }
  }
  PreservedAnalyses preserved;
  preserved.preserveSet<CFGAnalyses>();
  return preserved;
}

} // namespace tesela::nvvm
