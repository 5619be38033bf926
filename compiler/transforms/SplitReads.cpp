//===- SplitReads.cpp - tile-split-reads ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/Positions.h"
#include "analysis/RowMap.h"
#include "analysis/SeldomMap.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILESPLITREADS
#include "transforms/Passes.h.inc"

namespace {

struct TileSplitReads : impl::TileSplitReadsBase<TileSplitReads> {
  void runOnOperation() override {
    SmallVector<tile::MapOp> maps;
    getOperation().walk([&](tile::MapOp map) {
      if (cast<tile::TileType>(map.getType()).getRank() == 2 && !isSeldom(map))
        maps.push_back(map);
    });
    for (tile::MapOp map : maps)
      split(map);
  }

  static void split(tile::MapOp map) {
    OpBuilder builder(map);
    Block &body = map.getBody().front();
    DenseMap<Value, Position> positions;
    unsigned coordinates = map.getSources().size();
    if (headsOfRows(map) == 1)
      positions[body.getArgument(coordinates)] = Position(Value(), {1, 0});
    positions[body.getArgument(coordinates + 1)] = Position(Value(), {0, 1});

    SmallVector<tile::ReadOp> reads, chunks;
    Value covered, chunked;
    auto both = [&](Value a, Value b) {
      return a ? builder.createOrFold<arith::AndIOp>(map.getLoc(), a, b) : b;
    };
    for (Operation &op : body.without_terminator()) {
      if (op.getNumResults() == 1 && isRowPosition(op.getResult(0), map)) {
        positions[op.getResult(0)] = Position(Value(), {1, 0});
        continue;
      }
      SmallVector<Position> operands;
      for (Value operand : op.getOperands()) {
        if (isa<tile::ViewType>(operand.getType()))
          continue;
        if (operand.getParentBlock() != &body)
          operands.push_back(Position(operand));
        else if (auto known = positions.find(operand); known != positions.end())
          operands.push_back(known->second);
      }
      auto read = dyn_cast<tile::ReadOp>(op);
      if (operands.size() + (read ? 1 : 0) != op.getNumOperands())
        continue;
      if (read && !llvm::all_of(operands, [](const Position &p) { return p.isUniform(); })) {
        reads.push_back(read);
        covered = both(covered, covers(builder, read, operands, map, /*chunks=*/false));
        if (comesInChunks(read, operands)) {
          chunks.push_back(read);
          chunked = both(chunked, covers(builder, read, operands, map, /*chunks=*/true));
        }
      } else if (matchPattern(&op, m_Constant())) {
        positions[op.getResult(0)] = Position(builder.clone(op)->getResult(0));
      } else if (std::optional<Position> sum = combinePositions(op, operands, builder)) {
        positions[op.getResult(0)] = *sum;
      }
    }
    if (reads.empty())
      return;
    setSeldom(moveIntoBranch(builder, map, covered));
    for (tile::ReadOp read : reads)
      read.setCovered(true);
    if (!chunked)
      return;
    builder.setInsertionPoint(map);
    moveIntoBranch(builder, map, chunked);
    for (tile::ReadOp read : chunks)
      read.setChunked(true);
  }

  /// Moves `map` into the branch for `condition`. Returns its copy in the other branch.
  static tile::MapOp moveIntoBranch(OpBuilder &builder, tile::MapOp map, Value condition) {
    auto branch = scf::IfOp::create(builder, map.getLoc(), map.getType(), condition,
                                    /*withElseRegion=*/true);
    map->replaceAllUsesWith(branch);
    OpBuilder other = branch.getElseBodyBuilder();
    auto copy = cast<tile::MapOp>(other.clone(*map));
    scf::YieldOp::create(other, map.getLoc(), copy.getResult());
    OpBuilder then = branch.getThenBodyBuilder();
    map->remove();
    then.insert(map);
    scf::YieldOp::create(then, map.getLoc(), map.getResult());
    return copy;
  }

  /// Whether the elements of eight neighbouring columns may come with one load. With one load for
  /// each pair (one register), the L1 cache would be busy twice as long as the tensor cores
  /// (docs/log/2026-11-23-library.md, learned_bias).
  static bool comesInChunks(tile::ReadOp read, ArrayRef<Position> indices) {
    Type element = read.getView().getType().getElementType();
    return (element.isF16() || element.isBF16()) && indices.back().row == 0 &&
           indices.back().column == 1 &&
           llvm::all_of(indices.drop_back(), [](const Position &p) { return p.column == 0; });
  }

  /// Whether all elements that `read` reads for a tile are inside its view.
  static Value covers(OpBuilder &builder, tile::ReadOp read, ArrayRef<Position> indices,
                      tile::MapOp map, bool chunks) {
    auto type = cast<tile::TileType>(map.getType());
    int64_t rows = type.getExtent(0) / headsOfRows(map);
    SmallVector<Value> bases;
    SmallVector<int64_t> low, high;
    for (const Position &index : indices) {
      bases.push_back(index.base ? index.base
                                 : arith::ConstantIntOp::create(builder, read.getLoc(), 0, 32));
      low.push_back(index.lowest(rows, type.getExtent(1)));
      high.push_back(index.highest(rows, type.getExtent(1)));
    }
    return tile::CoversOp::create(builder, read.getLoc(), builder.getI1Type(), read.getView(),
                                  bases, low, high, chunks);
  }
};

} // namespace
} // namespace tesela
