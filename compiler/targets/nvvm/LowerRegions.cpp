//===- LowerRegions.cpp - Loops and branches --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A loop or a branch carries each value of the kernel as the list of values to which it is lowered.
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/LoopLanes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela::nvvm {

static Values flatten(ValueRange operands, llvm::function_ref<const Values &(Value)> valuesOf) {
  Values flat;
  for (Value operand : operands)
    llvm::append_range(flat, valuesOf(operand));
  return flat;
}

SmallVector<Type> KernelLowering::flatTypes(TypeRange types) {
  SmallVector<Type> flat;
  for (Type type : types)
    llvm::append_range(flat, typesOf(type));
  return flat;
}

void KernelLowering::distribute(ValueRange originals, ValueRange flat) {
  for (Value original : originals) {
    size_t count = typesOf(original.getType()).size();
    values[original] = Values(flat.take_front(count));
    flat = flat.drop_front(count);
  }
}

/// Whether scalars of the consumers are divided by a number that is not known.
static bool dividesScalars(pipe::RolesOp roles) {
  WalkResult found = roles.getConsumers().walk<WalkOrder::PreOrder>([](Operation *op) {
    if (isa<tile::MapOp>(op))
      return WalkResult::skip();
    bool divides = isa<arith::CeilDivSIOp, arith::CeilDivUIOp, arith::DivSIOp, arith::DivUIOp,
                       arith::FloorDivSIOp>(op) &&
                   !matchPattern(op->getOperand(1), m_Constant());
    return divides ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found.wasInterrupted();
}

LogicalResult KernelLowering::lowerFor(scf::ForOp loop) {
  auto lookup = [&](Value value) -> const Values & { return valuesOf(value); };
  Location outer = loc;
  Value low = valueOf(loop.getLowerBound()), high = valueOf(loop.getUpperBound());
  // ptxas 13.0 divides in vector registers. If the ends of a loop follow from a quotient, it
  // assumes that the loop's counts differ between threads, and keeps descriptors and the addresses
  // of barriers in vector registers.
  if (auto roles = loop->getParentOfType<pipe::RolesOp>();
      roles && !loop.getBody()->getOps<pipe::DotStartOp>().empty() && dividesScalars(roles)) {
    low = ptx().uniform(low);
    high = ptx().uniform(high);
  }
  auto lowered = scf::ForOp::create(builder, loc, low, high, valueOf(loop.getStep()),
                                    flatten(loop.getInitArgs(), lookup));
  values[loop.getInductionVar()] = {lowered.getInductionVar()};
  distribute(loop.getRegionIterArgs(), lowered.getRegionIterArgs());
  OpBuilder::InsertionGuard guard(builder);
  Block *body = lowered.getBody();
  if (!body->empty() && body->back().hasTrait<OpTrait::IsTerminator>())
    body->back().erase();
  builder.setInsertionPointToEnd(body);
  if (failed(lowerBlock(*loop.getBody())))
    return failure();
  scf::YieldOp::create(builder, outer,
                       flatten(loop.getBody()->getTerminator()->getOperands(), lookup));
  distribute(loop.getResults(), lowered.getResults());
  loc = outer;
  builder.setInsertionPointAfter(lowered);
  bool isOfAllThreads = !loop->getParentOfType<pipe::RolesOp>();
  if (SmallVector<Value> results =
          isOfAllThreads ? doIterationsInLanes(builder, lowered, lane) : SmallVector<Value>();
      !results.empty()) {
    distribute(loop.getResults(), results);
    lowered.erase();
  }
  return success();
}

LogicalResult KernelLowering::lowerWhile(scf::WhileOp loop) {
  Location outer = loc;
  auto lookup = [&](Value value) -> const Values & { return valuesOf(value); };
  auto lowered = scf::WhileOp::create(builder, loc, flatTypes(loop.getResultTypes()),
                                      flatten(loop.getInits(), lookup));
  auto lowerRegion = [&](Block &source, Region &target) {
    SmallVector<Type> types = flatTypes(source.getArgumentTypes());
    SmallVector<Location> locations(types.size(), outer);
    Block *block = builder.createBlock(&target, {}, types, locations);
    distribute(source.getArguments(), block->getArguments());
    return lowerBlock(source);
  };
  OpBuilder::InsertionGuard guard(builder);
  if (failed(lowerRegion(*loop.getBeforeBody(), lowered.getBefore())))
    return failure();
  auto condition = loop.getConditionOp();
  scf::ConditionOp::create(builder, outer, valueOf(condition.getCondition()),
                           flatten(condition.getArgs(), lookup));
  if (failed(lowerRegion(*loop.getAfterBody(), lowered.getAfter())))
    return failure();
  scf::YieldOp::create(builder, outer, flatten(loop.getYieldOp().getResults(), lookup));
  distribute(loop.getResults(), lowered.getResults());
  loc = outer;
  return success();
}

LogicalResult KernelLowering::lowerIf(scf::IfOp branch) {
  auto lookup = [&](Value value) -> const Values & { return valuesOf(value); };
  Location outer = loc;
  bool hasElse = !branch.getElseRegion().empty();
  auto lowered = scf::IfOp::create(builder, loc, flatTypes(branch.getResultTypes()),
                                   valueOf(branch.getCondition()), hasElse);
  OpBuilder::InsertionGuard guard(builder);
  for (auto [source, target] : llvm::zip(branch->getRegions(), lowered->getRegions())) {
    if (source.empty())
      continue;
    Block *block = &target.front();
    if (!block->empty() && block->back().hasTrait<OpTrait::IsTerminator>())
      block->back().erase();
    builder.setInsertionPointToEnd(block);
    if (failed(lowerBlock(source.front())))
      return failure();
    scf::YieldOp::create(builder, outer,
                         flatten(source.front().getTerminator()->getOperands(), lookup));
  }
  distribute(branch.getResults(), lowered.getResults());
  loc = outer;
  return success();
}

} // namespace tesela::nvvm
