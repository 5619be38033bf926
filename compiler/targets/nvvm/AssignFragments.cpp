//===- AssignFragments.cpp - pipe-assign-fragments --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/LoadUses.h"
#include "targets/nvvm/NarrowProducts.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/ProductShares.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPEASSIGNFRAGMENTS
#include "targets/nvvm/Passes.h.inc"

namespace {

struct PipeAssignFragments : impl::PipeAssignFragmentsBase<PipeAssignFragments> {
  void runOnOperation() override {
    tile::KernelOp kernel = getOperation();
    if (!kernel.getScheduleAttr()) {
      kernel.emitError() << "expected a kernel with the attribute 'schedule', a #tile.schedule";
      return signalPassFailure();
    }
    // The same pass object runs on several kernels, so reset its state.
    schedule = kernel.getScheduleAttr().getChoices();
    shares.clear();
    bufferOf.clear();
    findShares();
    assignRegisters();
    if (kernel.getScheduleAttr()->consumers > 0)
      return;
    bufferLoads();
    bufferStores();
    if (failed(nvvm::narrowProducts(kernel)))
      signalPassFailure();
  }

private:
  //===--- encodings --------------------------------------------------------===//

  /// Finds the row tiles that hold shares of a sum: results of `tile.reduce add`, their starting
  /// values, and what maps and loops compute from them.
  void findShares() {
    // A constant that starts a reduction and has other uses is split in two.
    getOperation().walk([](tile::ReduceOp reduce) {
      Operation *start = reduce.getStart().getDefiningOp<tile::ConstantOp>();
      if (reduce.givesShares() && start && !start->hasOneUse())
        reduce.getStartMutable().assign(OpBuilder(reduce).clone(*start)->getResult(0));
    });
    SmallVector<Value> worklist;
    auto mark = [&](Value value) {
      if (shares.insert(value))
        worklist.push_back(value);
    };
    getOperation().walk([&](tile::ReduceOp reduce) {
      if (!reduce.givesShares())
        return;
      mark(reduce.getResult());
      mark(reduce.getStart());
    });
    auto isRow = [](Value value) { return cast<tile::TileType>(value.getType()).getRank() == 1; };
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      for (OpOperand &use : value.getUses()) {
        Operation *user = use.getOwner();
        if (auto map = dyn_cast<tile::MapOp>(user)) {
          if (isRow(map.getResult()))
            mark(map.getResult());
        } else if (auto loop = dyn_cast<scf::ForOp>(user)) {
          mark(loop.getTiedLoopRegionIterArg(&use));
          mark(loop.getTiedLoopResult(&use));
        } else if (auto yield = dyn_cast<scf::YieldOp>(user)) {
          markTied(yield->getParentOp(), use.getOperandNumber(), mark);
        }
      }
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        auto loop = cast<scf::ForOp>(argument.getOwner()->getParentOp());
        markTied(loop, argument.getArgNumber() - 1, mark); // after the induction variable
      } else if (auto result = cast<OpResult>(value);
                 isa<scf::ForOp, scf::IfOp>(result.getOwner())) {
        markTied(result.getOwner(), result.getResultNumber(), mark);
      }
    }
  }

  /// Marks all values that the index-th result of a loop or a branch shares its encoding with.
  static void markTied(Operation *op, unsigned index, llvm::function_ref<void(Value)> mark) {
    mark(op->getResult(index));
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      mark(loop.getRegionIterArgs()[index]);
      mark(loop.getInitArgs()[index]);
    }
    for (Region &region : op->getRegions())
      if (!region.empty())
        mark(region.front().getTerminator()->getOperand(index));
  }

  void assignRegisters() {
    auto encode = [&](Value value) {
      auto type = dyn_cast<tile::TileType>(value.getType());
      if (!type)
        return;
      Attribute encoding;
      if (type.getRank() == 1)
        encoding = pipe::RowsAttr::get(&getContext(), nvvm::rowWarps(type, schedule),
                                       shares.contains(value));
      else if (type.isSingleRow())
        encoding = pipe::ColumnsAttr::get(&getContext());
      else
        encoding = pipe::AccumulatorAttr::get(&getContext(), nvvm::rowWarps(type, schedule));
      value.setType(type.withEncoding(encoding));
    };
    getOperation().walk([&](Operation *op) {
      llvm::for_each(op->getResults(), encode);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          llvm::for_each(block.getArguments(), encode);
    });
    // Left operands in registers get the operand encoding. An exception are tiles that are cut: a
    // warp has only some of their columns, which are the depth of the product. They go through
    // shared memory.
    getOperation().walk([&](tile::DotOp dot) {
      if (dot.getA().getDefiningOp<tile::LoadOp>() || dot.getLeftTransposed())
        return;
      OpBuilder builder(dot);
      auto type = cast<tile::TileType>(dot.getA().getType());
      if (nvvm::isCut(type, schedule))
        return;
      auto operand = pipe::OperandAttr::get(&getContext(), schedule.warps);
      dot.getAMutable().assign(
          pipe::ConvertOp::create(builder, dot.getLoc(), type.withEncoding(operand), dot.getA()));
    });
  }

  //===--- buffers ----------------------------------------------------------===//

  Value zero(OpBuilder &builder, Location loc) {
    return arith::ConstantIntOp::create(builder, loc, 0, 32);
  }

  Value allocate(tile::TileType type, Location loc, Value over) {
    OpBuilder builder = OpBuilder::atBlockBegin(&getOperation().getBodyBlock());
    if (over)
      builder.setInsertionPointAfter(over.getDefiningOp());
    auto buffer = pipe::BufferType::get(&getContext(), 1, type.getExtent(0), type.getExtent(1),
                                        type.getElementType());
    return pipe::AllocOp::create(builder, loc, buffer, over, IntegerAttr());
  }

  /// Starts the copies of `loads` at `start`, and waits for them at `wait`.
  void bufferGroup(MutableArrayRef<tile::LoadOp> loads, OpBuilder start, OpBuilder wait) {
    Location loc = loads.front().getLoc();
    SmallVector<Value> buffers;
    for (tile::LoadOp load : loads) {
      Value buffer = allocate(cast<tile::TileType>(load.getType()), load.getLoc(), Value());
      pipe::CopyOp::create(start, load.getLoc(), load.getView(), load.getBlock(), load.getColumns(),
                           buffer, zero(start, loc));
      buffers.push_back(buffer);
      bufferOf[load.getView()] = buffer;
    }
    pipe::CommitOp::create(start, loc);
    if (wait.getInsertionPoint() == start.getInsertionPoint())
      wait = start;
    pipe::WaitOp::create(wait, loc, 0);
    pipe::BarrierOp::create(wait, loc);
    for (auto [load, buffer] : llvm::zip(loads, buffers)) {
      auto type = cast<tile::TileType>(load.getType());
      Value tile = pipe::SlotOp::create(wait, load.getLoc(),
                                        type.withEncoding(pipe::SharedAttr::get(&getContext())),
                                        buffer, zero(wait, loc));
      auto isRowsOfProduct = [](OpOperand &use) {
        auto dot = dyn_cast<tile::DotOp>(use.getOwner());
        return dot && use.getOperandNumber() == 0 && !dot.getLeftTransposed();
      };
      if (llvm::any_of(load->getUses(), isRowsOfProduct) &&
          getOperation().getScheduleAttr()->qInRegisters) {
        Value operand = pipe::ConvertOp::create(wait, load.getLoc(),
                                                type.withEncoding(pipe::OperandAttr::get(
                                                    &getContext(), nvvm::rowWarps(type, schedule))),
                                                tile);
        load.getTile().replaceUsesWithIf(operand, isRowsOfProduct);
      }
      for (auto other : llvm::make_early_inc_range(load->getBlock()->getOps<tile::LoadOp>()))
        if (broughtBy(other) == load) {
          auto narrower = cast<tile::TileType>(other.getType());
          other.replaceAllUsesWith(
              pipe::SlotOp::create(wait, other.getLoc(),
                                   narrower.withEncoding(pipe::SharedAttr::get(&getContext())),
                                   buffer, zero(wait, loc))
                  .getResult());
          other.erase();
        }
      load.replaceAllUsesWith(tile);
    }
    for (tile::LoadOp load : loads) // not earlier: a builder may stand at one of them
      load.erase();
  }

  void bufferLoads() {
    SmallVector<Block *> blocks;
    getOperation().walk([&](Block *block) { blocks.push_back(block); });
    for (Block *block : blocks) {
      auto loads =
          llvm::to_vector(llvm::make_filter_range(block->getOps<tile::LoadOp>(), [](auto load) {
            return isReadByProduct(load) && !broughtBy(load);
          }));
      if (loads.empty())
        continue;
      if (!isa<scf::ForOp>(block->getParentOp())) {
        // Each load starts where it stands and is awaited in front of its first use.
        for (tile::LoadOp load : loads) {
          Operation *first = nullptr;
          for (Operation *user : load->getUsers()) {
            Operation *ancestor = block->findAncestorOpInBlock(*user);
            if (!first || ancestor->isBeforeInBlock(first))
              first = ancestor;
          }
          bufferGroup(load, OpBuilder(load), OpBuilder(first ? first : load));
        }
        continue;
      }
      // All loads start at the top of the loop's body, behind the last value that they need.
      Operation *lastNeeded = nullptr;
      for (tile::LoadOp load : loads)
        for (Value needed : load->getOperands())
          if (Operation *op = needed.getDefiningOp(); op && op->getBlock() == block)
            if (!lastNeeded || lastNeeded->isBeforeInBlock(op))
              lastNeeded = op;
      OpBuilder builder(&getContext());
      if (lastNeeded)
        builder.setInsertionPointAfter(lastNeeded);
      else
        builder.setInsertionPointToStart(block);
      pipe::BarrierOp::create(builder, loads.front().getLoc()); // all have read the last blocks
      bufferGroup(loads, builder, builder);
    }
  }

  /// Stores tiles of 16-bit elements through a buffer, so that threads store 16 bytes of a row at a
  /// time. The buffer takes the place of one that the kernel does not read any more. Other tiles
  /// are stored straight from registers. So are tiles that are cut, unless `product_rows` of the
  /// schedule cuts them and there is a place.
  void bufferStores() {
    SmallVector<tile::StoreOp> stores;
    getOperation().walk([&](tile::StoreOp store) { stores.push_back(store); });
    for (tile::StoreOp store : stores) {
      auto type = cast<tile::TileType>(store.getTile().getType());
      if (type.getRank() != 2 || type.getElementType().getIntOrFloatBitWidth() != 16)
        continue;
      Value place = findPlace(store, type);
      if (nvvm::isCut(type, schedule) && (schedule.productRows == 0 || !place))
        continue;
      OpBuilder builder(store);
      Location loc = store.getLoc();
      Value buffer = allocate(type, loc, place);
      Value stage = zero(builder, loc);
      pipe::BarrierOp::create(builder, loc);
      pipe::WriteOp::create(builder, loc, store.getTile(), buffer, stage);
      pipe::BarrierOp::create(builder, loc);
      pipe::StoreOp::create(builder, loc, buffer, stage, store.getView(), store.getBlock());
      store.erase();
    }
  }

  /// A buffer that is large enough and is read only in front of `store` at the kernel's top level.
  Value findPlace(tile::StoreOp store, tile::TileType type) {
    auto needed = pipe::BufferType::get(&getContext(), 1, type.getExtent(0), type.getExtent(1),
                                        type.getElementType());
    Block *block = &getOperation().getBodyBlock();
    Operation *last = block->findAncestorOpInBlock(*store);
    for (auto &[view, buffer] : bufferOf) {
      auto bufferType = cast<pipe::BufferType>(buffer.getType());
      bool isFree = bufferType.getBytes() >= needed.getBytes() &&
                    llvm::all_of(buffer.getUsers(), [&](Operation *user) {
                      Operation *ancestor = block->findAncestorOpInBlock(*user);
                      return ancestor == user && ancestor->isBeforeInBlock(last);
                    });
      // A slot reads the buffer wherever its tile is used.
      for (Operation *user : buffer.getUsers())
        if (auto slot = dyn_cast<pipe::SlotOp>(user))
          isFree &= llvm::all_of(slot->getUsers(), [&](Operation *reader) {
            Operation *ancestor = block->findAncestorOpInBlock(*reader);
            return ancestor && ancestor->isBeforeInBlock(last);
          });
      if (isFree)
        return buffer;
    }
    return Value();
  }

  Schedule schedule;
  llvm::SetVector<Value> shares;
  llvm::MapVector<Value, Value> bufferOf;
};

} // namespace
} // namespace tesela
