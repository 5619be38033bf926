//===- MathExpansion.h - exp2 and log2 as arithmetic ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_MATHEXPANSION_H
#define TESELA_COMPILER_TARGETS_HOST_MATHEXPANSION_H

#include "targets/host/VectorUnit.h"

#include "mlir/IR/Operation.h"

namespace tesela {

/// Replaces math.exp2 and math.log2 of f32 inside `root`, for scalars and vectors, by arithmetic on
/// the whole vector. exp2 is within 1.5 units in the last place; results below 2^-125.5 are 0 (on
/// GPUs below 2^-126). log2 is within 2.5 units. Zeros, subnormal numbers, infinities and NaN give
/// what IEEE 754 recommends for both functions.
void expandMath(mlir::Operation *root, const VectorUnit &unit);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_MATHEXPANSION_H
