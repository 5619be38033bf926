//===- WorkHeads.cpp - Work items that share a position ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/WorkHeads.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {

WorkHeads emitWorkHeads(OpBuilder &builder, Location loc, Value item, const ExtentValues &extents,
                        int64_t most) {
  auto add = [&](Value a, Value b) -> Value { return arith::AddIOp::create(builder, loc, a, b); };
  auto multiply = [&](Value a, Value b) -> Value {
    return arith::MulIOp::create(builder, loc, a, b);
  };
  auto divide = [&](Value a, Value b) -> Value {
    return arith::DivUIOp::create(builder, loc, a, b);
  };
  auto subtract = [&](Value a, Value b) -> Value {
    return arith::SubIOp::create(builder, loc, a, b);
  };
  Value rows = multiply(multiply(extents.B, extents.H), extents.Sq);
  Value wanted = arith::ConstantIntOp::create(builder, loc, most, 32);
  Value share = emitCeilDivide(builder, loc, rows, wanted);
  Value itemsOfPosition = emitCeilDivide(builder, loc, extents.H, share);
  Value place = divide(item, itemsOfPosition);
  Value first = multiply(subtract(item, multiply(place, itemsOfPosition)), share);
  Value end = arith::MinUIOp::create(builder, loc, add(first, share), extents.H);
  Value batch = divide(place, extents.Sq);
  return {batch, subtract(place, multiply(batch, extents.Sq)), first, end};
}

Expression itemsOfHeads(int64_t most) {
  std::string share = "(ceildiv (* B (* H Sq)) " + std::to_string(most) + ")";
  return Expression::parse("(* (* B Sq) (ceildiv H " + share + "))").value();
}

} // namespace tesela
