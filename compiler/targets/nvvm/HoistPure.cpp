//===- HoistPure.cpp - Moving computations in front of loops ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/HoistPure.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace tesela::nvvm {

static bool isInside(Value value, Operation *loop) {
  return loop->isAncestor(value.getParentBlock()->getParentOp());
}

/// Whether `value`, which is known inside of `loop`, is known or can be computed in front of it.
static bool isKnownBefore(Value value, Operation *loop) {
  if (!isInside(value, loop))
    return true;
  Operation *op = value.getDefiningOp();
  return op && isa<arith::ArithDialect>(op->getDialect()) && isPure(op) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isKnownBefore(operand, loop); });
}

static void copyBefore(Value value, Operation *loop, OpBuilder &builder, IRMapping &copies) {
  if (!isInside(value, loop) || copies.contains(value))
    return;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    copyBefore(operand, loop, builder, copies);
  builder.clone(*op, copies);
}

IRMapping hoistPure(OpBuilder &builder, ArrayRef<Value> values) {
  Operation *outermost = nullptr;
  for (Operation *op = builder.getInsertionBlock()->getParentOp(); op; op = op->getParentOp())
    if (isa<scf::ForOp, scf::WhileOp>(op) &&
        llvm::all_of(values, [&](Value value) { return isKnownBefore(value, op); }))
      outermost = op;
  IRMapping copies;
  if (!outermost)
    return copies;
  builder.setInsertionPoint(outermost);
  for (Value value : values)
    copyBefore(value, outermost, builder, copies);
  return copies;
}

} // namespace tesela::nvvm
