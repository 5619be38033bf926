//===- BlockCoordinates.cpp - Blocks as four numbers ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/BlockCoordinates.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {

static Value constant(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

BlockCoordinates emitWork(OpBuilder &builder, Location loc, Value item, const ExtentValues &extents,
                          int64_t rows) {
  auto divide = [&](Value a, Value b) -> Value {
    return arith::DivUIOp::create(builder, loc, a, b);
  };
  auto remainder = [&](Value a, Value b) -> Value {
    return arith::RemUIOp::create(builder, loc, a, b);
  };
  // Written so that Sq + rows - 1 cannot leave i32: a launch has at least one query.
  Value one = constant(builder, loc, 1), rowCount = constant(builder, loc, rows);
  Value lastBlock = divide(arith::SubIOp::create(builder, loc, extents.Sq, one), rowCount);
  Value blocks = arith::AddIOp::create(builder, loc, lastBlock, one);
  Value row = arith::SubIOp::create(builder, loc, lastBlock, remainder(item, blocks));
  Value batchAndHead = divide(item, blocks);
  Value first = arith::MulIOp::create(builder, loc, row, rowCount);
  return {divide(batchAndHead, extents.H), remainder(batchAndHead, extents.H), first, extents.Sq};
}

Value emitKvHead(OpBuilder &builder, Location loc, Value head, const ExtentValues &extents) {
  Value group = arith::DivUIOp::create(builder, loc, extents.H, extents.Hkv);
  return arith::DivUIOp::create(builder, loc, head, group);
}

BlockCoordinates emitBlockAt(OpBuilder &builder, Location loc, const BlockCoordinates &queries,
                             Value index, const ExtentValues &extents, int64_t rows) {
  Value first = arith::MulIOp::create(builder, loc, index, constant(builder, loc, rows));
  return {queries.batch, emitKvHead(builder, loc, queries.head, extents), first, extents.Sk};
}

} // namespace tesela
