//===- ExactSums.cpp - Sums that do not depend on the order -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/ExactSums.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tesela {

namespace {
/// Integer ops at a builder.
struct Integers {
  OpBuilder &builder;
  Location loc;

  Value constant(Type type, int64_t value) const {
    return arith::ConstantIntOp::create(builder, loc, type, value);
  }
  Value like(Value value, int64_t number) const { return constant(value.getType(), number); }
  Value shiftLeft(Value a, Value by) const { return arith::ShLIOp::create(builder, loc, a, by); }
  Value shiftRight(Value a, Value by) const { return arith::ShRUIOp::create(builder, loc, a, by); }
  Value shiftRight(Value a, int64_t by) const { return shiftRight(a, like(a, by)); }
  Value bits(Value a, int64_t mask) const {
    return arith::AndIOp::create(builder, loc, a, like(a, mask));
  }
  Value add(Value a, Value b) const { return arith::AddIOp::create(builder, loc, a, b); }
  Value subtract(Value a, Value b) const { return arith::SubIOp::create(builder, loc, a, b); }
  Value multiply(Value a, Value b) const { return arith::MulIOp::create(builder, loc, a, b); }
  Value isNot(Value a, int64_t number) const {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, a, like(a, number));
  }
  Value select(Value condition, Value a, Value b) const {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }
  Value wide(Value a) const {
    return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), a);
  }
  Value word(Value address, Value index) const {
    return LLVM::GEPOp::create(builder, loc, address.getType(), builder.getI32Type(), address,
                               index);
  }
};
} // namespace

void emitExactAddition(OpBuilder &builder, Location loc, Value exists, Value value, Value address,
                       Value stride, StringRef scope) {
  Integers i{builder, loc};
  Value all = arith::BitcastOp::create(builder, loc, builder.getI32Type(), value);
  Value adds = i.isNot(i.bits(all, 0x7fffffff), 0);
  adds = arith::AndIOp::create(builder, loc, adds, exists);
  auto branch = scf::IfOp::create(builder, loc, adds, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());

  // The value is m · 2^e, also if it is subnormal.
  Value exponent = i.bits(i.shiftRight(all, 23), 255), fraction = i.bits(all, 0x7fffff);
  Value isNormal = i.isNot(exponent, 0), isFinite = i.isNot(exponent, 255);
  Value m = i.select(isNormal, i.add(fraction, i.like(fraction, 1 << 23)), fraction);
  Value e = i.select(isNormal, i.subtract(exponent, i.like(exponent, 1)), exponent);
  Value digit = arith::DivUIOp::create(builder, loc, e, i.like(e, bitsOfDigit));
  Value r = i.subtract(e, i.multiply(digit, i.like(digit, bitsOfDigit)));
  // These fit 32 bits, since m < 2^24 and r < 24.
  Value low = i.bits(i.shiftLeft(m, r), (1 << bitsOfDigit) - 1);
  Value high = i.shiftRight(m, i.subtract(i.like(r, bitsOfDigit), r));
  Value sign = arith::ShRSIOp::create(builder, loc, all, i.like(all, 31)), zero = i.like(low, 0);
  auto withSign = [&](Value a) { // -a is ~a + 1
    return i.subtract(arith::XOrIOp::create(builder, loc, a, sign), sign);
  };
  low = withSign(low), high = withSign(high);
  digit = i.select(isFinite, digit, i.like(digit, exactDigits));
  low = i.select(isFinite, low, i.like(low, 1));
  high = i.select(isFinite, high, zero);

  auto addAtomically = [&](Value number, Value term) {
    Value place = i.word(address, i.multiply(number, stride));
    term = arith::ExtSIOp::create(builder, loc, builder.getI64Type(), term);
    LLVM::AtomicRMWOp::create(builder, loc, LLVM::AtomicBinOp::add, place, term,
                              LLVM::AtomicOrdering::monotonic, scope, /*alignment=*/8);
  };
  Value number = i.wide(digit);
  addAtomically(number, low);
  auto carries = scf::IfOp::create(builder, loc, i.isNot(high, 0), /*withElseRegion=*/false);
  builder.setInsertionPointToStart(carries.thenBlock());
  addAtomically(i.add(number, i.like(number, 1)), high);
}

// Adds the digits from the highest to the lowest in f64. The rounding error is at most 2^-53 of the
// sum of the magnitudes that were added, which an f32 cannot resolve.
Value emitExactSum(OpBuilder &builder, Location loc, Value address, Value stride) {
  Integers i{builder, loc};
  Type f64 = builder.getF64Type(), i64 = builder.getI64Type();
  auto number = [&](double value) -> Value {
    return arith::ConstantFloatOp::create(builder, loc, cast<FloatType>(f64), APFloat(value));
  };
  auto word = [&](int64_t index) -> Value {
    Value place = i.word(address, i.multiply(stride, i.constant(i64, index)));
    return LLVM::LoadOp::create(builder, loc, i64, place, /*alignment=*/8);
  };
  Value sum = number(0);
  for (int64_t digit = exactDigits - 1; digit >= 0; --digit) {
    Value scaled = arith::MulFOp::create(builder, loc, sum, number(1 << bitsOfDigit));
    Value part = arith::SIToFPOp::create(builder, loc, f64, word(digit));
    sum = arith::AddFOp::create(builder, loc, scaled, part);
  }
  sum = arith::MulFOp::create(builder, loc, sum, number(0x1p-149));
  Value isFinite = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, word(exactDigits),
                                         i.constant(i64, 0));
  sum = arith::SelectOp::create(builder, loc, isFinite, sum,
                                number(std::numeric_limits<double>::quiet_NaN()));
  return arith::TruncFOp::create(builder, loc, builder.getF32Type(), sum);
}

} // namespace tesela
