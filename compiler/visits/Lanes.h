//===- Lanes.h - The arithmetic of a kernel's IR, evaluated -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_VISITS_LANES_H
#define TESELA_COMPILER_VISITS_LANES_H

#include "mlir/IR/Operation.h"

#include <cstdint>

namespace tesela {

/// A value of the IR. Integers are kept sign-extended, whatever their width; i1 as 0 or 1.
union Scalar {
  int64_t integer;
  float number;
};

/// One operation on `count` lanes: result[i] of operands[0][i], operands[1][i], …
using LaneFunction = void (*)(Scalar *result, const Scalar *const *operands, int64_t count);

/// What computes `op`, wrapped to its result's width; null where it is none of the arithmetic of
/// masks and scores.
LaneFunction laneFunctionOf(mlir::Operation &op);

} // namespace tesela

#endif // TESELA_COMPILER_VISITS_LANES_H
