//===- ReverseSweep.h - The derivatives of a score and a sink ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Reverse-mode differentiation of the bodies of an attn.variant. The sweep begins with ∂y / ∂y = 1
// at the yielded value and visits the ops from the last to the first. Let ā = ∂y / ∂a. An op with
// the result v adds to the adjoints of its operands:
//
//   v = a + b        ā += v̄              b̄ += v̄
//   v = a - b        ā += v̄              b̄ -= v̄
//   v = a · b        ā += v̄ · b          b̄ += v̄ · a
//   v = a / b        ā += v̄ / b          b̄ -= v̄ · v / b
//   v = -a           ā -= v̄
//   v = |a|          ā += v̄ · (a < 0 ? -1 : 1)
//   v = exp(a)       ā += v̄ · v
//   v = log(a)       ā += v̄ / a
//   v = sqrt(a)      ā += v̄ / (2 · v)
//   v = tanh(a)      ā += v̄ · (1 - v²)
//   v = sin(a)       ā += v̄ · cos(a)
//   v = cos(a)       ā -= v̄ · sin(a)
//   v = c ? a : b    ā += v̄ where c      b̄ += v̄ where !c
//   v = Σᵢ f(i, a)   ā += v̄ · Σᵢ ∂f/∂a
//
// min, max and clamp consist of `?:`. They have the derivative of the side that is computed, also
// at a kink. int(), floor, comparisons, conditions, masks, `any` and `all` have the derivative 0.
// The derivative of a side that is not computed is not used in any product (Adjoints.h).
//
// Kernels use the same sweep; they need ∂y / ∂s only.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_REVERSESWEEP_H
#define TESELA_COMPILER_TRANSFORMS_REVERSESWEEP_H

#include "attn/Attn.h"

namespace tesela {

/// Inserts the derivatives of the score, and of the sink if there is one, after `variant`: by `s`,
/// by each f32 scalar, and by each element of an f32, f16 or bf16 tensor that is read. Fails with
/// an error at an op that has no rule, and if sums within sums need too many copies.
mlir::FailureOr<attn::GradientOp> differentiate(attn::VariantOp variant);

/// Makes the score of `variant` yield its derivative by `s`, and erases unused ops.
/// Fails like differentiate().
mlir::LogicalResult differentiateByScore(attn::VariantOp variant);

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_REVERSESWEEP_H
