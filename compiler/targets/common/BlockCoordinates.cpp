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

/// ceil(Sq / rows), written so that Sq + rows - 1 cannot leave i32: a launch has at least one
/// query.
static Value emitBlocks(OpBuilder &builder, Location loc, const ExtentValues &extents,
                        int64_t rows) {
  Value one = constant(builder, loc, 1);
  Value last =
      arith::DivUIOp::create(builder, loc, arith::SubIOp::create(builder, loc, extents.Sq, one),
                             constant(builder, loc, rows));
  return arith::AddIOp::create(builder, loc, last, one);
}

Value emitWorkItems(OpBuilder &builder, Location loc, const ExtentValues &extents, int64_t rows) {
  Value heads = arith::MulIOp::create(builder, loc, extents.B, extents.H);
  return arith::MulIOp::create(builder, loc, heads, emitBlocks(builder, loc, extents, rows));
}

/// How many query heads a group has whose keys and values fill `groupKeys` rows: whole key/value
/// heads, at least one.
static Value emitGroup(OpBuilder &builder, Location loc, const ExtentValues &extents,
                       int64_t groupKeys) {
  Value one = constant(builder, loc, 1);
  Value sharing = arith::DivUIOp::create(builder, loc, extents.H, extents.Hkv);
  // Heads that a group of no keys could have: more than any launch has.
  Value keys = arith::MaxUIOp::create(builder, loc, extents.Sk, one);
  Value kvHeads = arith::MaxUIOp::create(
      builder, loc, arith::DivUIOp::create(builder, loc, constant(builder, loc, groupKeys), keys),
      one);
  Value all = arith::MulIOp::create(builder, loc, extents.B, extents.Hkv);
  // More heads at once only spread the launch over more keys (docs/performance.md).
  constexpr int64_t mostHeads = 16;
  kvHeads = arith::MinUIOp::create(builder, loc, kvHeads, constant(builder, loc, mostHeads));
  kvHeads = arith::MinUIOp::create(builder, loc, kvHeads, all);
  return arith::MulIOp::create(builder, loc, kvHeads, sharing);
}

BlockCoordinates emitWork(OpBuilder &builder, Location loc, Value item, const ExtentValues &extents,
                          int64_t rows, int64_t groupKeys) {
  auto divide = [&](Value a, Value b) -> Value {
    return arith::DivUIOp::create(builder, loc, a, b);
  };
  auto multiply = [&](Value a, Value b) -> Value {
    return arith::MulIOp::create(builder, loc, a, b);
  };
  auto subtract = [&](Value a, Value b) -> Value {
    return arith::SubIOp::create(builder, loc, a, b);
  };
  Value one = constant(builder, loc, 1);
  Value blocks = emitBlocks(builder, loc, extents, rows);
  Value group = emitGroup(builder, loc, extents, groupKeys);
  Value heads = multiply(extents.B, extents.H);
  // The last group may have fewer heads.
  Value groupNumber = divide(item, multiply(group, blocks));
  Value firstHead = multiply(groupNumber, group);
  Value inGroup = subtract(item, multiply(firstHead, blocks));
  group = arith::MinUIOp::create(builder, loc, group, subtract(heads, firstHead));
  // Nor none, where `item` is the count of all: it is asked whether there is such an item.
  group = arith::MaxUIOp::create(builder, loc, group, one);
  Value fromEnd = divide(inGroup, group);
  Value head =
      arith::AddIOp::create(builder, loc, firstHead, subtract(inGroup, multiply(fromEnd, group)));
  Value first = multiply(subtract(subtract(blocks, one), fromEnd), constant(builder, loc, rows));
  Value batch = divide(head, extents.H);
  return {batch, subtract(head, multiply(batch, extents.H)), first, extents.Sq};
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
