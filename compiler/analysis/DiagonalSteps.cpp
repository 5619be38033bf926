//===- DiagonalSteps.cpp --------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/DiagonalSteps.h"

#include "analysis/UsedValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {

DiagonalSteps::DiagonalSteps(Block &body) : body(body) {
  for (BlockArgument argument : body.getArguments())
    steps[argument] = std::nullopt;
}

std::optional<uint32_t> DiagonalSteps::of(Value value) {
  if (value.getParentBlock() != &body)
    return 0;
  auto known = steps.find(value);
  if (known != steps.end())
    return known->second;
  std::optional<uint32_t> step = find(value.getDefiningOp());
  return steps[value] = step;
}

std::optional<uint32_t> DiagonalSteps::find(Operation *op) {
  if (llvm::all_of(valuesUsedBy(*op), [&](Value used) { return of(used) == 0u; }))
    return 0;
  bool compares = isa<arith::CmpIOp>(op);
  if (!isa<arith::AddIOp, arith::SubIOp>(op) && !compares)
    return std::nullopt;
  Value a = op->getOperand(0), b = op->getOperand(1);
  std::optional<uint32_t> stepOfA = of(a), stepOfB = of(b);
  if (!stepOfA || !stepOfB)
    return std::nullopt;
  if (compares) {
    bool arePositions = positions.contains(a) && positions.contains(b);
    return arePositions ? std::optional<uint32_t>(0) : std::nullopt;
  }
  return isa<arith::AddIOp>(op) ? *stepOfA + *stepOfB : *stepOfA - *stepOfB; // wraps like i32
}

} // namespace tesela
