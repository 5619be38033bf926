//===- LowerScalars.cpp - Scalars and bodies of maps ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Ops with one result that is one value: in the kernel itself, and for one element in the body of a
// map.
//
//===----------------------------------------------------------------------===//
#include "targets/common/Additions.h"
#include "targets/common/Phases.h"
#include "targets/nvvm/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numbers>

using namespace mlir;

namespace tesela::nvvm {

LogicalResult KernelLowering::lowerScalar(Operation *op) {
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    if (isa<tile::ViewType>(operand.getType()))
      continue; // its parts are arguments of the function
    auto known = values.find(operand);
    if (known == values.end() || known->second.size() != 1)
      return op->emitOpError() << "has no lowering to NVVM";
    mapping.map(operand, known->second.front());
  }
  if (op->getNumResults() != 1 || op->getNumRegions() != 0)
    return op->emitOpError() << "has no lowering to NVVM";
  values[op->getResult(0)] = {emitScalar(op, mapping)};
  return success();
}

/// docs/numerics.md lists the approximations and their errors. Masks hold no transcendental
/// functions here, because tile-inline-variant has expanded them.
Value KernelLowering::emitScalar(Operation *op, IRMapping &scalars) {
  auto operand = [&] { return scalars.lookupOrDefault(op->getOperand(0)); };
  auto times = [&](Value a, float b) -> Value {
    return arith::MulFOp::create(builder, loc, a, number(b));
  };
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](math::Exp2Op) { return ptx().exp2(operand()); })
      .Case([&](math::Log2Op) { return ptx().log2(operand()); })
      .Case([&](math::ExpOp) { return ptx().exp2(times(operand(), std::numbers::log2e_v<float>)); })
      .Case([&](math::LogOp) { return times(ptx().log2(operand()), std::numbers::ln2_v<float>); })
      .Case([&](math::TanhOp) { return ptx().tanh(operand()); })
      .Case([&](arith::DivFOp divide) -> Value {
        Value divisor = scalars.lookupOrDefault(divide.getRhs());
        if (bitEnumContainsAll(divide.getFastmath(), arith::FastMathFlags::arcp))
          return ptx().divide(operand(), divisor);
        return arith::DivFOp::create(builder, loc, operand(), divisor);
      })
      .Case([&](tile::ExtentOp extent) { return slots[KernelSignature::extent(extent.getName())]; })
      .Case([&](tile::ViewExtentOp extent) {
        return slots[viewOf(extent.getView()).extents[extent.getAxis()]];
      })
      .Case([&](tile::PhaseOp phase) {
        auto at = [&](Value value) { return scalars.lookupOrDefault(value); };
        return emitPhase(builder, loc, add(at(phase.getStart()), at(phase.getColumn())),
                         at(phase.getPeriod()), at(phase.getFactor()));
      })
      .Case([&](tile::ReadOp read) {
        Values indices;
        for (Value index : read.getIndices())
          indices.push_back(scalars.lookupOrDefault(index));
        return emitRead(read, indices);
      })
      .Case<tile::CollectOp, tile::DepositOp, tile::PutOp, tile::ExactSumOp>([&](auto each) {
        Values operands;
        for (Value operand : each->getOperands())
          if (!isa<tile::ViewType>(operand.getType()))
            operands.push_back(scalars.lookupOrDefault(operand));
        Addressing at{slots, viewOf(each.getView()), "device"};
        if (isa<tile::ExactSumOp>(op))
          return emitExactSumAt(builder, loc, operands, at);
        if (isa<tile::PutOp>(op)) {
          Type element = cast<tile::ViewType>(each.getView().getType()).getElementType();
          Value value = operands.front();
          if (!element.isF32())
            value = arith::TruncFOp::create(builder, loc, element, value);
          emitPut(builder, loc, value, ValueRange(operands).drop_front(), at);
          return operands.front();
        }
        // Four lanes hold the same row. Only the first one adds.
        Value adds = constant(1, 1);
        auto map = op->getParentOfType<tile::MapOp>();
        if (cast<tile::TileType>(map.getType()).getRank() == 1)
          adds = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, firstColumn,
                                       constant(0));
        emitAddition(builder, loc, op, operands.front(), ValueRange(operands).drop_front(), adds,
                     at);
        return operands.front();
      })
      .Default([&](Operation *other) { return builder.clone(*other, scalars)->getResult(0); });
}

} // namespace tesela::nvvm
