//===- WordWidener.h - From elements of 8 bits to 16 ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_WORDWIDENER_H
#define TESELA_COMPILER_TARGETS_NVVM_WORDWIDENER_H

#include "targets/nvvm/PtxInstructions.h"

namespace tesela::nvvm {

/// An attribute of a kernel: the chip has an instruction that converts e4m3 to f16.
inline constexpr llvm::StringLiteral convertsAttr = "pipe.converts_e4m3";

/// Makes pairs of f16 or bf16 from a 32-bit word with four e4m3 elements.
///
/// The bits of exponent and mantissa move to their places in the wider type. That divides the
/// number by a power of two, exactly, and a multiplication undoes it, also for subnormal numbers.
/// This works for f16 and bf16 and on all chips. From sm_89 on, an instruction makes two f16 of two
/// neighbouring elements, NaN included.
///
/// So far NaN has become 480, the largest number. Only 480 becomes infinite when it is multiplied
/// by `limit`, and infinity times 0 is NaN. Adding that makes NaN of 480 and leaves other numbers
/// as they are. Both steps use the floating-point units, beside the integer instructions.
class WordWidener {
public:
  /// `converts`: whether to use the instruction where there is one.
  WordWidener(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type, bool converts);

  /// The elements 2 · `half` and 2 · `half` + 1.
  mlir::Value neighbours(mlir::Value word, int64_t half);
  /// The elements `odd` and `odd` + 2, which takes one instruction less.
  mlir::Value everyOther(mlir::Value word, bool odd);

private:
  /// The elements 2 · `half` and 2 · `half` + 1, by the instruction.
  mlir::Value convert(mlir::Value word, int64_t half);
  /// Widens a word that has an element in the upper byte of each half.
  mlir::Value widenUpper(mlir::Value word);
  /// The last steps: `moved` has the bits in their places of the wider type, `signs` the signs.
  mlir::Value finish(mlir::Value moved, mlir::Value signs);
  mlir::Value twice(int64_t half);
  mlir::Value constant(int64_t value);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Type type;
  bool converts;
  int64_t shift, bits, factor, limit; ///< factor and limit as bits of the wider type
  const char *name;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_WORDWIDENER_H
