//===- BlockCoordinates.cpp - Blocks as five numbers ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/BlockCoordinates.h"

#include "analysis/RowMap.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {

static Value constant(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

Value emitCeilDivide(OpBuilder &builder, Location loc, Value a, Value b) {
  Value one = constant(builder, loc, 1);
  Value last = arith::DivUIOp::create(builder, loc, arith::SubIOp::create(builder, loc, a, one), b);
  return arith::AddIOp::create(builder, loc, last, one);
}

static Value emitBlocks(OpBuilder &builder, Location loc, Value length, int64_t positions) {
  return emitCeilDivide(builder, loc, length, constant(builder, loc, positions));
}

/// How many query heads share a key/value head.
static Value emitSharing(OpBuilder &builder, Location loc, const ExtentValues &extents) {
  return arith::DivUIOp::create(builder, loc, extents.H, extents.Hkv);
}

namespace {
/// How many packs of a block's query heads there are: of one key/value head (`sharing`), and in
/// all. A pack of one head is the head itself.
struct Packs {
  Value sharing, all;

  Packs(OpBuilder &builder, Location loc, const ExtentValues &extents, int64_t heads)
      : sharing(emitSharing(builder, loc, extents)), all(extents.H) {
    if (heads == 1)
      return;
    // ceil(sharing / heads), at least 1, far from the end of i32.
    Value rounded = arith::AddIOp::create(builder, loc, sharing, constant(builder, loc, heads - 1));
    sharing = arith::DivUIOp::create(builder, loc, rounded, constant(builder, loc, heads));
    all = arith::MulIOp::create(builder, loc, extents.Hkv, sharing);
  }
};
} // namespace

Value emitWorkItems(OpBuilder &builder, Location loc, const ExtentValues &extents,
                    tile::BlockType block) {
  if (block.getAxis() == tile::Axis::Key) {
    Value heads = arith::MulIOp::create(builder, loc, extents.B, extents.Hkv);
    return arith::MulIOp::create(builder, loc, heads,
                                 emitBlocks(builder, loc, extents.Sk, block.getRows()));
  }
  Value packs = block.getHeadCount() == 1 ? extents.H
                                          : Packs(builder, loc, extents, block.getHeadCount()).all;
  Value heads = arith::MulIOp::create(builder, loc, extents.B, packs);
  return arith::MulIOp::create(builder, loc, heads,
                               emitBlocks(builder, loc, extents.Sq, block.getPositions()));
}

Value emitMoreSlots(OpBuilder &builder, Location loc, const ExtentValues &extents,
                    tile::BlockType block, int64_t workers) {
  ExtentValues ofOne = extents;
  ofOne.B = constant(builder, loc, 1);
  Value items = emitWorkItems(builder, loc, ofOne, block); // at least one
  return emitCeilDivide(builder, loc, constant(builder, loc, workers), items);
}

Value emitHeadParts(OpBuilder &builder, Location loc, const ExtentValues &extents,
                    tile::BlockType keys, int64_t workers) {
  Value most = arith::DivUIOp::create(builder, loc, constant(builder, loc, workers),
                                      emitWorkItems(builder, loc, extents, keys));
  most = arith::MaxUIOp::create(builder, loc, most, constant(builder, loc, 1));
  Value sharing = emitSharing(builder, loc, extents);
  Value longest = emitCeilDivide(builder, loc, sharing, most);
  return emitCeilDivide(builder, loc, sharing, longest);
}

ExtentValues emitDealt(OpBuilder &builder, Location loc, const ExtentValues &extents, Value parts) {
  ExtentValues dealt = extents;
  dealt.Hkv = arith::MulIOp::create(builder, loc, extents.Hkv, parts);
  return dealt;
}

/// How many key/value heads form a group whose items read `groupRows` rows in sum, if those of each
/// head read `rows` at the same time; at least one.
static Value emitGroup(OpBuilder &builder, Location loc, const ExtentValues &extents, Value rows,
                       int64_t groupRows) {
  Value one = constant(builder, loc, 1);
  // With 0 rows the division gives more heads than any launch has.
  rows = arith::MaxUIOp::create(builder, loc, rows, one);
  Value kvHeads = arith::MaxUIOp::create(
      builder, loc, arith::DivUIOp::create(builder, loc, constant(builder, loc, groupRows), rows),
      one);
  Value all = arith::MulIOp::create(builder, loc, extents.B, extents.Hkv);
  // More heads would only spread the launch over more keys (docs/log/2026-11-21-forward-sm90.md).
  constexpr int64_t mostHeads = 16;
  kvHeads = arith::MinUIOp::create(builder, loc, kvHeads, constant(builder, loc, mostHeads));
  return arith::MinUIOp::create(builder, loc, kvHeads, all);
}

/// How many heads come before the last group, which has at least half the heads of a group.
static Value emitHeadsBeforeEnd(OpBuilder &builder, Location loc, Value group, Value heads) {
  Value one = constant(builder, loc, 1);
  Value half =
      arith::ShRUIOp::create(builder, loc, arith::AddIOp::create(builder, loc, group, one), one);
  Value before = arith::SubIOp::create(builder, loc, heads, half);
  return arith::SubIOp::create(builder, loc, before,
                               arith::RemUIOp::create(builder, loc, before, group));
}

namespace {
/// An item's head and block. Heads form groups; a group has its blocks in order, each for all
/// heads.
struct ItemPlace {
  Value head, block;
};
} // namespace

static ItemPlace emitItemPlace(OpBuilder &builder, Location loc, Value item, Value group,
                               Value blocks, Value heads,
                               tile::ItemOrder order = tile::ItemOrder::FirstKeysFirst) {
  auto multiply = [&](Value a, Value b) -> Value {
    return arith::MulIOp::create(builder, loc, a, b);
  };
  auto subtract = [&](Value a, Value b) -> Value {
    return arith::SubIOp::create(builder, loc, a, b);
  };
  // The last group may have fewer heads.
  Value groupNumber = arith::DivUIOp::create(builder, loc, item, multiply(group, blocks));
  Value firstHead = multiply(groupNumber, group);
  Value isAtEnd;
  if (order == tile::ItemOrder::LastKeysFirstButAtEnd) {
    Value before = emitHeadsBeforeEnd(builder, loc, group, heads);
    isAtEnd = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, firstHead, before);
    firstHead = arith::MinUIOp::create(builder, loc, firstHead, before);
    group = arith::SelectOp::create(builder, loc, isAtEnd, heads, group);
  }
  Value inGroup = subtract(item, multiply(firstHead, blocks));
  group = arith::MinUIOp::create(builder, loc, group, subtract(heads, firstHead));
  // A kernel that tests whether there is another item passes the count of all items. Then no head
  // is left, and the division must not be by 0.
  group = arith::MaxUIOp::create(builder, loc, group, constant(builder, loc, 1));
  Value block = arith::DivUIOp::create(builder, loc, inGroup, group);
  Value head =
      arith::AddIOp::create(builder, loc, firstHead, subtract(inGroup, multiply(block, group)));
  if (order == tile::ItemOrder::FirstKeysFirst)
    return {head, block};
  Value fromEnd = subtract(subtract(blocks, constant(builder, loc, 1)), block);
  return {head, isAtEnd ? arith::SelectOp::create(builder, loc, isAtEnd, block, fromEnd) : fromEnd};
}

