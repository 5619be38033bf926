//===- ExpandArithmetic.h - The language's own arithmetic -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_EMIT_EXPANDARITHMETIC_H
#define TESELA_FRONTEND_EMIT_EXPANDARITHMETIC_H

#include "mlir/IR/Region.h"

namespace tesela {

/// Replaces math.exp, log, tanh, sin and cos on f32 in `region` and in what it
/// holds by the arithmetic of ExactMath.h. For regions that feed a mask.
void expandExactMath(mlir::Region &region);

/// Replaces only math.sin and math.cos by their exact form: for targets that approximate the
/// others but have no sine that is right for large arguments.
void expandSinCos(mlir::Region &region);

/// Replaces attn.floor_div, attn.floor_mod and attn.to_int in `region` and in what
/// it holds by arith operations that are defined for all operands: no division
/// by zero, no overflow, no poison; and attn.reduce by scf.for, whose dialect the caller has
/// loaded.
void expandAttnArithmetic(mlir::Region &region);

} // namespace tesela

#endif // TESELA_FRONTEND_EMIT_EXPANDARITHMETIC_H
