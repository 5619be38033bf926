//===- ExpandArithmetic.cpp -----------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/emit/ExpandArithmetic.h"

#include "attn/Attn.h"
#include "frontend/ExactMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

#include <limits>

using namespace mlir;

namespace tesela {
namespace {

/// The arithmetic A of ExactMath.h that builds arith operations.
struct ArithArithmetic {
  using F = Value;
  using I = Value;
  using B = Value;

  OpBuilder &builder;
  Location location;

  Value constant(float value) { return constant(builder.getF32FloatAttr(value)); }
  Value integer(int32_t value) { return constant(builder.getI32IntegerAttr(value)); }
  Value constant(TypedAttr value) { return arith::ConstantOp::create(builder, location, value); }

  Value add(Value a, Value b) { return arith::AddFOp::create(builder, location, a, b); }
  Value subtract(Value a, Value b) { return arith::SubFOp::create(builder, location, a, b); }
  Value multiply(Value a, Value b) { return arith::MulFOp::create(builder, location, a, b); }
  Value divide(Value a, Value b) { return arith::DivFOp::create(builder, location, a, b); }
  Value toFloat(Value a) {
    return arith::SIToFPOp::create(builder, location, builder.getF32Type(), a);
  }
  Value fromBits(Value a) {
    return arith::BitcastOp::create(builder, location, builder.getF32Type(), a);
  }
  Value bits(Value a) {
    return arith::BitcastOp::create(builder, location, builder.getI32Type(), a);
  }

  Value addInt(Value a, Value b) { return arith::AddIOp::create(builder, location, a, b); }
  Value subtractInt(Value a, Value b) { return arith::SubIOp::create(builder, location, a, b); }
  Value bitAnd(Value a, Value b) { return arith::AndIOp::create(builder, location, a, b); }
  Value bitOr(Value a, Value b) { return arith::OrIOp::create(builder, location, a, b); }
  Value shiftLeft(Value a, int32_t by) {
    return arith::ShLIOp::create(builder, location, a, integer(by));
  }
  Value shiftRight(Value a, int32_t by) {
    return arith::ShRSIOp::create(builder, location, a, integer(by));
  }

  Value less(Value a, Value b) { return compare(arith::CmpFPredicate::OLT, a, b); }
  Value equal(Value a, Value b) { return compare(arith::CmpFPredicate::OEQ, a, b); }
  Value isNaN(Value a) { return compare(arith::CmpFPredicate::UNO, a, a); }
  Value equalInt(Value a, Value b) { return compare(arith::CmpIPredicate::eq, a, b); }
  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return arith::CmpFOp::create(builder, location, predicate, a, b);
  }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(builder, location, predicate, a, b);
  }
  Value select(Value c, Value a, Value b) {
    return arith::SelectOp::create(builder, location, c, a, b);
  }
  Value selectInt(Value c, Value a, Value b) { return select(c, a, b); }
};

/// Calls `expand(arithmetic, op)` on each OpT of `region`. The arithmetic builds
/// before the op. If a value is returned, it replaces the op.
template <typename OpT, typename Expand> void replaceEach(Region &region, Expand expand) {
  region.walk([&](OpT op) {
    OpBuilder builder(op);
    ArithArithmetic arithmetic{builder, op.getLoc()};
    Value value = expand(arithmetic, op);
    if (!value)
      return;
    op.replaceAllUsesWith(value);
    op.erase();
  });
}

template <typename OpT>
void replaceMath(Region &region, Value (*function)(ArithArithmetic &, Value)) {
  replaceEach<OpT>(region, [&](ArithArithmetic &a, OpT op) -> Value {
    return op.getType().isF32() ? function(a, op.getOperand()) : Value();
  });
}

/// Quotient and remainder of a division that rounds down, for every divisor.
struct FloorDivision {
  Value quotient, remainder;
};

/// The hardware must not divide by 0 (it may trap) or -2^31 by -1 (it overflows).
/// So divisors 0 and -1 are replaced by 1, which gives lhs and 0. The results for
/// 0 and -1 are selected afterwards.
FloorDivision floorDivision(ArithArithmetic &a, Value lhs, Value rhs) {
  Value zero = a.integer(0), one = a.integer(1);
  Value isZero = a.equalInt(rhs, zero);
  Value isMinusOne = a.equalInt(rhs, a.integer(-1));
  Value isSpecial = arith::OrIOp::create(a.builder, a.location, isZero, isMinusOne);
  Value divisor = a.select(isSpecial, one, rhs);
  Value quotient = arith::DivSIOp::create(a.builder, a.location, lhs, divisor);
  Value product = arith::MulIOp::create(a.builder, a.location, quotient, divisor);
  Value remainder = a.subtractInt(lhs, product);
  // So far rounded towards zero. Round down if the signs differ and the remainder is not 0.
  Value signs = arith::XOrIOp::create(a.builder, a.location, remainder, divisor);
  Value differ = a.compare(arith::CmpIPredicate::slt, signs, zero);
  Value hasRest = a.compare(arith::CmpIPredicate::ne, remainder, zero);
  Value adjust = arith::AndIOp::create(a.builder, a.location, differ, hasRest);
  quotient = a.select(adjust, a.subtractInt(quotient, one), quotient);
  remainder = a.select(adjust, a.addInt(remainder, divisor), remainder);
  quotient = a.select(isMinusOne, a.subtractInt(zero, lhs), quotient);
  return {a.select(isZero, zero, quotient), remainder}; // lhs - lhs / 1 * 1 is 0 already
}

