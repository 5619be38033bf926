//===- BlockFinder.cpp - tile.find_blocks and tile.found_block --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/BlockFinder.h"

#include "targets/common/FoundRing.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela {

static constexpr int64_t lanes = 32, blocksOfGroup = tile::FindBlocksOp::blocksAtOnce;
static constexpr int64_t foundWord = 0, groupsWord = 1, baseWord = 2, ringStart = 3;

namespace {
/// Integer ops (i32) at a builder.
struct Words {
  OpBuilder &builder;
  Location loc;

  Value constant(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value subtract(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
  Value multiply(Value a, int64_t b) { return arith::MulIOp::create(builder, loc, a, constant(b)); }
  Value both(Value a, Value b) { return arith::AndIOp::create(builder, loc, a, b); }
  Value min(Value a, Value b) { return arith::MinSIOp::create(builder, loc, a, b); }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  }
  Value countBits(Value mask) {
    return LLVM::CtPopOp::create(builder, loc, builder.getI32Type(), mask);
  }
};

/// `while (condition(values)) values = body(values)`, over i32 values.
SmallVector<Value> emitWhile(OpBuilder &builder, Location loc, ValueRange start,
                             llvm::function_ref<Value(ValueRange)> condition,
                             llvm::function_ref<SmallVector<Value>(ValueRange)> body) {
  SmallVector<Type> types(start.size(), builder.getI32Type());
  SmallVector<Location> locations(start.size(), loc);
  auto loop = scf::WhileOp::create(builder, loc, types, start);
  OpBuilder::InsertionGuard guard(builder);
  Block *before = builder.createBlock(&loop.getBefore(), {}, types, locations);
  Value goesOn = condition(before->getArguments());
  scf::ConditionOp::create(builder, loc, goesOn, before->getArguments());
  Block *after = builder.createBlock(&loop.getAfter(), {}, types, locations);
  SmallVector<Value> next = body(after->getArguments());
  scf::YieldOp::create(builder, loc, next);
  return SmallVector<Value>(loop.getResults());
}
} // namespace

BlockFinder::BlockFinder(OpBuilder &builder, Location loc, tile::FindBlocksOp op,
                         FinderTarget &target, Value low, Value high, Value keys)
    : builder(builder), loc(loc), op(op), rows(op.getFound().getType().getRows()), keys(keys) {
  Words words{builder, loc};
  Value one = words.constant(1), extent = words.constant(rows);
  first = arith::DivUIOp::create(builder, loc, low, extent);
  // `end` is one behind the block of the last key.
  Value last = arith::DivUIOp::create(builder, loc, words.subtract(high, one), extent);
  Value isEmpty = words.compare(arith::CmpIPredicate::sge, low, high);
  end = arith::SelectOp::create(builder, loc, isEmpty, first, words.add(last, one));
  target.agree(); // all lanes have read the results of an earlier search
  count_ = findAll(target);
  target.agree();
}

Value BlockFinder::blockAt(Value place) {
  if (!op.getDescending())
    return place;
  Words words{builder, loc};
  Value ends = words.subtract(words.add(first, end), words.constant(1));
  return words.subtract(ends, place);
}

std::pair<Value, Value> BlockFinder::testBoxes(FinderTarget &target, Region &test, Value from,
                                               int64_t blocks) {
  return target.testLanes([&](Value lane) {
    Words words{builder, loc};
    Value index = words.add(from, words.multiply(lane, blocks));
    Value exists = words.compare(arith::CmpIPredicate::slt, index, end);
    // Lanes without a box test the last one.
    Value inside = words.min(index, words.subtract(end, words.constant(1)));
    Value low = blockAt(inside);
    if (op.getDescending()) { // the box extends downwards from its place
      low = words.subtract(low, words.constant(blocks - 1));
      low = arith::MaxSIOp::create(builder, loc, low, first);
    }
    Value firstKey = words.multiply(low, rows);
    Value left = words.subtract(keys, firstKey), extent = words.constant(blocks * rows);
    Value lastKey = words.subtract(words.add(firstKey, words.min(left, extent)), words.constant(1));
    auto [keeps, drops] = target.inlineTest(test, firstKey, lastKey);
    Value isBroken = words.compare(arith::CmpIPredicate::slt, left, extent);
    return std::pair<Value, Value>(words.both(keeps, exists),
                                   arith::OrIOp::create(builder, loc, drops, isBroken));
  });
}

std::pair<Value, Value> BlockFinder::takeLowest(Value mask) {
  Words words{builder, loc};
  Value place = LLVM::CountTrailingZerosOp::create(builder, loc, builder.getI32Type(), mask,
                                                   /*is_zero_poison=*/false);
  return {place, words.both(mask, words.subtract(mask, words.constant(1)))};
}

/// The groups of 32 blocks, from block `base` on, that may hold a block. With two groups or fewer a
/// test costs as much as it saves, so all of them count.
Value BlockFinder::groupsFrom(FinderTarget &target, Value base) {
  Words words{builder, loc};
  Value left = words.subtract(end, base);
  Value isMany = words.compare(arith::CmpIPredicate::sgt, left, words.constant(2 * blocksOfGroup));
  auto branch = scf::IfOp::create(builder, loc, builder.getI32Type(), isMany,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value tested = testBoxes(target, op.getMany(), base, blocksOfGroup).first;
  scf::YieldOp::create(builder, loc, tested);
  builder.setInsertionPointToStart(branch.elseBlock());
  Value hasSecond = words.compare(arith::CmpIPredicate::sgt, left, words.constant(blocksOfGroup));
  Value all =
      arith::SelectOp::create(builder, loc, hasSecond, words.constant(3), words.constant(1));
  scf::YieldOp::create(builder, loc, all);
  return branch.getResult(0);
}

/// Appends the blocks of a group to the ring, behind `count` others.
void BlockFinder::append(FinderTarget &target, Value group, Value keeps, Value drops, Value count) {
  target.forEachLane([&](Value lane) {
    Words words{builder, loc};
    Value one = words.constant(1);
    Value bit = arith::ShLIOp::create(builder, loc, one, lane);
    Value isFound =
        words.compare(arith::CmpIPredicate::ne, words.both(keeps, bit), words.constant(0));
    auto branch = scf::IfOp::create(builder, loc, isFound, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value before = words.countBits(words.both(keeps, words.subtract(bit, one)));
    Value slot = words.both(words.add(count, before), words.constant(ringWords - 1));
    Value partial = words.both(arith::ShRUIOp::create(builder, loc, drops, lane), one);
    Value entry = words.add(words.multiply(blockAt(words.add(group, lane)), 2), partial);
    target.store(entry, words.add(slot, words.constant(ringStart)));
  });
}

void BlockFinder::setState(FinderTarget &target, Value found, Value groups, Value base) {
  Words words{builder, loc};
  target.storeOnce(found, words.constant(foundWord));
  target.storeOnce(groups, words.constant(groupsWord));
  target.storeOnce(base, words.constant(baseWord));
}

/// The number of blocks. Keeps the blocks for which the ring has room. When it is full, the state
/// says where to continue.
Value BlockFinder::findAll(FinderTarget &target) {
  Words words{builder, loc};
  Value zero = words.constant(0), one = words.constant(1);
  auto some = [&](ValueRange values) {
    return words.compare(arith::CmpIPredicate::ne, values[0], words.constant(0));
  };
  // Carried: the first block of the 32 groups; the count; whether the ring has room (1 or 0).
  SmallVector<Value> result = emitWhile(
      builder, loc, {first, zero, one},
      [&](ValueRange values) { return words.compare(arith::CmpIPredicate::slt, values[0], end); },
      [&](ValueRange outer) {
        Value groups = groupsFrom(target, outer[0]);
        SmallVector<Value> inner =
            emitWhile(builder, loc, {groups, outer[1], outer[2]}, some, [&](ValueRange values) {
              auto [place, rest] = takeLowest(values[0]);
              Value group = words.add(outer[0], words.multiply(place, blocksOfGroup));
              auto [keeps, drops] = testBoxes(target, op.getOne(), group, 1);
              Value after = words.add(values[1], words.countBits(keeps));
              Value fits =
                  words.compare(arith::CmpIPredicate::sle, after, words.constant(ringWords));
              Value isOpen = words.compare(arith::CmpIPredicate::ne, values[2], words.constant(0));
              auto open = scf::IfOp::create(builder, loc, isOpen, /*withElseRegion=*/false);
              OpBuilder::InsertionGuard guard(builder);
              builder.setInsertionPointToStart(open.thenBlock());
              auto branch = scf::IfOp::create(builder, loc, fits, /*withElseRegion=*/true);
              builder.setInsertionPointToStart(branch.thenBlock());
              append(target, group, keeps, drops, values[1]);
              builder.setInsertionPointToStart(branch.elseBlock());
              setState(target, values[1], values[0], outer[0]);
              builder.setInsertionPointAfter(open);
              Value goesOn =
                  arith::SelectOp::create(builder, loc, fits, values[2], words.constant(0));
              return SmallVector<Value>{rest, after, goesOn};
            });
        return SmallVector<Value>{words.add(outer[0], words.constant(lanes * blocksOfGroup)),
                                  inner[1], inner[2]};
      });
  Value isOpen = words.compare(arith::CmpIPredicate::ne, result[2], words.constant(0));
  auto open = scf::IfOp::create(builder, loc, isOpen, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(open.thenBlock());
  // A loop whose first iteration runs in front of it asks for a block even if there is none. It
  // gets a partial block, in which the mask drops everything.
  Value isNone = words.compare(arith::CmpIPredicate::eq, result[1], zero);
  auto none = scf::IfOp::create(builder, loc, isNone, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard inner(builder);
    builder.setInsertionPointToStart(none.thenBlock());
    target.storeOnce(words.add(words.multiply(first, 2), one), words.constant(ringStart));
  }
  Value kept = arith::MaxSIOp::create(builder, loc, result[1], one);
  setState(target, kept, words.constant(0), end);
  return result[1];
}

/// Searches until more than `number` blocks have been found.
void BlockFinder::refill(FinderTarget &target, Value number) {
  Words words{builder, loc};
  Value found = target.load(words.constant(foundWord));
  emitWhile(
      builder, loc, found,
      [&](ValueRange values) {
        return words.compare(arith::CmpIPredicate::sle, values[0], number);
      },
      [&](ValueRange values) {
        Value groups = target.load(words.constant(groupsWord)),
              base = target.load(words.constant(baseWord));
        SmallVector<Value> next = emitWhile(
            builder, loc, {groups, base},
            [&](ValueRange inner) {
              return words.compare(arith::CmpIPredicate::eq, inner[0], words.constant(0));
            },
            [&](ValueRange inner) {
              Value further = words.add(inner[1], words.constant(lanes * blocksOfGroup));
              return SmallVector<Value>{groupsFrom(target, further), further};
            });
        auto [place, rest] = takeLowest(next[0]);
        Value group = words.add(next[1], words.multiply(place, blocksOfGroup));
        auto [keeps, drops] = testBoxes(target, op.getOne(), group, 1);
        Value count = values[0];
        target.agree(); // all lanes have read the entries that are overwritten now
        append(target, group, keeps, drops, count);
        Value after = words.add(count, words.countBits(keeps));
        setState(target, after, rest, next[1]);
        target.agree();
        return SmallVector<Value>{after};
      });
}

std::pair<Value, Value> BlockFinder::block(Location at, FinderTarget &target, Value number) {
  loc = at;
  if (!matchPattern(number, m_Zero())) // findAll has put block 0 into the ring
    refill(target, number);
  return readFound(builder, loc, target, number);
}

std::pair<Value, Value> readFound(OpBuilder &builder, Location loc, FinderTarget &target,
                                  Value number) {
  Words words{builder, loc};
  Value slot = words.both(number, words.constant(BlockFinder::ringWords - 1));
  Value entry = target.load(words.add(slot, words.constant(ringStart)));
  Value one = words.constant(1);
  Value index = arith::ShRUIOp::create(builder, loc, entry, one);
  Value partial =
      words.compare(arith::CmpIPredicate::ne, words.both(entry, one), words.constant(0));
  return {index, partial};
}

} // namespace tesela
