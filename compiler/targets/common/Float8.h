//===- Float8.h - e4m3 as f32 -----------------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// e4m3 (MLIR's f8E4M3FN): a sign, 4 bits of an exponent with the bias 7, 3 bits of a mantissa. The
// largest number is 448, there is no infinity, and all ones below the sign are NaN. The conversions
// are integer arithmetic on one value or on a vector, so that every target has the same bits, also
// those without an instruction for it.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_FLOAT8_H
#define TESELA_COMPILER_TARGETS_COMMON_FLOAT8_H

#include "mlir/IR/Builders.h"

namespace tesela {

/// The lowest 8 bits of `bits` (i32, or a vector of i32) as f32; exact. The other bits are not
/// looked at.
mlir::Value float8ToFloat(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value bits);

/// The bits of `value` (f32, or a vector of f32) in the lowest 8 of an i32, the others being 0.
/// Rounded to nearest even; what is larger than 448 becomes 448, and NaN stays NaN.
mlir::Value floatToFloat8(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_FLOAT8_H
