//===- Arithmetic.h - The language's arithmetic on i32 ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The functions are total and wrap. The attn dialect's operations and the interpreter compute with
// the same functions. This header needs no MLIR.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_ATTN_ARITHMETIC_H
#define TESELA_ATTN_ARITHMETIC_H

#include <cstdint>
#include <limits>

namespace tesela::attn {

inline int32_t wrappingAdd(int32_t lhs, int32_t rhs) {
  return static_cast<int32_t>(static_cast<uint32_t>(lhs) + static_cast<uint32_t>(rhs));
}

inline int32_t wrappingSubtract(int32_t lhs, int32_t rhs) {
  return static_cast<int32_t>(static_cast<uint32_t>(lhs) - static_cast<uint32_t>(rhs));
}

inline int32_t wrappingMultiply(int32_t lhs, int32_t rhs) {
  return static_cast<int32_t>(static_cast<uint32_t>(lhs) * static_cast<uint32_t>(rhs));
}

/// floor(lhs / rhs); 0 where rhs is 0; -2^31 / -1 is -2^31.
inline int32_t floorDivide(int32_t lhs, int32_t rhs) {
  if (rhs == 0)
    return 0;
  if (rhs == -1)
    return wrappingSubtract(0, lhs);
  int32_t quotient = lhs / rhs;
  return quotient - (lhs % rhs != 0 && (lhs < 0) != (rhs < 0));
}

/// lhs - floorDivide(lhs, rhs) * rhs; 0 where rhs is 0.
inline int32_t floorRemainder(int32_t lhs, int32_t rhs) {
  if (rhs == 0 || rhs == -1)
    return 0;
  int32_t remainder = lhs % rhs;
  return remainder != 0 && (remainder < 0) != (rhs < 0) ? remainder + rhs : remainder;
}

/// Rounds towards zero and saturates; gives 0 for NaN. Real is float or double.
template <typename Real> int32_t saturatingInt(Real value) {
  if (value != value)
    return 0;
  if (value >= Real(2147483648.0))
    return std::numeric_limits<int32_t>::max();
  if (value <= Real(-2147483648.0))
    return std::numeric_limits<int32_t>::min();
  return static_cast<int32_t>(value);
}

} // namespace tesela::attn

#endif // TESELA_ATTN_ARITHMETIC_H
