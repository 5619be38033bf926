//===- VectorUnit.h - What the CPU's vectors can do -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_VECTORUNIT_H
#define TESELA_COMPILER_TARGETS_HOST_VECTORUNIT_H

#include <cstdint>
#include <numeric>

namespace tesela {

struct VectorUnit {
  int64_t width = 4; ///< f32 of one register: 16 (AVX-512), 8 (AVX), 4
  bool fma = false;  ///< fused multiply-add
  bool f16c = false; ///< conversions between f16 and f32

  /// The widest vector that rows of `extent` elements divide into, so that no
  /// loop needs a remainder. The extents of schedules are multiples of 16; an odd
  /// one is correct, one element at a time.
  int64_t widthFor(int64_t extent) const { return std::gcd(width, extent); }
};

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_VECTORUNIT_H
