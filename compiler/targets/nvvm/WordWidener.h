//===- WordWidener.h - Elements of 8 bits become 16 -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_WORDWIDENER_H
#define TESELA_COMPILER_TARGETS_NVVM_WORDWIDENER_H

#include "targets/nvvm/PtxInstructions.h"

namespace tesela::nvvm {

/// On a kernel: the chip has the instruction from e4m3 to f16.
inline constexpr llvm::StringLiteral convertsAttr = "pipe.converts_e4m3";

/// Makes pairs of f16 or bf16 of a 32-bit word with four elements of e4m3.
///
/// The exponent's and the mantissa's bits move to where the wider type has its own, which divides
/// the number by a power of two, exactly; a multiplication takes it back, subnormal numbers
/// included. The same for f16 and bf16, and for all chips; from sm_89 on an instruction makes f16
/// of neighbours, NaN included.
///
/// The largest number so far, 480, stands for NaN. Of all of them it alone becomes infinite when
/// `limit` multiplies it, and infinity times 0 is NaN: added, that makes a NaN of it, and leaves
/// others as they are. Both run where products of numbers do, beside the integer instructions.
class WordWidener {
public:
  /// `converts`: by the instruction, where there is one.
  WordWidener(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type, bool converts);

  /// The elements 2 · `half` and the next.
  mlir::Value neighbours(mlir::Value word, int64_t half);
  /// The elements `odd` and `odd` + 2, which takes an instruction less.
  mlir::Value everyOther(mlir::Value word, bool odd);

private:
  /// The elements 2 · `half` and the next, by the instruction.
  mlir::Value convert(mlir::Value word, int64_t half);
  /// Of a word whose upper bytes of each half are elements.
  mlir::Value widenUpper(mlir::Value word);
  /// Of bits where the wider type has them, and where the signs are.
  mlir::Value finish(mlir::Value moved, mlir::Value signs);
  mlir::Value twice(int64_t half);
  mlir::Value constant(int64_t value);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Type type;
  bool converts;
  int64_t shift, bits, factor, limit; ///< the last two as the wider type's bits
  const char *name;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_WORDWIDENER_H
