//===- IterationSlice.cpp - A loop's scalars for another iteration -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/IterationSlice.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace tesela::nvvm {

bool followsIteration(scf::ForOp loop, Value value) {
  if (loop.isDefinedOutsideOfLoop(value) || value == loop.getInductionVar())
    return true;
  Operation *op = value.getDefiningOp();
  return op && op->getBlock() == loop.getBody() && op->getNumRegions() == 0 &&
         isMemoryEffectFree(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
           return followsIteration(loop, operand);
         });
}

Value copyForIteration(OpBuilder &builder, scf::ForOp loop, Value value, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  if (loop.isDefinedOutsideOfLoop(value))
    return value;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    copyForIteration(builder, loop, operand, mapping);
  builder.clone(*op, mapping);
  return mapping.lookup(value);
}

} // namespace tesela::nvvm