BlockCoordinates emitWork(OpBuilder &builder, Location loc, Value item, const ExtentValues &extents,
                          tile::BlockType block, int64_t groupKeys, tile::ItemOrder order) {
  auto divide = [&](Value a, Value b) -> Value {
    return arith::DivUIOp::create(builder, loc, a, b);
  };
  auto multiply = [&](Value a, Value b) -> Value {
    return arith::MulIOp::create(builder, loc, a, b);
  };
  auto subtract = [&](Value a, Value b) -> Value {
    return arith::SubIOp::create(builder, loc, a, b);
  };
  if (block.getAxis() == tile::Axis::Key) {
    // Work items that run at the same time are mostly at the same one of the shared query heads.
    Value group = emitGroup(builder, loc, extents, extents.Sq, groupKeys);
    Value blocks = emitBlocks(builder, loc, extents.Sk, block.getRows());
    ItemPlace place =
        emitItemPlace(builder, loc, item, group, blocks, multiply(extents.B, extents.Hkv), order);
    Value batch = divide(place.head, extents.Hkv);
    return {batch, subtract(place.head, multiply(batch, extents.Hkv)),
            multiply(place.block, constant(builder, loc, block.getRows())), extents.Sk, extents.Sq};
  }
  int64_t heads = block.getHeadCount(), positions = block.getPositions();
  Value one = constant(builder, loc, 1);
  Value blocks = emitBlocks(builder, loc, extents.Sq, positions);
  Packs packs(builder, loc, extents, heads);
  Value group = multiply(emitGroup(builder, loc, extents, extents.Sk, groupKeys), packs.sharing);
  auto [pack, fromEnd] =
      emitItemPlace(builder, loc, item, group, blocks, multiply(extents.B, packs.all));
  Value first =
      multiply(subtract(subtract(blocks, one), fromEnd), constant(builder, loc, positions));
  Value batch = divide(pack, packs.all);
  Value head = subtract(pack, multiply(batch, packs.all));
  if (heads > 1) { // `head` counts packs so far
    Value kvHead = divide(head, packs.sharing);
    Value inSharing =
        multiply(subtract(head, multiply(kvHead, packs.sharing)), constant(builder, loc, heads));
    head = arith::AddIOp::create(builder, loc, multiply(kvHead, emitSharing(builder, loc, extents)),
                                 inSharing);
  }
  return {batch, head, first, extents.Sq, extents.Sk};
}

