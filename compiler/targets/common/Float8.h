//===- Float8.h - e4m3 as f32 -----------------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// e4m3 (MLIR's f8E4M3FN) has a sign, an exponent of 4 bits with bias 7, and a mantissa of 3 bits.
// The largest number is 448. There is no infinity, and NaN has all bits below the sign set. The
// conversions are integer arithmetic on one value or a vector, so all targets give the same bits,
// including those without an instruction for it.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_FLOAT8_H
#define TESELA_COMPILER_TARGETS_COMMON_FLOAT8_H

#include "mlir/IR/Builders.h"

namespace tesela {

/// The lowest 8 bits of `bits` (i32, or a vector of i32) as f32; exact. The other bits are
/// ignored.
mlir::Value float8ToFloat(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value bits);

/// The bits of `value` (f32, or a vector of f32) in the lowest 8 of an i32; the others are 0.
/// Rounds to nearest even. Numbers above 448 become 448 (with their sign), and NaN stays NaN.
mlir::Value floatToFloat8(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_FLOAT8_H
