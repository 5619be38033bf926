//===- WordWidener.cpp - From elements of 8 bits to 16 ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/WordWidener.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

WordWidener::WordWidener(OpBuilder &builder, Location loc, Type type, bool converts)
    : builder(builder), loc(loc), type(type), converts(converts && type.isF16()),
      shift(type.isBF16() ? 4 : 1), bits(type.isBF16() ? 0x07F0 : 0x3F80),
      factor(type.isBF16() ? 0x7B80 : 0x5C00), // 2^120, 2^8
      limit(type.isBF16() ? 0x7B09 : 0x5848),  // 1.0703125 · 2^119, · 2^7
      name(type.isBF16() ? "bf16x2" : "f16x2") {}

Value WordWidener::neighbours(Value word, int64_t half) {
  if (converts)
    return convert(word, half);
  PtxInstructions ptx(builder, loc);
  return widenUpper(ptx.permuteBytes(word, constant(0), constant(half == 0 ? 0x1404 : 0x3424)));
}

/// PTX ISA, "cvt": the lower byte becomes the lower half.
Value WordWidener::convert(Value word, int64_t half) {
  auto dialect = LLVM::AsmDialectAttr::get(builder.getContext(), LLVM::AsmDialect::AD_ATT);
  StringRef text = half == 0 ? "{\n .reg .b16 low, high;\n mov.b32 {low, high}, $1;\n"
                               " cvt.rn.f16x2.e4m3x2 $0, low;\n}"
                             : "{\n .reg .b16 low, high;\n mov.b32 {low, high}, $1;\n"
                               " cvt.rn.f16x2.e4m3x2 $0, high;\n}";
  return LLVM::InlineAsmOp::create(builder, loc, builder.getI32Type(), ValueRange(word), text,
                                   "=r,r", /*has_side_effects=*/false, /*is_align_stack=*/false,
                                   LLVM::tailcallkind::TailCallKind::None, dialect, ArrayAttr())
      ->getResult(0);
}

Value WordWidener::everyOther(Value word, bool odd) {
  if (converts) // the permutation makes the elements neighbours, once for both calls
    return convert(PtxInstructions(builder, loc).permuteBytes(word, constant(0), constant(0x3120)),
                   odd);
  if (odd)
    return widenUpper(word);
  Value moved = arith::ShLIOp::create(builder, loc, word, constant(8 - shift));
  return finish(moved, arith::ShLIOp::create(builder, loc, word, constant(8)));
}

Value WordWidener::widenUpper(Value word) {
  return finish(arith::ShRUIOp::create(builder, loc, word, constant(shift)), word);
}

Value WordWidener::finish(Value moved, Value signs) {
  PtxInstructions ptx(builder, loc);
  Value magnitude = arith::AndIOp::create(builder, loc, moved, twice(bits));
  Value sign = arith::AndIOp::create(builder, loc, signs, twice(0x8000));
  Value number = arith::OrIOp::create(builder, loc, magnitude, sign);
  Value wide = ptx.scalePair(name, number, twice(factor));
  Value beyond = ptx.scalePair(name, wide, twice(limit));
  auto pair = VectorType::get(2, type);
  auto asPair = [&](Value x) -> Value { return LLVM::BitcastOp::create(builder, loc, pair, x); };
  Value marked =
      LLVM::FMAOp::create(builder, loc, asPair(beyond), asPair(constant(0)), asPair(wide));
  return LLVM::BitcastOp::create(builder, loc, builder.getI32Type(), marked);
}

Value WordWidener::twice(int64_t half) { return constant(int32_t(half << 16 | half)); }

Value WordWidener::constant(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

} // namespace tesela::nvvm
