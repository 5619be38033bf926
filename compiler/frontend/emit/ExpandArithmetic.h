//===- ExpandArithmetic.h - The language's own arithmetic -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_EMIT_EXPANDARITHMETIC_H
#define TESELA_FRONTEND_EMIT_EXPANDARITHMETIC_H

#include "mlir/IR/Region.h"

namespace tesela {

/// Replaces math.exp, log, tanh, sin and cos on f32 in `region` and in nested
/// regions by the arithmetic of ExactMath.h. For regions on which a mask depends.
void expandExactMath(mlir::Region &region);

/// Replaces only math.sin and math.cos by their exact form. For targets that approximate the other
/// functions but have no sine that is accurate for large arguments.
void expandSinCos(mlir::Region &region);

/// Replaces attn.floor_div, attn.floor_mod and attn.to_int in `region` and in
/// nested regions by arith operations that are defined for all operands: no division
/// by zero, no overflow, no poison. Replaces attn.reduce by scf.for; the caller must have loaded
/// the scf dialect.
void expandAttnArithmetic(mlir::Region &region);

} // namespace tesela

#endif // TESELA_FRONTEND_EMIT_EXPANDARITHMETIC_H
