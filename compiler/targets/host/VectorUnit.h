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

/// What the CPU's vectors can do: a row of the table in VectorUnit.cpp, or what a test makes of it.
struct VectorUnit {
  int64_t width = 4;      ///< f32 elements of a register: 16 (AVX-512), 8 (AVX), 4
  bool fma = false;       ///< fused multiply-add
  bool f16c = false;      ///< conversions between f16 and f32
  int64_t registers = 16; ///< number of vector registers
  bool bf16Pairs = false; ///< AVX512-BF16's product of pairs exists
  /// That product is as fast as a multiply-add of f32, so bf16 gains by it.
  bool arePairsFast = false;
  /// The block of a product's result that is kept in registers: #tile.schedule's product_rows and
  /// product_vectors. For f32, runVectors replaces productVectors: there the sums of earlier runs
  /// need registers, too, if there are enough.
  int64_t productRows = 4, productVectors = 2, runVectors = 2;

  /// The widest vector that divides rows of `extent` elements, so that no loop has
  /// a remainder. The extents of schedules are multiples of 8. An odd extent is
  /// correct, too, one element at a time.
  int64_t widthFor(int64_t extent) const { return std::gcd(width, extent); }
  /// Registers that a product with such a block needs: its sums and, for one step, the vectors of
  /// the right operand and one element of the left.
  static int64_t productRegisters(int64_t rows, int64_t vectors) {
    return rows * vectors + vectors + 1;
  }
};

/// The unit of the CPU that LLVM calls `name`, with `features` (LLVM's names).
VectorUnit vectorUnitOf(std::string_view name, const std::set<std::string> &features);
/// The unit of the running CPU.
VectorUnit hostVectorUnit();

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_VECTORUNIT_H
