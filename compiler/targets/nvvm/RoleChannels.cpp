//===- RoleChannels.cpp - What roles send each other ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RoleChannels.h"

#include "targets/common/LoadUses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

/// How many found blocks the finder may be ahead of the producer. Most items that keep few blocks
/// have no more than this, so the search for the next item runs beside their products. A block is
/// sent twice where its keys and its values are loaded in different iterations.
static constexpr int64_t foundAhead = 32;

/// Whether products read `load`, but neither the first nor the last product of its block does.
static bool isReadInBetween(tile::LoadOp load) {
  SmallVector<Operation *> products;
  for (Operation &op : *load->getBlock())
    if (isa<tile::DotOp, pipe::DotStartOp>(op))
      products.push_back(&op);
  auto reads = [&](Operation *product) {
    return llvm::is_contained(product->getOperands(), load.getTile());
  };
  return products.size() > 2 && !reads(products.front()) && !reads(products.back()) &&
         llvm::any_of(products, reads);
}

/// Whether the first product of its block reads `load`.
static bool isReadFirst(tile::LoadOp load) {
  for (Operation &op : *load->getBlock())
    if (isa<tile::DotOp, pipe::DotStartOp>(op))
      return llvm::is_contained(op.getOperands(), load.getTile());
  return false;
}

bool RoleChannels::isBrought(tile::LoadOp load) {
  return !broughtBy(load) && (isReadByProduct(load) || isColumnsOfWorkspace(load));
}

