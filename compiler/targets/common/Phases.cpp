//===- Phases.cpp - tile.phase as arithmetic --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/Phases.h"

#include "tile/Tile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace tesela {

/// tile.phase guarantees x < 256 + 2048. So x · period < 2^20 and x · factor < 2^32.
Value emitPhase(OpBuilder &builder, Location loc, Value x, Value period, Value factor) {
  IntegerAttr bits = builder.getI32IntegerAttr(tile::PhaseOp::factorBits);
  auto vector = dyn_cast<ShapedType>(x.getType());
  TypedAttr amount = vector ? TypedAttr(DenseElementsAttr::get(vector, bits)) : bits;
  Value shift = arith::ConstantOp::create(builder, loc, amount);
  Value scaled = arith::MulIOp::create(builder, loc, x, factor);
  Value quotient = arith::ShRUIOp::create(builder, loc, scaled, shift);
  return arith::SubIOp::create(builder, loc, x,
                               arith::MulIOp::create(builder, loc, quotient, period));
}

} // namespace tesela
