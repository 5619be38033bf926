//===- AddInTurn.cpp - tile-add-in-turn -------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/Passes.h"

#include "tile/Extents.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEADDINTURN
#include "transforms/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral turnsName = "turns";

/// [B, H, rows of all blocks of keys] of f32, if a block has `rows` rows.
tile::ViewType turnsOf(MLIRContext *context, int64_t rows) {
  auto symbol = [&](StringRef name) { return tile::SymbolAttr::get(context, name); };
  Attribute count = tile::getExtent(context, rows);
  auto blocks =
      tile::ExtentExprAttr::get(context, tile::ExtentOperator::CeilDivide, symbol("Sk"), count);
  auto padded = tile::ExtentExprAttr::get(context, tile::ExtentOperator::Multiply, blocks, count);
  return tile::ViewType::get(context, {symbol("B"), symbol("H"), padded},
                             Float32Type::get(context));
}

/// Writes scalars at one place.
struct Emit {
  OpBuilder builder;
  Location loc;

  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(builder, loc, value, /*width=*/32);
  }
  Value extent(StringRef name) {
    return tile::ExtentOp::create(builder, loc, builder.getI32Type(), name);
  }
  /// The number of blocks of `rows` rows that `positions` positions have.
  Value blocks(Value positions, int64_t rows) {
    Value up = arith::AddIOp::create(builder, loc, positions, constant(rows - 1));
    return arith::DivUIOp::create(builder, loc, up, constant(rows));
  }
};

/// Lets the additions of `kernel` run in order. Returns the type of a block of keys.
FailureOr<tile::BlockType> orderAdditions(tile::KernelOp kernel, tile::AccumulateOp addition) {
  auto loop = addition->getParentOfType<tile::BlocksOp>();
  auto queries = addition.getBlock().getDefiningOp<tile::BlockOp>();
  Value head = queries ? queries.getHead() : Value();
  tile::BlockType keys = loop ? loop.getRows().getType() : tile::BlockType();
  std::optional<int64_t> rows = keys ? tile::staticExtent(keys.getExtent()) : std::nullopt;
  if (!rows || keys.getAxis() != tile::Axis::Key || !head ||
      loop.getBody().isAncestor(head.getParentRegion()))
    return addition.emitOpError()
           << "with add_in_turn expected a loop over the queries of a block of keys, and a block "
              "of "
              "queries whose head is known in front of the loop; leave add_in_turn out";
  Emit emit{OpBuilder(loop), addition.getLoc()};
  BlockArgument turns = kernel.addArgument(turnsName, turnsOf(kernel.getContext(), *rows), emit.loc,
                                           tile::Role::Workspace);
  auto at = tile::CoordinatesOp::create(emit.builder, emit.loc, loop.getRows());
  Value own = tile::BlockOp::create(emit.builder, emit.loc, keys, at.getFirst(), /*batch=*/Value(),
                                    head, loop.getRows());
  auto work = loop.getRows().getDefiningOp<tile::WorkOp>();
  Value part;
  if (work && work.getDealt())
    part = tile::WorkPartOp::create(emit.builder, emit.loc, emit.builder.getI32Type(), work);
  tile::OrderAdditionsOp::create(emit.builder, emit.loc, turns, own, part);
  return keys;
}

/// Lets the kernel that stores the sums before the additions set the turns to 0, too.
void clearTurns(tile::StoreOp store, tile::BlockType ofKeys) {
  int64_t rows = ofKeys.getRows();
  auto kernel = store->getParentOfType<tile::KernelOp>();
  MLIRContext *context = kernel.getContext();
  Emit emit{OpBuilder(context), store.getLoc()};
  emit.builder.setInsertionPointAfter(store);
  BlockArgument turns =
      kernel.addArgument(turnsName, turnsOf(context, rows), emit.loc, tile::Role::Workspace);
  tile::BlockType block = store.getBlock().getType();
  int64_t rowsOfItem = *tile::staticExtent(block.getExtent());
  auto at = tile::CoordinatesOp::create(emit.builder, emit.loc, store.getBlock());
  Value size = emit.constant(rows);
  Value item =
      arith::DivUIOp::create(emit.builder, emit.loc, at.getFirst(), emit.constant(rowsOfItem));
  Value items = emit.blocks(emit.extent("Sq"), rowsOfItem);
  auto loop =
      scf::ForOp::create(emit.builder, emit.loc, item, emit.blocks(emit.extent("Sk"), rows), items);
  emit.builder.setInsertionPointToStart(loop.getBody());
  Value first = arith::MulIOp::create(emit.builder, emit.loc, loop.getInductionVar(), size);
  Value end = arith::AddIOp::create(emit.builder, emit.loc, first, size);
  Value keys = tile::BlockOp::create(emit.builder, emit.loc, ofKeys, first, end,
                                     /*batch=*/Value(), at.getHead(), store.getBlock());
  auto numbers = tile::TileType::get(context, {ofKeys.getExtent()}, emit.builder.getF32Type(),
                                     /*encoding=*/Attribute());
  Value none =
      tile::ConstantOp::create(emit.builder, emit.loc, numbers, emit.builder.getF32FloatAttr(0));
  tile::StoreOp::create(emit.builder, emit.loc, none, turns, keys);
}

struct TileAddInTurn : impl::TileAddInTurnBase<TileAddInTurn> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      if (tile::ScheduleAttr schedule = kernel.getScheduleAttr(); schedule && schedule->addInTurn)
        if (failed(order(kernel)))
          return signalPassFailure();
  }

  LogicalResult order(tile::KernelOp kernel) {
    SmallVector<tile::AccumulateOp> additions;
    kernel.walk([&](tile::AccumulateOp op) { additions.push_back(op); });
    if (additions.size() != 1)
      return kernel.emitOpError() << "with add_in_turn expected one tile.accumulate, got "
                                  << additions.size() << "; leave add_in_turn out";
    tile::AccumulateOp addition = additions.front();
    auto sums = dyn_cast<BlockArgument>(addition.getView());
    StringRef name = sums ? kernel.getArgumentName(sums.getArgNumber()) : StringRef();
    tile::StoreOp clears;
    for (auto other : getOperation().getOps<tile::KernelOp>())
      for (auto store : other.getBodyBlock().getOps<tile::StoreOp>())
        if (!name.empty() && store.getView() == other.getArgument(name))
          clears = store;
    if (!clears)
      return addition.emitOpError() << "with add_in_turn expected a kernel that stores the first "
                                       "values of the sums, got none; leave add_in_turn out";
    FailureOr<tile::BlockType> keys = orderAdditions(kernel, addition);
    if (failed(keys))
      return failure();
    clearTurns(clears, *keys);
    return success();
  }
};

} // namespace
} // namespace tesela
