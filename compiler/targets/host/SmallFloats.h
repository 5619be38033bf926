//===- SmallFloats.h - bf16, f16 and e4m3 as f32 ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Tiles of f16, bf16 and e4m3 hold f32 values that the format can represent. The conversions work
// on scalars and vectors and never become calls of a run-time library.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_SMALLFLOATS_H
#define TESELA_COMPILER_TARGETS_HOST_SMALLFLOATS_H

#include "targets/host/CodeBuilder.h"
#include "targets/host/VectorUnit.h"

namespace tesela {

/// The type in which memory holds a value of `element`: i16 for f16 and bf16, i8 for e4m3.
mlir::Type storageType(mlir::Type element);

/// The value, as f32, of bits of `element` (of type storageType); exact.
mlir::Value toFloat(CodeBuilder &builder, const VectorUnit &unit, mlir::Type element,
                    mlir::Value bits);

/// The bits, in `element`, of an f32 value that the format can represent; exact.
mlir::Value toBits(CodeBuilder &builder, const VectorUnit &unit, mlir::Type element,
                   mlir::Value value);

/// The f32 `value` rounded to `element` (f32, f16, bf16, e4m3), to nearest even; NaN stays NaN.
mlir::Value roundTo(CodeBuilder &builder, const VectorUnit &unit, mlir::Type element,
                    mlir::Value value);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_SMALLFLOATS_H
