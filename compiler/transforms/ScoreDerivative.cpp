//===- ScoreDerivative.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/ScoreDerivative.h"

#include "attn/Attn.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tesela {
namespace {

/// Writes tangents of values; null stands for 0.
class Tangents {
public:
  explicit Tangents(MLIRContext *context) : builder(context) {}

  void set(Value value, Value tangent) { tangents[value] = tangent; }
  Value of(Value value) const { return tangents.lookup(value); }

  /// Of all ops of `block`, each behind its own.
  void add(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
      if (op.getNumResults() != 1 || !op.getResult(0).getType().isF32())
        continue;
      builder.setInsertionPointAfter(&op);
      loc = op.getLoc();
      if (Value tangent = find(&op))
        set(op.getResult(0), tangent);
    }
  }

  Value number(float value) {
    return arith::ConstantFloatOp::create(builder, loc, builder.getF32Type(), APFloat(value));
  }

  OpBuilder builder;
  Location loc = builder.getUnknownLoc();

private:
  Value orZero(Value tangent) { return tangent ? tangent : number(0); }
  Value plus(Value a, Value b) {
    return !a ? b : !b ? a : arith::AddFOp::create(builder, loc, a, b).getResult();
  }
  Value minus(Value a, Value b) {
    return !b ? a : !a ? negated(b) : arith::SubFOp::create(builder, loc, a, b).getResult();
  }
  Value negated(Value a) { return arith::NegFOp::create(builder, loc, a); }
  /// Null where `tangent` is.
  Value times(Value a, Value tangent) {
    return tangent ? arith::MulFOp::create(builder, loc, a, tangent).getResult() : Value();
  }
  Value over(Value tangent, Value b) {
    return tangent ? arith::DivFOp::create(builder, loc, tangent, b).getResult() : Value();
  }

  Value find(Operation *op) {
    Value y = op->getResult(0);
    auto tangent = [&](unsigned operand) { return of(op->getOperand(operand)); };
    auto operand = [&](unsigned index) { return op->getOperand(index); };
    if (auto reduce = dyn_cast<attn::ReduceOp>(op))
      return ofSum(reduce);
    if (isa<arith::SelectOp>(op)) {
      Value a = tangent(1), b = tangent(2);
      if (!a && !b)
        return Value();
      return arith::SelectOp::create(builder, loc, operand(0), orZero(a), orZero(b));
    }
    if (llvm::none_of(op->getOperands(), [&](Value value) { return bool(of(value)); }))
      return Value();
    return llvm::TypeSwitch<Operation *, Value>(op)
        .Case([&](arith::AddFOp) { return plus(tangent(0), tangent(1)); })
        .Case([&](arith::SubFOp) { return minus(tangent(0), tangent(1)); })
        .Case([&](arith::MulFOp) {
          return plus(times(operand(1), tangent(0)), times(operand(0), tangent(1)));
        })
        .Case([&](arith::DivFOp) {
          return over(minus(tangent(0), times(y, tangent(1))), operand(1));
        })
        .Case([&](arith::NegFOp) { return negated(tangent(0)); })
        .Case([&](math::AbsFOp) {
          Value isNegative =
              arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, operand(0), number(0));
          return arith::SelectOp::create(builder, loc, isNegative, negated(tangent(0)), tangent(0))
              .getResult();
        })
        .Case([&](math::ExpOp) { return times(y, tangent(0)); })
        .Case([&](math::LogOp) { return over(tangent(0), operand(0)); })
        .Case([&](math::SqrtOp) {
          return over(tangent(0), arith::AddFOp::create(builder, loc, y, y));
        })
        .Case([&](math::TanhOp) {
          Value square = arith::MulFOp::create(builder, loc, y, y);
          return times(arith::SubFOp::create(builder, loc, number(1), square), tangent(0));
        })
        .Case([&](math::SinOp) {
          return times(math::CosOp::create(builder, loc, operand(0)), tangent(0));
        })
        .Case([&](math::CosOp) {
          return negated(times(math::SinOp::create(builder, loc, operand(0)), tangent(0)));
        })
        .Default([](Operation *) { return Value(); }); // floor, and what is no mathematics
  }

  /// A sum of the rounds' tangents.
  Value ofSum(attn::ReduceOp reduce) {
    auto copy = cast<attn::ReduceOp>(builder.clone(*reduce));
    Block &body = copy.getBody().front();
    OpBuilder::InsertionGuard guard(builder);
    add(body);
    Operation *yield = body.getTerminator();
    Value tangent = of(yield->getOperand(0));
    if (!tangent) {
      copy.erase();
      return Value();
    }
    yield->setOperand(0, tangent);
    return copy.getResult();
  }

  llvm::DenseMap<Value, Value> tangents;
};

} // namespace

void differentiate(Block &body) {
  Tangents tangents(body.getParentOp()->getContext());
  tangents.builder.setInsertionPointToStart(&body);
  tangents.loc = body.getParentOp()->getLoc();
  tangents.set(body.getArgument(0), tangents.number(1));
  tangents.add(body);
  Operation *yield = body.getTerminator();
  tangents.builder.setInsertionPoint(yield);
  Value tangent = tangents.of(yield->getOperand(0));
  yield->setOperand(0, tangent ? tangent : tangents.number(0));
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

} // namespace tesela
