//===- ExactSums.h - Sums that do not depend on the order -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An exact sum of f32 is a long fixed-point number. It begins with the lowest bit of the smallest
// f32 and has digits of 24 bits (U. Kulisch, "Computer Arithmetic and Validity", chapter 8). Each
// digit is an i64 that absorbs its own carries. An f32 has 24 bits, so it adds to two neighbouring
// digits,
//
//   x = ± m · 2^(24 d + r - 149), m < 2^24, r < 24:    digit d ± (m · 2^r mod 2^24),
//                                                      digit d + 1 ± ⌊m · 2^r / 2^24⌋
//
// by atomic additions of integers, which give the same result in any order. 2^39 additions cannot
// overflow 64 bits. The last word counts values that were infinite or NaN.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_EXACTSUMS_H
#define TESELA_COMPILER_TARGETS_COMMON_EXACTSUMS_H

#include "mlir/IR/Builders.h"

namespace tesela {

/// An f32's lowest bit is at most 2^253 · 2^-149: so there are digits 0 to 10 and one above.
inline constexpr int64_t exactDigits = 12, bitsOfDigit = 24;
inline constexpr int64_t exactWords = exactDigits + 1;

/// Adds the f32 `value` to the sum whose word 0 is at `address`; its words are `stride` (i64) times
/// 4 bytes apart. Does nothing if `exists` is false or the value is 0. `scope`: LLVM's scope of the
/// threads that add at the same time.
void emitExactAddition(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value exists,
                       mlir::Value value, mlir::Value address, mlir::Value stride,
                       llvm::StringRef scope);

/// The sum as an f32. No thread may add to it any more.
mlir::Value emitExactSum(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value address,
                         mlir::Value stride);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_EXACTSUMS_H
