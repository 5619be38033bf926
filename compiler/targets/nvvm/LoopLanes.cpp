//===- LoopLanes.cpp - Loops that run one iteration per lane ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/LoopLanes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace tesela::nvvm {

namespace {

/// With fewer iterations the loop is as fast as it is.
constexpr int64_t fewestIterations = 8;

/// A value that goes from one iteration to the next.
struct Carried {
  enum class Kind { Sum, Most, Found } kind;
  BlockArgument argument;
  Operation *step; ///< computes the value for the next iteration
  Value own;       ///< of Sum and Most: what the iteration contributes
};

class LaneLoop {
public:
  explicit LaneLoop(scf::ForOp loop) : loop(loop) {}
  bool fits();
  SmallVector<Value> write(OpBuilder &builder, Value lane);

private:
  bool isOfIteration(Value value);
  std::optional<Carried> carriedBy(BlockArgument argument, Value next);

  scf::ForOp loop;
  SmallVector<Carried> carried;
};

/// Whether `value` depends on nothing but the iteration's number.
bool LaneLoop::isOfIteration(Value value) {
  if (loop.isDefinedOutsideOfLoop(value) || value == loop.getInductionVar())
    return true;
  Operation *op = value.getDefiningOp();
  return op &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isOfIteration(operand); });
}

std::optional<Carried> LaneLoop::carriedBy(BlockArgument argument, Value next) {
  Operation *step = next.getDefiningOp();
  if (!step || step->getBlock() != loop.getBody() || !next.hasOneUse())
    return std::nullopt;
  auto other = [&]() -> Value { // the other operand, if it depends on the iteration alone
    Value own = step->getOperand(step->getOperand(0) == argument ? 1 : 0);
    return own != argument && llvm::is_contained(step->getOperands(), argument) &&
                   isOfIteration(own)
               ? own
               : Value();
  };
  if (auto sum = dyn_cast<arith::AddIOp>(step); sum && other())
    return Carried{Carried::Kind::Sum, argument, step, other()};
  if (!argument.hasOneUse())
    return std::nullopt;
  if (isa<arith::MaxUIOp>(step) && other())
    return Carried{Carried::Kind::Most, argument, step, other()};
  if (auto choice = dyn_cast<arith::SelectOp>(step); choice && choice.getFalseValue() == argument)
    return Carried{Carried::Kind::Found, argument, step, {}};
  return std::nullopt;
}

bool LaneLoop::fits() {
  if (loop.getInitArgs().empty() || getConstantIntValue(loop.getStep()) != 1)
    return false;
  std::optional<int64_t> low = getConstantIntValue(loop.getLowerBound()),
                         high = getConstantIntValue(loop.getUpperBound());
  if (low && high && *high - *low < fewestIterations)
    return false;
  bool reads = false;
  for (Operation &op : loop.getBody()->without_terminator()) {
    auto load = dyn_cast<LLVM::LoadOp>(op);
    reads |= bool(load);
    if (op.getNumRegions() > 0 || op.getNumResults() != 1 ||
        (load ? !load.getInvariant() : !isMemoryEffectFree(&op)))
      return false;
  }
  if (!reads)
    return false;
  for (auto [argument, next] : llvm::zip(loop.getRegionIterArgs(), loop.getYieldedValues())) {
    std::optional<Carried> each =
        argument.getType().isInteger(32) ? carriedBy(argument, next) : std::optional<Carried>();
    if (!each)
      return false;
    carried.push_back(*each);
  }
  return true;
}

