//===- SplitRoles.cpp - pipe-split-roles ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPESPLITROLES
#include "targets/nvvm/Passes.h.inc"

namespace {

/// Registers of a thread, (producer, consumer), by the number of consuming warpgroups: HOPPER's
/// figures, whose sums are what the warpgroups enter with.
constexpr std::pair<int64_t, int64_t> registersOf[] = {{0, 0}, {56, 256}, {24, 240}, {32, 160}};

struct PipeSplitRoles : impl::PipeSplitRolesBase<PipeSplitRoles> {
  void runOnOperation() override {
    tile::KernelOp kernel = getOperation();
    tile::ScheduleAttr schedule = kernel.getScheduleAttr();
    if (!schedule || schedule.getConsumers() == 0)
      return;
    int64_t consumers = schedule.getConsumers();
    stages = schedule.getStages();
    Block &body = kernel.getBodyBlock();
    auto loads = llvm::to_vector(body.getOps<tile::LoadOp>());
    auto loops = llvm::to_vector(body.getOps<scf::ForOp>());
    if (loops.size() != 1) {
      kernel.emitError() << "expected one loop for the roles to share, got " << loops.size();
      return signalPassFailure();
    }

    // All that both need stands before; the consumers' program is the rest.
    Operation *first = loads.empty() ? loops.front().getOperation() : loads.front().getOperation();
    OpBuilder builder(first);
    Location loc = kernel.getLoc();
    hoistScalars(body, first);
    SmallVector<tile::LoadOp> all(loads);
    loops.front().walk([&](tile::LoadOp load) { all.push_back(load); });
    for (tile::LoadOp load : all)
      openChannel(builder, load, load->getBlock() == &body ? 1 : stages);

    auto [producerRegisters, consumerRegisters] = registersOf[consumers];
    auto roles =
        pipe::RolesOp::create(builder, loc, producerRegisters, consumers, consumerRegisters);
    Block *producer = &roles.getProducer().emplaceBlock();
    Block *consumer = &roles.getConsumers().emplaceBlock();
    consumer->getOperations().splice(consumer->end(), body.getOperations(), first->getIterator(),
                                     body.getTerminator()->getIterator());
    // The roles op itself stands before `first`, so it was not moved.
    OpBuilder copies = OpBuilder::atBlockEnd(producer);
    for (tile::LoadOp load : loads)
      fill(copies, load, load.getBlock(), zero(copies, loc));
    emitProducerLoop(copies, loops.front());
    for (tile::LoadOp load : all)
      receive(load);
    emitStores(*consumer, loads.size());
  }

private:
  struct Lane {
    Value buffer, channel;
  };

  Value zero(OpBuilder &builder, Location loc) {
    return arith::ConstantIntOp::create(builder, loc, 0, 32);
  }

  /// Moves what makes no tile and touches no memory before `first`, so that both roles see it.
  static void hoistScalars(Block &body, Operation *first) {
    for (Operation &op : llvm::make_early_inc_range(
             llvm::make_range(first->getIterator(), body.getTerminator()->getIterator()))) {
      bool isScalar = isPure(&op) && op.getNumRegions() == 0 &&
                      llvm::none_of(op.getResultTypes(), llvm::IsaPred<tile::TileType>) &&
                      llvm::none_of(op.getOperandTypes(), llvm::IsaPred<tile::TileType>);
      if (isScalar)
        op.moveBefore(first);
    }
  }

  void openChannel(OpBuilder &builder, tile::LoadOp load, int64_t count) {
    auto type = cast<tile::TileType>(load.getType());
    auto buffer = pipe::BufferType::get(&getContext(), count, type.getExtent(0), type.getExtent(1),
                                        type.getElementType(), /*panels=*/true);
    Location loc = load.getLoc();
    lanes[load] = {pipe::AllocOp::create(builder, loc, buffer, Value(), IntegerAttr()),
                   pipe::OpenOp::create(builder, loc, pipe::ChannelType::get(&getContext(), count),
                                        IntegerAttr())};
  }

