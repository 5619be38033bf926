//===- KeyRanges.cpp - tile-key-ranges --------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/MaskRegions.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEKEYRANGES
#include "transforms/Passes.h.inc"

namespace {

struct TileKeyRanges : impl::TileKeyRangesBase<TileKeyRanges> {
  void runOnOperation() override {
    getOperation().walk([](tile::BlocksOp loop) {
      auto masks = llvm::to_vector(loop.getBody().getOps<tile::MaskOp>());
      auto scores = llvm::to_vector(loop.getBody().getOps<tile::ScoreOp>());
      if (masks.size() != 1 || masks.front().getBody().empty() || scores.size() > 1)
        return;
      bool hasScore = scores.size() == 1 && !scores.front().getBody().empty();
      OpBuilder builder(loop);
      MaskRegions regions(builder, masks.front(), hasScore ? scores.front() : tile::ScoreOp(),
                          loop.getRows());
      auto find = emitFind(builder, regions, loop);
      if (!regions.isClosed()) {
        loop.getAmongMutable().assign(find.getFound());
        return;
      }
      find.erase();
      builder.setInsertionPoint(loop);
      loop.getRunsMutable().assign(ends(builder, loop.getLoc(), regions.keptColumns()));
      loop.getDropsMutable().assign(ends(builder, loop.getLoc(), regions.droppedColumns()));
    });
  }

  static Value narrow(OpBuilder &builder, Location loc, Value value) {
    return arith::TruncIOp::create(builder, loc, builder.getI32Type(), value);
  }

  static SmallVector<Value> ends(OpBuilder &builder, Location loc,
                                 ArrayRef<ColumnRange> intervals) {
    SmallVector<Value> result;
    for (ColumnRange interval : intervals)
      for (Value end : {interval.low, interval.high})
        result.push_back(narrow(builder, loc, end));
    if (intervals.empty()) // no runs: no block runs
      result.assign(2, arith::ConstantIntOp::create(builder, loc, 0, 32));
    return result;
  }

  static bool isDescending(tile::BlocksOp loop) {
    tile::ScheduleAttr schedule = loop->getParentOfType<tile::KernelOp>().getScheduleAttr();
    return schedule && schedule->lastKeysFirst;
  }

  static tile::FindBlocksOp emitFind(OpBuilder &builder, MaskRegions &regions,
                                     tile::BlocksOp loop) {
    Location loc = loop.getLoc();
    auto block = cast<tile::BlockType>(loop.getColumns().getType());
    int64_t rows = block.getPositions();
    ColumnRange hull = regions.hull();
    Type i32 = builder.getI32Type();
    Value high = narrow(builder, loc, hull.high), low = narrow(builder, loc, hull.low);
    bool isOfKeys = block.getAxis() == tile::Axis::Key;
    Value below = tile::ExtentOp::create(builder, loc, i32, isOfKeys ? "Sk" : "Sq");
    auto find = tile::FindBlocksOp::create(
        builder, loc, tile::FoundBlocksType::get(builder.getContext(), rows, block.getAxis()), i32,
        low, high, below, isDescending(loop));
    builder.setInsertionPoint(find); // values that the tests use and that do not depend on a column
    for (auto [region, count] : {std::pair(&find.getOne(), rows),
                                 {&find.getMany(), rows * tile::FindBlocksOp::blocksAtOnce}}) {
      OpBuilder inner(builder.getContext());
      Block *test = inner.createBlock(region, {}, {i32, i32}, {loc, loc});
      auto [keeps, drops] =
          regions.emitTest(inner, test->getArgument(0), test->getArgument(1), count);
      tile::YieldOp::create(inner, loc, ValueRange{keeps, drops});
    }
    return find;
  }
};

} // namespace
} // namespace tesela