/// Rounds towards zero. Values that do not fit are replaced before the conversion, and their
/// results are selected after it.
Value saturatingConversion(ArithArithmetic &a, Value x) {
  constexpr float kEnd = 2147483648.0f;
  Value isTooLarge = a.compare(arith::CmpFPredicate::OGE, x, a.constant(kEnd));
  Value isAbove = a.compare(arith::CmpFPredicate::OGE, x, a.constant(-kEnd));
  Value isBelow = a.less(x, a.constant(-kEnd));
  Value fits = arith::AndIOp::create(a.builder, a.location, isAbove, a.less(x, a.constant(kEnd)));
  Value safe = a.select(fits, x, a.constant(0.0f)); // NaN does not fit and becomes 0
  Value converted = arith::FPToSIOp::create(a.builder, a.location, a.builder.getI32Type(), safe);
  converted = a.select(isTooLarge, a.integer(std::numeric_limits<int32_t>::max()), converted);
  return a.select(isBelow, a.integer(std::numeric_limits<int32_t>::min()), converted);
}

/// Turns `op` into a loop that carries the combined value and has the body of `op`.
void makeLoop(attn::ReduceOp op) {
  OpBuilder builder(op);
  ArithArithmetic a{builder, op.getLoc()};
  Value start;
  if (op.getType().isF32())
    start = a.constant(0.0f);
  else if (op.getType().isInteger(32))
    start = a.integer(0);
  else
    start = a.constant(builder.getBoolAttr(op.getKind() == attn::Reduction::All));
  auto loop =
      scf::ForOp::create(builder, op.getLoc(), a.integer(0), op.getBound(), a.integer(1), start);
  Block &body = op.getBody().front();
  // Replace the index first: the yielded value may be the index itself.
  body.getArgument(0).replaceAllUsesWith(loop.getInductionVar());
  Operation *yield = body.getTerminator();
  Value value = yield->getOperand(0);
  yield->erase();
  loop.getBody()->getOperations().splice(loop.getBody()->end(), body.getOperations());
  builder.setInsertionPointToEnd(loop.getBody());
  Value carried = loop.getRegionIterArg(0), joined;
  if (op.getType().isF32())
    joined = a.add(carried, value);
  else if (op.getType().isInteger(32))
    joined = a.addInt(carried, value);
  else
    joined =
        op.getKind() == attn::Reduction::Any ? a.bitOr(carried, value) : a.bitAnd(carried, value);
  scf::YieldOp::create(builder, op.getLoc(), joined);
  op.replaceAllUsesWith(loop.getResult(0));
  op.erase();
}

} // namespace

void expandExactMath(Region &region) {
  replaceMath<math::ExpOp>(region, exactExp<ArithArithmetic>);
  replaceMath<math::LogOp>(region, exactLog<ArithArithmetic>);
  replaceMath<math::TanhOp>(region, exactTanh<ArithArithmetic>);
  expandSinCos(region);
}

void expandSinCos(Region &region) {
  replaceMath<math::SinOp>(region, exactSin<ArithArithmetic>);
  replaceMath<math::CosOp>(region, exactCos<ArithArithmetic>);
}

void expandAttnArithmetic(Region &region) {
  region.walk([](attn::ReduceOp op) { makeLoop(op); });
  replaceEach<attn::FloorDivOp>(region, [](ArithArithmetic &a, attn::FloorDivOp op) {
    return floorDivision(a, op.getLhs(), op.getRhs()).quotient;
  });
  replaceEach<attn::FloorModOp>(region, [](ArithArithmetic &a, attn::FloorModOp op) {
    return floorDivision(a, op.getLhs(), op.getRhs()).remainder;
  });
  replaceEach<attn::ToIntOp>(region, [](ArithArithmetic &a, attn::ToIntOp op) {
    return saturatingConversion(a, op.getOperand());
  });
}

} // namespace tesela