SmallVector<Value> LaneLoop::write(OpBuilder &builder, Value lane) {
  using Predicate = arith::CmpIPredicate;
  Location loc = loop.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  };
  auto shuffle = [&](NVVM::ShflKind kind, Value value, Value by) -> Value {
    // For `up`, the last operand is the lowest lane with a source, 0; otherwise the highest, 31.
    Value clamp = constant(kind == NVVM::ShflKind::up ? 0 : 31);
    return NVVM::ShflOp::create(builder, loc, value.getType(), constant(-1), value, by, clamp, kind,
                                UnitAttr());
  };
  auto choose = [&](Value condition, Value a, Value b) -> Value {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  };
  Value low = loop.getLowerBound(), high = loop.getUpperBound();
  auto lanes = scf::ForOp::create(builder, loc, low, high, constant(32), loop.getInitArgs());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(lanes.getBody());
  IRMapping mapping;
  Value number = arith::AddIOp::create(builder, loc, lanes.getInductionVar(), lane);
  Value exists = arith::CmpIOp::create(builder, loc, Predicate::slt, number, high);
  Value last = arith::SubIOp::create(builder, loc, high, constant(1));
  mapping.map(loop.getInductionVar(), arith::MinSIOp::create(builder, loc, number, last));

  // First copy ops that depend on the iteration alone, then ops that use the sums.
  auto isStep = [&](Operation &op) {
    return llvm::any_of(carried, [&](const Carried &each) { return each.step == &op; });
  };
  auto copy = [&](bool ofIteration) {
    for (Operation &op : loop.getBody()->without_terminator())
      if (!isStep(op) && isOfIteration(op.getResult(0)) == ofIteration)
        builder.clone(op, mapping);
  };
  copy(/*ofIteration=*/true);
  SmallVector<Value> next(carried.size());
  for (auto [each, before, result] : llvm::zip(carried, lanes.getRegionIterArgs(), next)) {
    if (each.kind == Carried::Kind::Found)
      continue;
    Value own = choose(exists, mapping.lookupOrDefault(each.own), constant(0));
    if (each.kind == Carried::Kind::Most) {
      Value most = NVVM::ReduxOp::create(builder, loc, own.getType(), own, NVVM::ReduxKind::UMAX,
                                         constant(-1));
      result = arith::MaxUIOp::create(builder, loc, before, most);
      continue;
    }
    if (each.argument.hasOneUse()) {
      Value sum = NVVM::ReduxOp::create(builder, loc, own.getType(), own, NVVM::ReduxKind::ADD,
                                        constant(-1));
      result = arith::AddIOp::create(builder, loc, before, sum);
      continue;
    }
    Value upTo = own; // the sum of the lanes up to this one
    for (int64_t by = 1; by < 32; by *= 2) {
      Value further = arith::AddIOp::create(builder, loc, upTo,
                                            shuffle(NVVM::ShflKind::up, upTo, constant(by)));
      Value hasSource = arith::CmpIOp::create(builder, loc, Predicate::uge, lane, constant(by));
      upTo = choose(hasSource, further, upTo);
    }
    Value less = arith::SubIOp::create(builder, loc, upTo, own);
    mapping.map(each.argument, arith::AddIOp::create(builder, loc, before, less));
    result = arith::AddIOp::create(builder, loc, before,
                                   shuffle(NVVM::ShflKind::idx, upTo, constant(31)));
  }
  copy(/*ofIteration=*/false);
  // By condition: whether it is true in any lane, and the last lane where it is true.
  llvm::SmallDenseMap<Value, std::pair<Value, Value>> whereTrue;
  for (auto [each, before, result] : llvm::zip(carried, lanes.getRegionIterArgs(), next)) {
    if (each.kind != Carried::Kind::Found)
      continue;
    auto choice = cast<arith::SelectOp>(each.step);
    auto &[isAny, lastOne] = whereTrue[choice.getCondition()];
    if (!isAny) {
      Value isOne = arith::AndIOp::create(builder, loc, exists,
                                          mapping.lookupOrDefault(choice.getCondition()));
      Value ones = NVVM::VoteSyncOp::create(builder, loc, builder.getI32Type(), constant(-1), isOne,
                                            NVVM::VoteSyncKind::ballot);
      Value zeros = LLVM::CountLeadingZerosOp::create(builder, loc, builder.getI32Type(), ones,
                                                      /*is_zero_poison=*/false);
      isAny = arith::CmpIOp::create(builder, loc, Predicate::ne, ones, constant(0));
      lastOne = arith::SubIOp::create(builder, loc, constant(31), zeros);
    }
    Value value = mapping.lookupOrDefault(choice.getTrueValue());
    result = choose(isAny, shuffle(NVVM::ShflKind::idx, value, lastOne), before);
  }
  scf::YieldOp::create(builder, loc, next);
  return llvm::to_vector_of<Value>(lanes.getResults());
}

} // namespace

SmallVector<Value> doIterationsInLanes(OpBuilder &builder, scf::ForOp loop, Value lane) {
  LaneLoop lanes(loop);
  return lanes.fits() ? lanes.write(builder, lane) : SmallVector<Value>();
}

} // namespace tesela::nvvm
