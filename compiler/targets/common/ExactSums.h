//===- ExactSums.h - Sums whose order does not matter -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An exact sum of f32 is a long number in fixed point, from the lowest bit of the smallest f32 on,
// in digits of 24 bits (U. Kulisch, "Computer Arithmetic and Validity", chapter 8). Each digit is
// an i64 of its own and takes its carries itself: an f32, which has 24 bits, adds to two
// neighbours,
//
//   x = ± m · 2^(24 d + r - 149), m < 2^24, r < 24:    digit d ± (m · 2^r mod 2^24),
//                                                      digit d + 1 ± ⌊m · 2^r / 2^24⌋
//
// by atomic additions of integers, which give the same in any order. 2^39 additions cannot leave
// 64 bits. The last word counts what was infinite or NaN.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_EXACTSUMS_H
#define TESELA_COMPILER_TARGETS_COMMON_EXACTSUMS_H

#include "mlir/IR/Builders.h"

namespace tesela {

/// An f32's lowest bit is at most 2^253 times 2^-149: digits 0 to 10, and one above.
inline constexpr int64_t exactDigits = 12, bitsOfDigit = 24;
inline constexpr int64_t exactWords = exactDigits + 1;

/// Adds the f32 `value` to the sum whose word 0 lies at `address`, and the others `stride` (i64)
/// words of 4 bytes apart each, where `exists` holds and the value is not 0. `scope`: LLVM's, of
/// the threads that add at the same time.
void emitExactAddition(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value exists,
                       mlir::Value value, mlir::Value address, mlir::Value stride,
                       llvm::StringRef scope);

/// The f32 of a sum that nobody adds to any more.
mlir::Value emitExactSum(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value address,
                         mlir::Value stride);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_EXACTSUMS_H
