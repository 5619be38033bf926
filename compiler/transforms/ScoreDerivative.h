//===- ScoreDerivative.h - The derivative of a score ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// ∂score / ∂s, for one s: forward mode. Each f32 that follows from s gets its tangent beside it:
//
//   y = a + b       y' = a' + b'              y = exp(a)     y' = y · a'
//   y = a · b       y' = a' · b + a · b'      y = log(a)     y' = a' / a
//   y = a / b       y' = (a' - y · b') / b    y = sqrt(a)    y' = a' / (2 · y)
//   y = c ? a : b   y' = c ? a' : b'          y = tanh(a)    y' = (1 - y²) · a'
//   y = |a|         y' = a < 0 ? -a' : a'     y = sin(a)     y' = cos(a) · a'
//   y = Σ a         y' = Σ a'                 y = cos(a)     y' = -sin(a) · a'
//
// A comparison, floor and int() have none: min, max and clamp have the derivative of the side that
// they take.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_SCOREDERIVATIVE_H
#define TESELA_COMPILER_TRANSFORMS_SCOREDERIVATIVE_H

#include "mlir/IR/Block.h"

namespace tesela {

/// Makes `body`, of a filled hook of a score, yield the derivative of what it yields by its first
/// argument. What it no longer needs is erased.
void differentiate(mlir::Block &body);

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_SCOREDERIVATIVE_H
