//===- LowerBlocks.cpp - tile-lower-blocks ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/EmptyRange.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILELOWERBLOCKS
#include "transforms/Passes.h.inc"

namespace {

/// The blocks from `first` to `end` - 1.
struct BlockInterval {
  Value first, end;
};

class LoopLowering {
public:
  explicit LoopLowering(tile::BlocksOp loop)
      : loop(loop), builder(loop), loc(loop.getLoc()),
        type(cast<tile::BlockType>(loop.getColumns().getType())), zero(constant(builder, 0)),
        one(constant(builder, 1)), positions(constant(builder, type.getPositions())) {}

  void run() {
    if (loop.getAmong()) {
      auto found = loop.getAmong().getDefiningOp<tile::FindBlocksOp>();
      emitLoop(zero, found.getCount(), [&](OpBuilder &inner, Value number) {
        auto block = tile::FoundBlockOp::create(inner, loc, inner.getI32Type(), inner.getI1Type(),
                                                found.getFound(), number);
        return std::pair<Value, Value>(block.getIndex(), block.getPartial());
      });
      return;
    }
    SmallVector<BlockInterval> runs;
    if (loop.getRuns().empty()) {
      Value end =
          tile::ExtentOp::create(builder, loc, builder.getI32Type(), isOfKeys() ? "Sk" : "Sq");
      runs.push_back(blocksOf(zero, end));
    }
    for (unsigned i = 0; i < loop.getRuns().size(); i += 2)
      runs.push_back(blocksOf(loop.getRuns()[i], loop.getRuns()[i + 1]));
    prepareDrops();
    if (runs.size() == 1) {
      Order order = orderOf(runs[0]);
      emitLoop(runs[0].first, runs[0].end, [&](OpBuilder &inner, Value number) {
        Value index = inOrder(inner, number, order);
        return std::pair(index, isPartial(inner, index));
      });
      return;
    }
    separate(runs);
    // Iterations from starts[i] on belong to run i.
    SmallVector<Value> starts, offsets;
    Value count = zero;
    for (BlockInterval run : runs) {
      starts.push_back(count);
      offsets.push_back(subtract(run.first, count));
      count = add(count, subtract(run.end, run.first));
    }
    Order order = orderOf({zero, count});
    emitLoop(zero, count, [&](OpBuilder &inner, Value iteration) {
      Value number = inOrder(inner, iteration, order), offset = offsets[0];
      for (unsigned i = 1; i < starts.size(); ++i) {
        Value isFarther =
            arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::sge, number, starts[i]);
        offset = arith::SelectOp::create(inner, loc, isFarther, offsets[i], offset);
      }
      Value index = arith::AddIOp::create(inner, loc, number, offset);
      return std::pair(index, isPartial(inner, index));
    });
  }

private:
  bool isOfKeys() { return type.getAxis() == tile::Axis::Key; }
  Value constant(OpBuilder &b, int64_t value) {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value subtract(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
  Value max(Value a, Value b) { return arith::MaxSIOp::create(builder, loc, a, b); }

  /// Whether the work item runs its last block first (i1), if it has a choice; null: it has none.
  Value isAtEnd() {
    auto work = loop.getRows().getDefiningOp<tile::WorkOp>();
    if (!work || work.getOrder() != tile::ItemOrder::LastKeysFirstButAtEnd)
      return {};
    Value part;
    if (work.getDealt())
      part = tile::WorkPartOp::create(builder, loc, builder.getI32Type(), work);
    return tile::AtEndOp::create(builder, loc, builder.getI1Type(), work, part);
  }

  /// How the number of a block follows from that of an iteration: `sum` - number, or with a choice
  /// (number ^ `flips`) + `sum`. Without a sum they are equal.
  struct Order {
    Value sum, flips;
  };

  /// Backward the block is first + last - number, which is ~number + first + end. An empty interval
  /// counts as its first block only: pipe-overlap-products runs one iteration of an empty loop,
  /// too, and the mask of that iteration keeps nothing.
  Order orderOf(BlockInterval blocks) {
    tile::ScheduleAttr schedule = loop->getParentOfType<tile::KernelOp>().getScheduleAttr();
    Value mayTurn = isAtEnd();
    bool isBackward = schedule && schedule->lastKeysFirst;
    if (!isBackward && !mayTurn)
      return {};
    Value sum = add(blocks.first, max(blocks.end, add(blocks.first, one)));
    if (isBackward)
      return {subtract(sum, one), Value()};
    return {arith::SelectOp::create(builder, loc, mayTurn, sum, zero),
            arith::ExtSIOp::create(builder, loc, builder.getI32Type(), mayTurn)};
  }

  Value inOrder(OpBuilder &inner, Value number, const Order &order) {
    if (!order.sum)
      return number;
    if (!order.flips)
      return arith::SubIOp::create(inner, loc, order.sum, number);
    Value flipped = arith::XOrIOp::create(inner, loc, number, order.flips);
    return arith::AddIOp::create(inner, loc, flipped, order.sum);
  }

  /// ⌈columns / positions⌉, without overflow of i32.
  Value ceilDivide(Value columns) {
    Value whole = arith::DivUIOp::create(builder, loc, columns, positions);
    Value remainder = arith::RemUIOp::create(builder, loc, columns, positions);
    Value hasRemainder =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, remainder, zero);
    return add(whole, arith::ExtUIOp::create(builder, loc, builder.getI32Type(), hasRemainder));
  }

  /// The blocks that have a column in [low, high); no block if the interval is empty.
  BlockInterval blocksOf(Value low, Value high) {
    Value first = arith::DivUIOp::create(builder, loc, low, positions);
    Value end = ceilDivide(high);
    Value isEmpty = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, low, high);
    return {first, arith::SelectOp::create(builder, loc, isEmpty, first, end)};
  }

