//===- RoleOutputs.cpp - How results leave the consumers --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RoleOutputs.h"

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

static pipe::BufferType bufferFor(Value tile, bool panels) {
  auto type = cast<tile::TileType>(tile.getType());
  return pipe::BufferType::get(type.getContext(), /*stages=*/1, type.getExtent(0),
                               type.getExtent(1), type.getElementType(), panels);
}

void emitAdditions(Block &block) {
  SmallVector<tile::AccumulateOp> additions;
  block.walk([&](tile::AccumulateOp addition) { additions.push_back(addition); });
  for (tile::AccumulateOp addition : additions) {
    if (!isInFragmentOrder(addition.getView()))
      continue; // straight from the registers
    Location loc = addition.getLoc();
    OpBuilder outside(rolesOf(block)), builder(addition);
    Value buffer =
        pipe::AllocOp::create(outside, loc, bufferFor(addition.getTile(), /*panels=*/false),
                              /*over=*/Value(), IntegerAttr());
    pipe::DrainOp::create(builder, loc);
    pipe::WriteOp::create(builder, loc, addition.getTile(), buffer, constant(builder, loc, 0));
    pipe::AddOutOp::create(builder, loc, buffer, addition.getView(), addition.getBlock(),
                           /*late=*/false);
    addition.erase();
  }
}

/// Whether the copy engine takes it: not where a copy would reach into other sequences, nor what
/// two warps share the columns of.
static bool leavesByCopies(tile::StoreOp store, int64_t warps) {
  auto type = cast<tile::TileType>(store.getTile().getType());
  return type.getRank() == 2 && type.getElementType().getIntOrFloatBitWidth() == 16 &&
         isa<BlockArgument>(store.getView()) && !isCut(type, warps);
}

/// A buffer of `block` as large as `type` through which the consumers hand operands to each other,
/// and that no output has taken yet; null where there is none.
static Value findExchange(Block &block, pipe::BufferType type) {
  for (auto alloc : block.getOps<pipe::AllocOp>()) {
    Value buffer = alloc.getBuffer();
    bool isWritten = llvm::any_of(buffer.getUsers(), llvm::IsaPred<pipe::WriteOp>);
    bool isRead = llvm::any_of(buffer.getUsers(), llvm::IsaPred<pipe::SlotOp>);
    bool isTaken = llvm::any_of(buffer.getUsers(), llvm::IsaPred<pipe::AllocOp>);
    if (isWritten && isRead && !isTaken &&
        alloc.getBuffer().getType().getBytes() >= type.getBytes())
      return buffer;
  }
  return Value();
}

void emitStores(Block &block, ArrayRef<OwnRows> ownRows, bool hasItems) {
  pipe::RolesOp roles = rolesOf(block);
  tile::ScheduleAttr schedule = roles->getParentOfType<tile::KernelOp>().getScheduleAttr();
  SmallVector<OwnRows> left(schedule->outputBuffer ? ArrayRef<OwnRows>() : ownRows);
  for (auto store : llvm::make_early_inc_range(block.getOps<tile::StoreOp>())) {
    if (!leavesByCopies(store, schedule->warps))
      continue; // straight from the registers
    OpBuilder builder(store), outside(roles);
    Location loc = store.getLoc();
    pipe::BufferType type = bufferFor(store.getTile(), /*panels=*/true);
    pipe::OpenOp over; ///< the channel of the rows that it leaves over
    Value place;
    auto fitting = llvm::find_if(
        left, [&](OwnRows &rows) { return rows.buffer.getBuffer().getType() == type; });
    if (fitting != left.end()) {
      over = fitting->channel;
      place = fitting->buffer.getBuffer();
      left.erase(fitting); // an output each
    } else if (!hasItems &&
               !schedule->outputBuffer) { // the next item would write there at any time
      place = findExchange(block, type);
    }
    bool isOverExchange = place && !over;
    Value buffer =
        pipe::AllocOp::create(isOverExchange ? builder : outside, loc, type, place, IntegerAttr());
    if (isOverExchange)
      pipe::BarrierOp::create(builder, loc); // all warpgroups have read what lies there
    if (hasItems && !over)
      pipe::DrainOp::create(builder, loc); // the last item's rows
    pipe::WriteOp::create(builder, loc, store.getTile(), buffer, constant(builder, loc, 0));
    pipe::EmptyOutOp::create(builder, loc, buffer, store.getView(), store.getBlock());
    if (hasItems && over) {
      pipe::DrainOp::create(builder, loc);
      for (Operation *user : over.getChannel().getUsers())
        if (auto release = dyn_cast<pipe::ReleaseOp>(user))
          release->moveBefore(store);
    }
    store.erase();
  }
}

} // namespace tesela::nvvm
