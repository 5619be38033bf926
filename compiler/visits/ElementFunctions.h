//===- ElementFunctions.h - The arithmetic of a kernel's IR -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_VISITS_ELEMENTFUNCTIONS_H
#define TESELA_COMPILER_VISITS_ELEMENTFUNCTIONS_H

#include "mlir/IR/Operation.h"

#include <cstdint>

namespace tesela {

/// A value of the IR. Integers of any width are sign-extended to 64 bits; an i1 is 0 or 1.
union Scalar {
  int64_t integer;
  float number;
};

/// One operation on `count` elements: result[i] from operands[0][i], operands[1][i], …
using ElementFunction = void (*)(Scalar *result, const Scalar *const *operands, int64_t count);

/// The function that computes `op` and wraps to the width of its result. Null if `op` does not
/// belong to the arithmetic of masks and scores.
ElementFunction elementFunctionOf(mlir::Operation &op);

} // namespace tesela

#endif // TESELA_COMPILER_VISITS_ELEMENTFUNCTIONS_H
