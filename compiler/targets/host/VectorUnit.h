//===- VectorUnit.h - What the CPU's vectors can do -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_VECTORUNIT_H
#define TESELA_COMPILER_TARGETS_HOST_VECTORUNIT_H

#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <string_view>

namespace tesela {

/// A row of VectorUnit.cpp's table, or what a test makes of one.
struct VectorUnit {
  int64_t width = 4;      ///< f32 of one register: 16 (AVX-512), 8 (AVX), 4
  bool fma = false;       ///< fused multiply-add
  bool f16c = false;      ///< conversions between f16 and f32
  int64_t registers = 16; ///< of vectors
  bool bf16Pairs = false; ///< AVX512-BF16's product of pairs
  /// That product is as fast as a multiply-add of f32, so that bf16 gains by it.
  bool arePairsFast = false;
  /// The block of a product's result that is kept in registers: #tile.schedule's product_rows
  /// and product_vectors. Of f32 the second is runVectors: there the sums of earlier runs take
  /// registers, too, where as many are left.
  int64_t productRows = 4, productVectors = 2, runVectors = 2;

  /// The widest vector that rows of `extent` elements divide into, so that no
  /// loop needs a remainder. The extents of schedules are multiples of 8; an odd
  /// one is correct, one element at a time.
  int64_t widthFor(int64_t extent) const { return std::gcd(width, extent); }
  /// Registers that a product with such a block takes: its sums, and for one step
  /// the vectors of the right operand and one element of the left.
  static int64_t productRegisters(int64_t rows, int64_t vectors) {
    return rows * vectors + vectors + 1;
  }
};

/// That of the CPU which LLVM calls `name` and which has `features`, as LLVM calls them.
VectorUnit vectorUnitOf(std::string_view name, const std::set<std::string> &features);
/// The running CPU's.
VectorUnit hostVectorUnit();

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_VECTORUNIT_H