std::pair<BlockCoordinates, Value> emitDealtWork(OpBuilder &builder, Location loc, Value item,
                                                 const ExtentValues &extents, tile::BlockType keys,
                                                 int64_t groupKeys, int64_t workers,
                                                 tile::ItemOrder order) {
  Value parts = emitHeadParts(builder, loc, extents, keys, workers);
  BlockCoordinates work =
      emitWork(builder, loc, item, emitDealt(builder, loc, extents, parts), keys, groupKeys, order);
  Value part = arith::RemUIOp::create(builder, loc, work.head, parts);
  work.head = arith::DivUIOp::create(builder, loc, work.head, parts);
  return {work, part};
}

Value emitFirstKeysFirst(OpBuilder &builder, Location loc, Value head, const ExtentValues &extents,
                         int64_t groupKeys, tile::ItemOrder order) {
  if (order != tile::ItemOrder::LastKeysFirstButAtEnd)
    return arith::ConstantIntOp::create(builder, loc, order == tile::ItemOrder::FirstKeysFirst,
                                        /*width=*/1);
  Value group = emitGroup(builder, loc, extents, extents.Sq, groupKeys);
  Value heads = arith::MulIOp::create(builder, loc, extents.B, extents.Hkv);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, head,
                               emitHeadsBeforeEnd(builder, loc, group, heads));
}

RowCoordinates emitRow(OpBuilder &builder, Location loc, const BlockCoordinates &block, Value row,
                       int64_t heads, const ExtentValues &extents) {
  auto less = [&](arith::CmpIPredicate predicate, Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  };
  RowPlace place = emitRowPlace(builder, loc, row, heads);
  Value position = arith::AddIOp::create(builder, loc, block.first, place.position);
  // Compare with what is left of the block: positions may be negative or slightly beyond i32.
  Value left = arith::SubIOp::create(builder, loc, block.limit, block.first);
  Value exists = less(arith::CmpIPredicate::slt, place.position, left);
  if (!place.head)
    return {block.head, position, exists};
  Value head = arith::AddIOp::create(builder, loc, block.head, place.head);
  // The end is the first head of the next key/value head.
  Value kvHead = emitKvHead(builder, loc, block.head, extents);
  Value next = arith::AddIOp::create(builder, loc, kvHead, constant(builder, loc, 1));
  Value end = arith::MulIOp::create(builder, loc, next, emitSharing(builder, loc, extents));
  // Unsigned: heads begin at 0, and the sum may be slightly beyond i32.
  exists = arith::AndIOp::create(builder, loc, exists, less(arith::CmpIPredicate::ult, head, end));
  return {head, position, exists};
}

Value emitKvHead(OpBuilder &builder, Location loc, Value head, const ExtentValues &extents) {
  return arith::DivUIOp::create(builder, loc, head, emitSharing(builder, loc, extents));
}

BlockCoordinates emitBlock(OpBuilder &builder, Location loc, tile::BlockOp op,
                           const ExtentValues &extents, const BlockOperands &operands) {
  bool isQuery = op.getBlock().getType().getAxis() == tile::Axis::Query;
  BlockCoordinates block{Value(), Value(), operands.valueOf(op.getFirst()),
                         isQuery ? extents.Sq : extents.Sk, isQuery ? extents.Sk : extents.Sq};
  bool isSameAxis = false;
  if (op.getOf()) {
    isSameAxis = op.getOf().getType().getAxis() == op.getBlock().getType().getAxis();
    BlockCoordinates of = operands.blockOf(op.getOf());
    block.batch = of.batch;
    block.head = of.head;
    block.limit = isSameAxis ? of.limit : of.other;
    block.other = isSameAxis ? of.other : of.limit;
  }
  if (op.getEnd())
    block.limit = operands.valueOf(op.getEnd());
  if (op.getBatch())
    block.batch = operands.valueOf(op.getBatch());
  if (op.getHead())
    block.head = operands.valueOf(op.getHead());
  else if (!isSameAxis && isQuery)
    block.head =
        arith::MulIOp::create(builder, loc, block.head, emitSharing(builder, loc, extents));
  else if (!isSameAxis)
    block.head = operands.kvHeadOf(op.getOf());
  return block;
}

BlockCoordinates emitSequence(OpBuilder &builder, Location loc, const BlockCoordinates &rows,
                              Value from, Value queries, Value keys) {
  Value first = arith::AddIOp::create(builder, loc, rows.first, from);
  Value limit = arith::AddIOp::create(builder, loc, from, queries);
  return {rows.batch, rows.head, first, limit, keys};
}

} // namespace tesela