bool RoleChannels::hasLoads(Operation *op) {
  return op
      ->walk([](tile::LoadOp load) {
        return isBrought(load) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

bool RoleChannels::hasFinds(Operation *op) {
  return op->walk([](tile::FoundBlockOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

void RoleChannels::fail(Operation *op, StringRef reason) {
  op->emitError() << reason;
  failed_ = true;
}

Value RoleChannels::constant(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

Value RoleChannels::increment(OpBuilder &builder, Location loc, Value value) {
  return arith::AddIOp::create(builder, loc, value, constant(builder, loc, 1));
}

int64_t RoleChannels::stagesOf(tile::LoadOp load, bool isInLoop) {
  // A load beside an inner loop is read by all iterations of that loop, as a work item's own
  // loads are.
  bool isBesideLoop = llvm::any_of(load->getBlock()->getOps<scf::ForOp>(),
                                   [](scf::ForOp loop) { return hasLoads(loop); });
  if (!isInLoop || isBesideLoop)
    return schedule->queryStages;
  bool isLate = schedule->lateStages > 0 && !schedule->lateCrossed && isReadInBetween(load);
  return isLate ? schedule->lateStages : schedule->stages;
}

void RoleChannels::openChannels(OpBuilder &builder) {
  findCarriers();
  kernel.walk([&](tile::LoadOp load) {
    if (!isBrought(load))
      return; // the consumers load it themselves
    bool isInLoop = load->getParentOp() != kernel;
    int64_t stages = stagesOf(load, isInLoop), parts = partsOf(load, schedule->consumers);
    bool isByRows = isReadByRows(load) && parts == schedule->consumers;
    auto known = viewChannels.find(load.getView());
    if (known != viewChannels.end()) {
      auto type = known->second.buffer.getBuffer().getType();
      auto channel = known->second.channel.getChannel().getType();
      if (known->second.inLoop)
        stages = isInLoop ? std::max(stages, channel.getStages()) : channel.getStages();
      known->second.inLoop |= isInLoop;
      known->second.isByRows &= isByRows;
      known->second.channel.getChannel().setType(pipe::ChannelType::get(
          kernel.getContext(), stages, std::min(parts, channel.getParts()), channel.getWords()));
      if (carried.contains(load) != (channel.getWords() > 0))
        fail(load, "of its view's loads some tell consumers of a found block, others do not");
      known->second.buffer.getBuffer().setType(
          pipe::BufferType::get(kernel.getContext(), stages, type.getRows(), type.getColumns(),
                                type.getElementType(), type.getPanels()));
      return;
    }
    auto type = cast<tile::TileType>(load.getType());
    auto buffer = pipe::BufferType::get(kernel.getContext(), stages, type.getExtent(0),
                                        type.getExtent(1), type.getElementType(),
                                        /*panels=*/!type.isSingleRow());
    Location loc = load.getLoc();
    auto alloc = pipe::AllocOp::create(builder, loc, buffer, Value(), IntegerAttr());
    int64_t words = carried.contains(load) ? 2 : 0;
    auto open = pipe::OpenOp::create(
        builder, loc, pipe::ChannelType::get(kernel.getContext(), stages, parts, words),
        IntegerAttr());
    viewChannels.insert(
        {load.getView(), {alloc, open, unsigned(viewChannels.size()), isInLoop, isByRows}});
  });
  if (schedule->lateCrossed)
    crossLateLoads();
}

/// A load that is read in between is crossed with one of the same tiles that the first product
/// reads. Both run once in each iteration, and nowhere else.
void RoleChannels::crossLateLoads() {
  llvm::MapVector<Value, SmallVector<tile::LoadOp>> loads; ///< by view
  kernel.walk([&](tile::LoadOp load) {
    if (isBrought(load))
      loads[load.getView()].push_back(load);
  });
  for (auto &[view, lateLoads] : loads)
    for (auto &[otherView, otherLoads] : loads) {
      tile::LoadOp late = lateLoads.front(), other = otherLoads.front();
      pipe::AllocOp buffer = viewChannels.find(view)->second.buffer,
                    under = viewChannels.find(otherView)->second.buffer;
      auto type = buffer.getBuffer().getType();
      auto channelOf = [&](Value loaded) {
        return viewChannels.find(loaded)->second.channel.getChannel().getType();
      };
      if (lateLoads.size() == 1 && otherLoads.size() == 1 && isReadInBetween(late) &&
          isReadFirst(other) && late->getParentOp() != kernel &&
          late->getBlock() == other->getBlock() && other->isBeforeInBlock(late) &&
          type == under.getBuffer().getType() && type.getStages() == 2 && type.getPanels() &&
          !under.getCrossedBuffer() && !buffer.getCrossedBuffer() &&
          channelOf(view) == channelOf(otherView)) {
        buffer.getOverMutable().assign(under.getBuffer());
        buffer.setCrossed(true);
      }
    }
}

pipe::OpenOp RoleChannels::openNumbers(OpBuilder &builder, Location loc, int64_t stages,
                                       int64_t words) {
  auto type = pipe::ChannelType::get(kernel.getContext(), stages, /*parts=*/1, words);
  return pipe::OpenOp::create(builder, loc, type, IntegerAttr());
}

void RoleChannels::findCarriers() {
  kernel.walk([&](tile::FoundBlockOp found) {
    tile::LoadOp first;
    bool isForLoads = true;
    SmallVector<Operation *> worklist{found};
    while (!worklist.empty()) {
      for (Operation *user : worklist.pop_back_val()->getUsers()) {
        auto load = dyn_cast<tile::LoadOp>(user);
        if (isa<arith::MulIOp, tile::BlockOp, tile::CoordinatesOp>(user))
          worklist.push_back(user);
        else if (!load || (!isBrought(load) && !broughtBy(load)))
          isForLoads = false;
        else if (load->getBlock() == found->getBlock() && (!first || load->isBeforeInBlock(first)))
          first = load;
      }
    }
    if (isForLoads)
      return;
    if (first)
      carried[first] = found;
    else
      fail(found, "consumers need to know of it, and no load for tile.dot beside it brings it to "
                  "them; take consumers = 0");
  });
}

void RoleChannels::openFinds(OpBuilder &builder) {
  kernel.walk([&](tile::FindBlocksOp find) {
    if (!counts)
      counts = openNumbers(builder, find.getLoc(), /*stages=*/2, /*words=*/1);
  });
  kernel.walk([&](tile::FoundBlockOp found) {
    if (!blocks)
      blocks = openNumbers(builder, found.getLoc(), foundAhead, /*words=*/2);
  });
}

void RoleChannels::send(OpBuilder &builder, Location loc, pipe::OpenOp channel, ValueRange numbers,
                        Value &use) {
  pipe::AcquireOp::create(builder, loc, channel, use);
  pipe::SendOp::create(builder, loc, numbers, channel, use);
  use = increment(builder, loc, use);
}

pipe::ReceiveOp RoleChannels::receive(OpBuilder &builder, Location loc, pipe::OpenOp channel,
                                      unsigned count, Value &use) {
  SmallVector<Type> types(count, builder.getI32Type());
  auto received = pipe::ReceiveOp::create(builder, loc, types, channel, use);
  use = increment(builder, loc, use);
  return received;
}

Value RoleChannels::sendItem(OpBuilder &builder, Location loc, Value item, Value use) {
  Type i32 = builder.getI32Type();
  auto type = work.getBlock().getType();
  Value count = tile::WorkItemsOp::create(builder, loc, i32, type, work.getDealt());
  Value more = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, item, count);
  auto rows = tile::WorkOp::create(builder, loc, type, item, work.getDealt(), work.getOrder());
  auto place = tile::CoordinatesOp::create(builder, loc, rows);
  pipe::AcquireOp::create(builder, loc, items, use);
  Value flag;
  if (work.getDealt()) {
    Value next = increment(builder, loc, tile::WorkPartOp::create(builder, loc, i32, rows));
    flag = arith::SelectOp::create(builder, loc, more, next, constant(builder, loc, 0));
  } else {
    flag = arith::ExtUIOp::create(builder, loc, i32, more);
  }
  pipe::SendOp::create(builder, loc,
                       ValueRange{flag, place.getBatch(), place.getHead(), place.getFirst()}, items,
                       use);
  return more;
}

Value RoleChannels::receiveItem(OpBuilder &builder, Location loc, Value use,
                                SmallVector<Value> &coordinates) {
  SmallVector<Type> types(4, builder.getI32Type());
  auto received = pipe::ReceiveOp::create(builder, loc, types, items, use);
  llvm::append_range(coordinates, received.getValues().drop_front());
  if (work.getDealt())
    coordinates.push_back(
        arith::SubIOp::create(builder, loc, received.getResult(0), constant(builder, loc, 1)));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, received.getResult(0),
                               constant(builder, loc, 0));
}

SmallVector<unsigned> RoleChannels::usedIn(scf::ForOp loop, RoleKind role) {
  SmallVector<unsigned> numbers;
  auto add = [&](unsigned number) {
    if (!llvm::is_contained(numbers, number))
      numbers.push_back(number);
  };
  if (role != RoleKind::Finder)
    loop.walk([&](tile::LoadOp load) {
      if (isBrought(load))
        add(viewChannels.find(load.getView())->second.number);
    });
  loop.walk([&](tile::FindBlocksOp) { add(countsNumber()); });
  if (role != RoleKind::Consumers && hasFinds(loop))
    add(blocksNumber());
  return numbers;
}

SmallVector<OwnRows> RoleChannels::ownRows() {
  SmallVector<OwnRows> result;
  for (auto &[view, loaded] : viewChannels)
    if (loaded.isByRows && !loaded.inLoop)
      result.push_back({loaded.buffer, loaded.channel});
  return result;
}

} // namespace tesela::nvvm
