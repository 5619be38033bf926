//===- MarkUniform.cpp - pipe-mark-uniform ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/Passes.h"

#include "pipe/Pipe.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPEMARKUNIFORM
#include "targets/nvvm/Passes.h.inc"

namespace {

bool isNumberOutside(Value value, scf::WhileOp loop) {
  return value.getType().isInteger(32) && loop.isDefinedOutsideOfLoop(value) &&
         !matchPattern(value, m_Constant());
}

/// The numbers from in front of `loop` among which it chooses, and those to which it compares an
/// iteration in order to choose. Only a loop over several runs of blocks has them
/// (tile-lower-blocks): the run decides where a block lies. A choice of a constant is left out: no
/// variant of the library has one.
llvm::SetVector<Value> numbersOfRuns(scf::WhileOp loop) {
  llvm::SetVector<Value> numbers;
  llvm::SmallPtrSet<Operation *, 4> choices;
  for (auto choice : loop.getBeforeBody()->getOps<arith::SelectOp>()) {
    auto test = choice.getCondition().getDefiningOp<arith::CmpIOp>();
    Value others = choice.getFalseValue();
    bool isOfRuns = test && isNumberOutside(choice.getTrueValue(), loop) &&
                    (isNumberOutside(others, loop) || choices.contains(others.getDefiningOp()));
    if (!isOfRuns)
      continue;
    choices.insert(choice);
    for (Value value : {choice.getTrueValue(), others, test.getLhs(), test.getRhs()})
      if (isNumberOutside(value, loop))
        numbers.insert(value);
  }
  return numbers;
}

void mark(scf::WhileOp loop) {
  llvm::SetVector<Value> numbers = numbersOfRuns(loop);
  if (numbers.empty())
    return;
  OpBuilder builder(loop);
  auto uniform = [&](Value number) -> Value {
    return pipe::UniformOp::create(builder, loop.getLoc(), number.getType(), number);
  };
  bool addsOut = loop.walk([](pipe::AddOutOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (!addsOut) {
    for (OpOperand &init : loop->getOpOperands())
      if (init.get().getType().isInteger(32) && isa<BlockArgument>(init.get()))
        init.set(uniform(init.get()));
    return;
  }
  for (Value number : numbers)
    number.replaceUsesWithIf(
        uniform(number), [&](OpOperand &use) { return loop->isProperAncestor(use.getOwner()); });
}

struct PipeMarkUniform : impl::PipeMarkUniformBase<PipeMarkUniform> {
  void runOnOperation() override {
    getOperation().walk([](pipe::RolesOp roles) {
      roles.getConsumers().walk([](scf::WhileOp loop) {
        if (loop->hasAttr(countedAttr))
          mark(loop);
      });
    });
  }
};

} // namespace
} // namespace tesela
