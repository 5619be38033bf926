//===- RoleOutputs.cpp - How consumers store results ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RoleOutputs.h"

#include "pipe/Shares.h"
#include "targets/nvvm/FragmentOrder.h"
#include "targets/nvvm/ProductShares.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

static Value constant(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

static pipe::RolesOp rolesOf(Block &block) {
  return block.getParent()->getParentOfType<pipe::RolesOp>();
}

/// A buffer that holds `tile`. If the tile is cut, each warpgroup writes whole panels of columns
/// (pipe::columnsOfPart).
static pipe::BufferType bufferFor(Value tile, const Schedule &schedule) {
  auto type = cast<tile::TileType>(tile.getType());
  int64_t parts = columnParts(type, schedule);
  return pipe::BufferType::get(type.getContext(), /*stages=*/1, type.getExtent(0),
                               parts * pipe::columnsOfPart(type.getExtent(1), parts),
                               type.getElementType(), /*panels=*/true);
}

void emitAdditions(Block &block) {
  SmallVector<tile::AccumulateOp> additions;
  block.walk([&](tile::AccumulateOp addition) { additions.push_back(addition); });
  for (tile::AccumulateOp addition : additions) {
    if (!isInFragmentOrder(addition.getView()))
      continue; // added straight from the registers
    if (cast<tile::TileType>(addition.getTile().getType()).getExtent(1) > mostBufferedColumns)
      continue;
    tile::ScheduleAttr schedule = addition->getParentOfType<tile::KernelOp>().getScheduleAttr();
    Location loc = addition.getLoc();
    OpBuilder outside(rolesOf(block)), builder(addition);
    Value buffer =
        pipe::AllocOp::create(outside, loc, bufferFor(addition.getTile(), schedule.getChoices()),
                              /*over=*/Value(), IntegerAttr());
    pipe::DrainOp::create(builder, loc);
    pipe::WriteOp::create(builder, loc, addition.getTile(), buffer, constant(builder, loc, 0));
    pipe::AddOutOp::create(builder, loc, buffer, addition.getView(), addition.getBlock(),
                           /*late=*/false);
    addition.erase();
  }
}

int64_t bytesBetweenShares(Value buffer) {
  auto alloc = buffer.getDefiningOp<pipe::AllocOp>();
  pipe::BufferType type = alloc.getBuffer().getType();
  if (!alloc.getOver())
    return type.getStageBytes();
  return pipe::bytesOfShare(alloc.getOver().getType(), type.getStages());
}

/// A buffer of additions in `block` whose shares have room for an output of `type`, and the type of
/// the output's buffer over it. Returns nulls if there is none.
static std::pair<Value, pipe::BufferType> findShares(Block &block, pipe::BufferType type) {
  int64_t consumers = rolesOf(block).getCount(), rows = type.getRows() / consumers;
  auto byShares = pipe::BufferType::get(type.getContext(), consumers, rows, type.getColumns(),
                                        type.getElementType(), type.getPanels());
  Value found;
  block.walk([&](pipe::AddOutOp addition) {
    if (pipe::bytesOfShare(addition.getBuffer().getType(), consumers) >= byShares.getStageBytes())
      found = addition.getBuffer();
  });
  bool isPossible = found && consumers > 1 && rows == pipe::rowsOfShare;
  return isPossible ? std::pair(found, byShares) : std::pair(Value(), pipe::BufferType());
}

/// The offset in each share of `additions` at which another stage of `type` fits, behind the
/// outputs that lie there already. Returns 0 if it does not fit.
static int64_t placeBehind(Value additions, pipe::BufferType type) {
  int64_t end = 0;
  for (Operation *user : additions.getUsers())
    if (auto output = dyn_cast<pipe::AllocOp>(user))
      end =
          std::max<int64_t>(end, output.getBehind() + output.getBuffer().getType().getStageBytes());
  int64_t share = pipe::bytesOfShare(cast<pipe::BufferType>(additions.getType()), type.getStages());
  return end + type.getStageBytes() <= share ? end : 0;
}

/// Whether the copy engine stores the output. It does not if a copy would write into rows of other
/// sequences, or if several warps share the columns of the tile.
static bool leavesByCopies(tile::StoreOp store, const Schedule &schedule) {
  auto type = cast<tile::TileType>(store.getTile().getType());
  return type.getRank() == 2 && type.getElementType().getIntOrFloatBitWidth() == 16 &&
         isa<BlockArgument>(store.getView()) && !isCut(type, schedule);
}

/// Whether the consumers hand operands to each other through the buffer.
static bool isExchange(pipe::AllocOp alloc) {
  auto users = alloc.getBuffer().getUsers();
  return llvm::any_of(users, llvm::IsaPred<pipe::WriteOp>) &&
         llvm::any_of(users, llvm::IsaPred<pipe::SlotOp>);
}

static bool isUnderOutput(pipe::AllocOp alloc) {
  return llvm::any_of(alloc.getBuffer().getUsers(), llvm::IsaPred<pipe::AllocOp>);
}

/// An exchange of `block` that is at least as large as `type` and has no output over it yet; null
/// if there is none.
static Value findExchange(Block &block, pipe::BufferType type) {
  for (auto alloc : block.getOps<pipe::AllocOp>())
    if (isExchange(alloc) && !isUnderOutput(alloc) &&
        alloc.getBuffer().getType().getBytes() >= type.getBytes())
      return alloc.getBuffer();
  return Value();
}

/// Ends a work item before the next one begins. `left`: channels of the rows over which outputs
/// lie; they are released here, when the copy engine has read the outputs. The next item begins
/// with the first stage of an exchange, whatever stage this item ended with, and an output may
/// still lie there. So a barrier makes sure that all consumers are done with both.
static void endItem(Block &block, ArrayRef<pipe::OpenOp> left) {
  auto allocs = block.getOps<pipe::AllocOp>();
  bool isStaged = llvm::any_of(allocs, [](pipe::AllocOp alloc) {
    return isExchange(alloc) && alloc.getBuffer().getType().getStages() > 1;
  });
  bool isUnder = llvm::any_of(
      allocs, [](pipe::AllocOp alloc) { return isExchange(alloc) && isUnderOutput(alloc); });
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  Location loc = block.getParentOp()->getLoc();
  if (isUnder || !left.empty())
    pipe::DrainOp::create(builder, loc);
  if (isUnder || isStaged)
    pipe::BarrierOp::create(builder, loc);
  for (pipe::OpenOp channel : left)
    for (Operation *user : channel.getChannel().getUsers())
      if (auto release = dyn_cast<pipe::ReleaseOp>(user))
        release->moveBefore(&block, block.end());
}

void emitStores(Block &block, ArrayRef<OwnRows> ownRows, bool hasItems) {
  pipe::RolesOp roles = rolesOf(block);
  tile::ScheduleAttr schedule = roles->getParentOfType<tile::KernelOp>().getScheduleAttr();
  SmallVector<OwnRows> left(schedule->outputBuffer ? ArrayRef<OwnRows>() : ownRows);
  SmallVector<pipe::OpenOp> taken;
  for (auto store : llvm::make_early_inc_range(block.getOps<tile::StoreOp>())) {
    if (!leavesByCopies(store, schedule.getChoices()))
      continue; // stored straight from the registers
    OpBuilder builder(store), outside(roles);
    Location loc = store.getLoc();
    pipe::BufferType type = bufferFor(store.getTile(), schedule.getChoices());
    pipe::OpenOp over; ///< the channel of the rows over which the output lies
    Value place, shares;
    if (hasItems && !schedule->outputBuffer)
      if (auto [additions, byShares] = findShares(block, type); additions) {
        shares = place = additions;
        type = byShares;
      }
    auto fitting = llvm::find_if(
        left, [&](OwnRows &rows) { return rows.buffer.getBuffer().getType() == type; });
    if (shares) {
      // Each warpgroup waits only for its own copies.
    } else if (fitting != left.end()) {
      over = fitting->channel;
      place = fitting->buffer.getBuffer();
      left.erase(fitting); // one output for each buffer
    } else if (!schedule->outputBuffer) {
      place = findExchange(block, type);
    }
    bool isOverExchange = place && !over && !shares;
    int64_t behind = shares ? placeBehind(shares, type) : 0;
    Value buffer = pipe::AllocOp::create(isOverExchange ? builder : outside, loc, type, place,
                                         IntegerAttr(), behind);
    if (isOverExchange)
      pipe::BarrierOp::create(builder, loc); // all warpgroups have read what is there
    if (hasItems && (!place || (shares && behind == 0)))
      pipe::DrainOp::create(builder, loc); // what was there before has been copied out
    pipe::WriteOp::create(builder, loc, store.getTile(), buffer, constant(builder, loc, 0));
    pipe::EmptyOutOp::create(builder, loc, buffer, store.getView(), store.getBlock());
    if (over)
      taken.push_back(over);
    store.erase();
  }
  if (hasItems)
    endItem(block, taken);
}

} // namespace tesela::nvvm