  /// The first of the blocks that have a column in [low, high), and their count; 0 if the interval
  /// is empty. The count is computed without a choice. LLVM makes of `j < (isEmpty ? 0 : n)` the
  /// truth `!isEmpty && j < n`. The loop over blocks would hold isEmpty for each interval, and a
  /// GPU's thread has seven registers for truths (docs/log/2026-11-30-truths.md).
  std::pair<Value, Value> countedBlocksOf(Value low, Value high) {
    Value first = arith::DivUIOp::create(builder, loc, low, positions);
    Value columns = max(subtract(high, low), zero);
    Value before = subtract(low, arith::MulIOp::create(builder, loc, first, positions));
    // No columns have none before them. Otherwise `before` is less than `positions`, and stays.
    Value most = arith::MulIOp::create(
        builder, loc, arith::MinSIOp::create(builder, loc, columns, one), positions);
    before = arith::MinSIOp::create(builder, loc, before, most);
    return {first, ceilDivide(add(before, columns))};
  }

  /// Sorts the runs in ascending order. A block that several runs have stays in the first of them.
  void separate(SmallVectorImpl<BlockInterval> &runs) {
    for (unsigned sorted = 1; sorted < runs.size(); ++sorted)
      for (unsigned i = sorted; i > 0; --i) {
        BlockInterval &a = runs[i - 1], &b = runs[i];
        Value inOrder =
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, a.first, b.first);
        auto choose = [&](Value x, Value y) -> Value {
          return arith::SelectOp::create(builder, loc, inOrder, x, y);
        };
        BlockInterval lower{choose(a.first, b.first), choose(a.end, b.end)};
        b = {choose(b.first, a.first), choose(b.end, a.end)};
        a = lower;
      }
    for (unsigned i = 1; i < runs.size(); ++i)
      runs[i] = {max(runs[i].first, runs[i - 1].end), max(runs[i].end, runs[i - 1].end)};
  }

  /// Prepares the test for partial blocks: those in `drops`, and a last block that reaches beyond
  /// Sk (or Sq).
  void prepareDrops() {
    if (loop.getDrops().empty() && loop.getRuns().empty())
      return;
    for (unsigned i = 0; i < loop.getDrops().size(); i += 2)
      drops.push_back(countedBlocksOf(loop.getDrops()[i], loop.getDrops()[i + 1]));
    hasKinds = true;
    Value columns =
        tile::ExtentOp::create(builder, loc, builder.getI32Type(), isOfKeys() ? "Sk" : "Sq");
    broken = arith::DivUIOp::create(builder, loc, columns, positions);
  }

  Value isPartial(OpBuilder &inner, Value index) {
    if (!hasKinds)
      return arith::ConstantIntOp::create(inner, loc, 1, 1);
    Value partial = arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::eq, index, broken);
    for (auto [first, count] : drops) {
      Value place = arith::SubIOp::create(inner, loc, index, first);
      Value isInside = arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::ult, place, count);
      partial = arith::OrIOp::create(inner, loc, partial, isInside);
    }
    return partial;
  }

  /// The iterations of this loop's part. The first parts may have one iteration more than the
  /// others.
  std::pair<Value, Value> shareOf(Value low, Value high) {
    Value part = loop.getPart()[0], parts = loop.getPart()[1], count = subtract(high, low);
    Value whole = arith::DivUIOp::create(builder, loc, count, parts);
    Value rest = arith::RemUIOp::create(builder, loc, count, parts);
    Value all = arith::MulIOp::create(builder, loc, whole, part);
    Value more = arith::MinUIOp::create(builder, loc, part, rest);
    Value before = add(all, more);
    Value hasMore = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, part, rest);
    Value first = add(low, before);
    Value size = add(whole, arith::ExtUIOp::create(builder, loc, builder.getI32Type(), hasMore));
    // If part >= parts, the interval begins at the end of the range or behind it, and is empty.
    return {first, arith::MinSIOp::create(builder, loc, add(first, size), high)};
  }

  /// `blockOf` gives the index of an iteration's block, and whether the block is partial.
  void emitLoop(Value low, Value high,
                llvm::function_ref<std::pair<Value, Value>(OpBuilder &, Value)> blockOf) {
    // A pass may run one iteration although the part is empty. That iteration gets a block behind
    // the end of the columns, and the mask drops it. Found blocks have no such block.
    Value isEmpty, behind;
    if (!loop.getPart().empty()) {
      std::tie(low, high) = shareOf(low, high);
      if (!loop.getAmong()) {
        Value columns =
            tile::ExtentOp::create(builder, loc, builder.getI32Type(), isOfKeys() ? "Sk" : "Sq");
        isEmpty = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, low, high);
        behind = add(arith::DivUIOp::create(builder, loc, columns, positions), one);
      }
    }
    auto newLoop = scf::ForOp::create(builder, loc, low, high, one, loop.getInit());
    if ((loop.getPart().empty() || isEmpty) && loop->hasAttr(tile::dropsEmptyAttr))
      newLoop->setAttr(tile::dropsEmptyAttr, builder.getUnitAttr());
    Block *body = newLoop.getBody();
    if (!body->empty() && body->back().hasTrait<OpTrait::IsTerminator>())
      body->back().erase(); // the builder adds a terminator if no values are carried
    OpBuilder inner = OpBuilder::atBlockEnd(body);
    auto [index, partial] = blockOf(inner, newLoop.getInductionVar());
    if (isEmpty) {
      index = arith::SelectOp::create(inner, loc, isEmpty, behind, index);
      partial = arith::OrIOp::create(inner, loc, isEmpty, partial);
    }
    Value first = arith::MulIOp::create(inner, loc, index, positions);
    Value columns = tile::BlockOp::create(inner, loc, type, first, /*batch=*/Value(),
                                          /*head=*/Value(), loop.getRows());
    IRMapping mapping;
    mapping.map(loop.getColumns(), columns);
    mapping.map(loop.getPartial(), partial);
    for (auto [argument, carried] :
         llvm::zip(loop.getBody().getArguments().drop_front(2), newLoop.getRegionIterArgs()))
      mapping.map(argument, carried);
    for (Operation &op : loop.getBody().front()) {
      if (auto yield = dyn_cast<tile::YieldOp>(op)) {
        SmallVector<Value> values;
        for (Value value : yield.getValues())
          values.push_back(mapping.lookup(value));
        scf::YieldOp::create(inner, loc, values);
      } else {
        inner.clone(op, mapping);
      }
    }
    loop.replaceAllUsesWith(newLoop.getResults());
    loop.erase();
  }

  tile::BlocksOp loop;
  OpBuilder builder;
  Location loc;
  tile::BlockType type; ///< of the blocks of an iteration
  Value zero, one, positions;
  SmallVector<std::pair<Value, Value>> drops; ///< first block, count
  bool hasKinds = false;                      ///< if false, all blocks are partial
  Value broken; ///< the index of the block that has columns on both sides of Sk (or Sq)
};

struct TileLowerBlocks : impl::TileLowerBlocksBase<TileLowerBlocks> {
  void runOnOperation() override {
    SmallVector<tile::BlocksOp> loops;
    getOperation().walk([&](tile::BlocksOp loop) { loops.push_back(loop); });
    for (tile::BlocksOp loop : loops)
      LoopLowering(loop).run();
  }
};

} // namespace
} // namespace tesela