  void fill(OpBuilder &builder, tile::LoadOp load, Value block, Value use) {
    auto [buffer, channel] = lanes[load];
    pipe::AcquireOp::create(builder, load.getLoc(), channel, use);
    pipe::FillOp::create(builder, load.getLoc(), load.getView(), block, buffer, channel, use);
  }

  void emitProducerLoop(OpBuilder &builder, scf::ForOp loop) {
    Location loc = loop.getLoc();
    auto copy = scf::ForOp::create(builder, loc, loop.getLowerBound(), loop.getUpperBound(),
                                   loop.getStep());
    OpBuilder inside(copy.getBody()->getTerminator());
    Value use = arith::SubIOp::create(inside, loc, copy.getInductionVar(), loop.getLowerBound());
    llvm::DenseMap<Value, Value> blocks;
    for (auto load : loop.getBody()->getOps<tile::LoadOp>()) {
      auto at = load.getBlock().getDefiningOp<tile::BlockAtOp>();
      Value &block = blocks[at];
      if (!block)
        block = tile::BlockAtOp::create(inside, loc, at.getType(), at.getRows(),
                                        copy.getInductionVar());
      fill(inside, load, block, use);
    }
  }

  /// The consumers' side of a load.
  void receive(tile::LoadOp load) {
    auto [buffer, channel] = lanes[load];
    OpBuilder builder(load);
    Location loc = load.getLoc();
    auto loop = dyn_cast<scf::ForOp>(load->getParentOp());
    Value use = loop ? Value(arith::SubIOp::create(builder, loc, loop.getInductionVar(),
                                                   loop.getLowerBound()))
                     : zero(builder, loc);
    Value stage = arith::RemUIOp::create(
        builder, loc, use,
        arith::ConstantIntOp::create(builder, loc,
                                     cast<pipe::BufferType>(buffer.getType()).getStages(), 32));
    pipe::AwaitOp::create(builder, loc, channel, use);
    auto type = cast<tile::TileType>(load.getType());
    Value tile = pipe::SlotOp::create(
        builder, loc, type.withEncoding(pipe::SharedAttr::get(&getContext())), buffer, stage);
    load.replaceAllUsesWith(tile);
    if (loop) { // what is loaded once is never overwritten by another
      Operation *last = nullptr;
      for (Operation *user : tile.getUsers())
        if (!last || last->isBeforeInBlock(user))
          last = user;
      builder.setInsertionPointAfter(last ? last : tile.getDefiningOp());
      pipe::ReleaseOp::create(builder, loc, channel, use);
    }
    load.erase();
  }

  /// Outputs leave through the buffer of the queries: a warpgroup writes only over its own rows,
  /// which it alone has read. `before` is how many tiles are loaded before the loop: what it loads
  /// itself is read by all warpgroups.
  void emitStores(Block &consumer, size_t before) {
    for (auto store : llvm::make_early_inc_range(consumer.getOps<tile::StoreOp>())) {
      auto type = cast<tile::TileType>(store.getTile().getType());
      if (type.getRank() != 2)
        continue;
      OpBuilder builder(store);
      Location loc = store.getLoc();
      auto bufferType = pipe::BufferType::get(&getContext(), 1, type.getExtent(0),
                                              type.getExtent(1), type.getElementType(), true);
      Value place;
      for (auto &[load, lane] : llvm::make_range(lanes.begin(), lanes.begin() + before))
        if (!place && lane.buffer.getType() == bufferType)
          place = lane.buffer;
      OpBuilder outside(consumer.getParentOp());
      Value buffer = pipe::AllocOp::create(outside, loc, bufferType, place, IntegerAttr());
      pipe::WriteOp::create(builder, loc, store.getTile(), buffer, zero(builder, loc));
      pipe::EmptyOutOp::create(builder, loc, buffer, store.getView(), store.getBlock());
      store.erase();
    }
  }

  int64_t stages = 1;
  llvm::MapVector<Operation *, Lane> lanes;
};

} // namespace
} // namespace tesela
