//===- Philox.cpp - Philox4x32 as operations --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/emit/Philox.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tesela {

namespace {

/// Arithmetic on 32-bit words.
struct WordBuilder {
  OpBuilder &builder;
  Location loc;
  Type word, wide;

  WordBuilder(OpBuilder &builder, Location loc, Type word)
      : builder(builder), loc(loc), word(word), wide(builder.getI64Type()) {
    if (auto vector = dyn_cast<VectorType>(word))
      wide = vector.clone(wide);
  }

  Value constant(Type type, uint64_t value) {
    auto element = cast<IntegerType>(getElementTypeOrSelf(type));
    IntegerAttr number = builder.getIntegerAttr(element, APInt(element.getWidth(), value));
    auto vector = dyn_cast<VectorType>(type);
    return arith::ConstantOp::create(
        builder, loc, vector ? TypedAttr(DenseElementsAttr::get(vector, number)) : number);
  }
  Value exclusiveOr(Value a, Value b) { return arith::XOrIOp::create(builder, loc, a, b); }
  /// The upper and the lower half of a product.
  std::pair<Value, Value> multiply(uint32_t factor, Value x) {
    Value product = arith::MulIOp::create(builder, loc, constant(wide, factor),
                                          arith::ExtUIOp::create(builder, loc, wide, x));
    Value upper = arith::ShRUIOp::create(builder, loc, product, constant(wide, 32));
    return {arith::TruncIOp::create(builder, loc, word, upper),
            arith::TruncIOp::create(builder, loc, word, product)};
  }
};

} // namespace

PhiloxWords emitPhilox(OpBuilder &builder, Location loc, PhiloxWords counter, unsigned rounds,
                       ValueRange key, WideProduct multiply) {
  // The multipliers, and the steps of the Weyl sequence, from the paper.
  constexpr std::array<uint32_t, 2> factors = {0xD2511F53, 0xCD9E8D57};
  constexpr std::array<uint32_t, 2> steps = {0x9E3779B9, 0xBB67AE85};
  WordBuilder words(builder, loc, counter.front().getType());
  for (uint32_t round = 0; round < rounds; ++round) {
    auto mixed = [&](Value upper, Value other, unsigned half) {
      Value sum = words.exclusiveOr(upper, other);
      uint32_t step = round * steps[half];
      if (key.empty())
        return step == 0 ? sum : words.exclusiveOr(sum, words.constant(words.word, step));
      return words.exclusiveOr(
          sum, arith::AddIOp::create(builder, loc, key[half], words.constant(words.word, step)));
    };
    auto product = [&](unsigned half, Value word) {
      return multiply ? multiply(factors[half], word) : words.multiply(factors[half], word);
    };
    auto [high0, low0] = product(0, counter[0]);
    auto [high1, low1] = product(1, counter[2]);
    counter = {mixed(high1, counter[1], 0), low1, mixed(high0, counter[3], 1), low0};
  }
  return counter;
}

} // namespace tesela
