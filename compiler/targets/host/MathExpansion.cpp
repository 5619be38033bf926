//===- MathExpansion.cpp - exp2 and log2 as arithmetic ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/MathExpansion.h"
#include "targets/host/CodeBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace tesela {

namespace {

/// Operations in f32 and i32 on values of one shape.
class Expansion {
public:
  Expansion(CodeBuilder &builder, Type type, const VectorUnit &unit)
      : builder_(builder), f32_(type), i32_(CodeBuilder::likeShape(type, builder.getI32Type())),
        fma_(unit.fma) {}

  Value exp2(Value x);
  Value log2(Value x);

private:
  Value real(float value) { return builder_.real(f32_, value); }
  Value integer(int64_t value) { return builder_.integer(i32_, value); }
  Value add(Value a, Value b) { return arith::AddFOp::create(builder_, a, b); }
  Value subtract(Value a, Value b) { return arith::SubFOp::create(builder_, a, b); }
  Value multiply(Value a, Value b) { return arith::MulFOp::create(builder_, a, b); }
  Value addInteger(Value a, Value b) { return arith::AddIOp::create(builder_, a, b); }
  Value subtractInteger(Value a, Value b) { return arith::SubIOp::create(builder_, a, b); }
  Value shiftLeft(Value a, int64_t n) { return arith::ShLIOp::create(builder_, a, integer(n)); }
  Value shiftRight(Value a, int64_t n) { return arith::ShRSIOp::create(builder_, a, integer(n)); }
  Value asInteger(Value a) { return arith::BitcastOp::create(builder_, i32_, a); }
  Value asFloat(Value a) { return arith::BitcastOp::create(builder_, f32_, a); }
  Value select(arith::CmpFPredicate predicate, Value a, Value b, Value yes, Value no) {
    Value condition = arith::CmpFOp::create(builder_, predicate, a, b);
    return arith::SelectOp::create(builder_, condition, yes, no);
  }
  /// coefficients[0] + x · (coefficients[1] + x · …)
  Value polynomial(Value x, ArrayRef<float> coefficients) {
    Value sum = real(coefficients.back());
    for (float coefficient : llvm::reverse(coefficients.drop_back()))
      sum = fma_ ? math::FmaOp::create(builder_, sum, x, real(coefficient)).getResult()
                 : add(multiply(sum, x), real(coefficient));
    return sum;
  }

  CodeBuilder &builder_;
  Type f32_, i32_;
  bool fma_;
};

/// 2^x = 2^(n-1) · 2·2^f, where n is the integer nearest to x. The polynomial is twice that of
/// Cephes' exp2f. 2^(n-1) is a normal number for every finite result; for the least n it is 0.
Value Expansion::exp2(Value x) {
  using enum arith::CmpFPredicate;
  // At these bounds the results are infinity and 0. NaN passes both comparisons unchanged.
  x = select(OGT, x, real(128.0f), real(128.0f), x);
  x = select(OLT, x, real(-126.0f), real(-126.0f), x);
  // Adding 1.5 · 2^23 puts the nearest integer into the lowest bits. Here these bits are the biased
  // exponent of 2^(n-1). The shift drops all bits above.
  Value magic = real(0x1.8p23f + 126);
  Value rounded = add(x, magic);
  Value power = asFloat(shiftLeft(asInteger(rounded), 23));
  Value f = subtract(x, subtract(rounded, magic));
  Value twice = polynomial(f, {2.0f, 2 * 6.931472028550421e-1f, 2 * 2.402264791363012e-1f,
                               2 * 5.550332471162809e-2f, 2 * 9.618437357674640e-3f,
                               2 * 1.339887440266574e-3f, 2 * 1.535336188319500e-4f});
  return multiply(twice, power);
}

/// x = 2^e · m with m in [√½, √2), and log₂ m = 2/ln 2 · artanh((m - 1) / (m + 1)), by its series.
Value Expansion::log2(Value x) {
  using enum arith::CmpFPredicate;
  Value zero = real(0.0f), smallestNormal = real(0x1p-126f);
  Value scaled = select(OLT, x, smallestNormal, multiply(x, real(0x1p23f)), x);
  Value scaledBy = select(OLT, x, smallestNormal, real(-23.0f), zero);
  Value rootHalf = integer(0x3f3504f3);
  Value bits = subtractInteger(asInteger(scaled), rootHalf);
  Value e = arith::SIToFPOp::create(builder_, f32_, shiftRight(bits, 23));
  Value fraction = arith::AndIOp::create(builder_, bits, integer(0x7fffff));
  Value m = asFloat(addInteger(fraction, rootHalf));
  Value one = real(1.0f);
  Value s = arith::DivFOp::create(builder_, subtract(m, one), add(m, one));
  Value series =
      polynomial(multiply(s, s), {2.885390081777927f, 0.961796693925976f, 0.577078016355586f,
                                  0.412198583111132f, 0.320598897975325f});
  Value result = add(multiply(s, series), add(e, scaledBy));
  Value infinity = real(HUGE_VALF);
  result = select(OEQ, x, infinity, infinity, result);
  result = select(OEQ, x, zero, real(-HUGE_VALF), result);
  return select(UGE, x, zero, select(UNO, x, x, x, result), real(NAN));
}

} // namespace

void expandMath(Operation *root, const VectorUnit &unit) {
  SmallVector<Operation *> found;
  root->walk([&](Operation *op) {
    if (isa<math::Exp2Op, math::Log2Op>(op))
      found.push_back(op);
  });
  for (Operation *op : found) {
    CodeBuilder builder(op->getLoc(), op);
    Expansion expansion(builder, op->getResult(0).getType(), unit);
    Value x = op->getOperand(0);
    op->getResult(0).replaceAllUsesWith(isa<math::Exp2Op>(op) ? expansion.exp2(x)
                                                              : expansion.log2(x));
    op->erase();
  }
}

} // namespace tesela
