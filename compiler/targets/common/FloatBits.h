//===- FloatBits.h - Arithmetic on the bits of floats -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Operations with which conversions between float formats are written, for one value or a vector.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_FLOATBITS_H
#define TESELA_COMPILER_TARGETS_COMMON_FLOATBITS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace tesela {

/// Operations in i32 and f32 on values of one shape.
class FloatBits {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  /// `shape`: a scalar or vector type of any element type.
  FloatBits(mlir::OpBuilder &builder, mlir::Location loc, Type shape)
      : builder(builder), loc(loc), vector(llvm::dyn_cast<mlir::VectorType>(shape)) {}

  Value number(uint32_t value) { return constant(builder.getI32IntegerAttr(int32_t(value))); }
  Value real(float value) { return constant(builder.getF32FloatAttr(value)); }
  Value add(Value a, Value b) { return mlir::arith::AddIOp::create(builder, loc, a, b); }
  Value subtract(Value a, Value b) { return mlir::arith::SubIOp::create(builder, loc, a, b); }
  Value mask(Value a, uint32_t b) {
    return mlir::arith::AndIOp::create(builder, loc, a, number(b));
  }
  Value unite(Value a, Value b) { return mlir::arith::OrIOp::create(builder, loc, a, b); }
  Value left(Value a, uint32_t n) {
    return mlir::arith::ShLIOp::create(builder, loc, a, number(n));
  }
  Value right(Value a, uint32_t n) {
    return mlir::arith::ShRUIOp::create(builder, loc, a, number(n));
  }
  /// a < b, unsigned.
  Value below(Value a, uint32_t b) { return compare(mlir::arith::CmpIPredicate::ult, a, b); }
  Value atLeast(Value a, uint32_t b) { return compare(mlir::arith::CmpIPredicate::uge, a, b); }
  Value select(Value condition, Value a, Value b) {
    return mlir::arith::SelectOp::create(builder, loc, condition, a, b);
  }
  Value asInteger(Value f) {
    return mlir::arith::BitcastOp::create(builder, loc, like(builder.getI32Type()), f);
  }
  Value asFloat(Value bits) {
    return mlir::arith::BitcastOp::create(builder, loc, like(builder.getF32Type()), bits);
  }
  /// Zero-extends to i32; and truncates an i32 to its lowest `width` bits.
  Value widen(Value bits) {
    return mlir::arith::ExtUIOp::create(builder, loc, like(builder.getI32Type()), bits);
  }
  Value narrow(Value bits, unsigned width) {
    return mlir::arith::TruncIOp::create(builder, loc, like(builder.getIntegerType(width)), bits);
  }
  Value addFloat(Value a, float b) { return mlir::arith::AddFOp::create(builder, loc, a, real(b)); }
  Value multiply(Value a, float b) { return mlir::arith::MulFOp::create(builder, loc, a, real(b)); }

private:
  Type like(Type element) { return vector ? Type(vector.clone(element)) : element; }
  Value compare(mlir::arith::CmpIPredicate predicate, Value a, uint32_t b) {
    return mlir::arith::CmpIOp::create(builder, loc, predicate, a, number(b));
  }
  Value constant(mlir::TypedAttr value) {
    if (!vector)
      return mlir::arith::ConstantOp::create(builder, loc, value);
    auto type = llvm::cast<mlir::VectorType>(like(value.getType()));
    return mlir::arith::ConstantOp::create(
        builder, loc, mlir::DenseElementsAttr::get(type, llvm::ArrayRef<mlir::Attribute>(value)));
  }

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::VectorType vector; ///< null for a scalar
};

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_FLOATBITS_H
