//===- WideArithmetic.h - Arithmetic of bounds, in 64 bits ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_WIDEARITHMETIC_H
#define TESELA_COMPILER_ANALYSIS_WIDEARITHMETIC_H

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tesela {

/// Writes i64 and i1 operations at an insertion point and folds constants. A condition that is null
/// counts as true.
class WideArithmetic {
public:
  WideArithmetic(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;

  mlir::Value constant(int64_t value) {
    return mlir::arith::ConstantIntOp::create(builder, loc, value, 64);
  }
  mlir::Value truth(bool value) {
    return mlir::arith::ConstantIntOp::create(builder, loc, value, 1);
  }
  /// Extends an i32 to i64.
  mlir::Value wide(mlir::Value value) {
    return fold<mlir::arith::ExtSIOp>(builder.getI64Type(), value);
  }
  /// Truncates an i64 whose value fits into i32.
  mlir::Value narrow(mlir::Value value) {
    return fold<mlir::arith::TruncIOp>(builder.getI32Type(), value);
  }
  mlir::Value add(mlir::Value a, mlir::Value b) { return fold<mlir::arith::AddIOp>(a, b); }
  mlir::Value add(mlir::Value a, int64_t b) { return b ? add(a, constant(b)) : a; }
  mlir::Value subtract(mlir::Value a, mlir::Value b) { return fold<mlir::arith::SubIOp>(a, b); }
  mlir::Value negate(mlir::Value a) { return subtract(constant(0), a); }
  mlir::Value multiply(mlir::Value a, mlir::Value b) { return fold<mlir::arith::MulIOp>(a, b); }
  mlir::Value times(int64_t factor, mlir::Value a) {
    return factor == 1 ? a : multiply(a, constant(factor));
  }
  mlir::Value min(mlir::Value a, mlir::Value b) { return fold<mlir::arith::MinSIOp>(a, b); }
  mlir::Value max(mlir::Value a, mlir::Value b) { return fold<mlir::arith::MaxSIOp>(a, b); }
  mlir::Value lessEqual(mlir::Value a, mlir::Value b) {
    return fold<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::sle, a, b);
  }
  mlir::Value equal(mlir::Value a, mlir::Value b) {
    return fold<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::eq, a, b);
  }
  mlir::Value both(mlir::Value a, mlir::Value b) {
    return !a ? b : !b ? a : fold<mlir::arith::AndIOp>(a, b);
  }
  mlir::Value either(mlir::Value a, mlir::Value b) {
    return !a || !b ? mlir::Value() : fold<mlir::arith::OrIOp>(a, b);
  }
  mlir::Value inverse(mlir::Value a) { return fold<mlir::arith::XOrIOp>(a, truth(true)); }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return !condition || a == b ? a : fold<mlir::arith::SelectOp>(condition, a, b);
  }

private:
  template <typename Op, typename... Arguments> mlir::Value fold(Arguments... arguments) {
    return builder.createOrFold<Op>(loc, arguments...);
  }
};

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_WIDEARITHMETIC_H
