//===- StageOperands.cpp - pipe-stage-operands ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/LoadUses.h"
#include "targets/nvvm/CarriedCounts.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/ProductShares.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPESTAGEOPERANDS
#include "targets/nvvm/Passes.h.inc"

namespace {

/// Whether `operand` is computed in registers from which a matrix instruction cannot read it.
bool needsSharedMemory(OpOperand &operand) {
  auto dot = dyn_cast<tile::DotOp>(operand.getOwner());
  if (!dot || operand.get() == dot.getC())
    return false;
  auto type = cast<tile::TileType>(operand.get().getType());
  bool isComputed = isa_and_nonnull<pipe::AccumulatorAttr>(type.getEncoding()) &&
                    !operand.get().getDefiningOp<tile::LoadOp>();
  if (!isComputed || operand.getOperandNumber() == 1 || dot.getLeftTransposed())
    return isComputed;
  return nvvm::isCut(type, dot->getParentOfType<tile::KernelOp>().getScheduleAttr().getChoices());
}

struct PipeStageOperands : impl::PipeStageOperandsBase<PipeStageOperands> {
  void runOnOperation() override {
    // In program order: the first product in a block that needs a tile brings it to shared memory
    // for all later ones.
    Readers readers;
    getOperation().walk<WalkOrder::PreOrder>([&](tile::DotOp dot) {
      for (OpOperand &operand : dot->getOpOperands())
        if (needsSharedMemory(operand))
          readers[{operand.get(), blockOf(dot, operand.get(), readers)}].push_back(&operand);
    });
    joinMeetings(readers);
    // If a loop has several such tiles, each is read between its own barrier and the next tile's.
    llvm::DenseMap<Block *, int64_t> tilesOf;
    for (auto &[tile, operands] : readers)
      ++tilesOf[tile.second];
    for (auto &[tile, operands] : readers)
      if (failed(stage(tile.first, operands, tilesOf[tile.second] > 1)))
        return signalPassFailure();
  }

  using Readers = llvm::MapVector<std::pair<Value, Block *>, SmallVector<OpOperand *>>;

  /// Without roles one barrier of a block serves all tiles of the block: products that read earlier
  /// tiles move behind the last one's barrier, unless the last tile depends on them.
  void joinMeetings(const Readers &readers) {
    if (getOperation().getScheduleAttr()->consumers > 0)
      return;
    llvm::MapVector<Block *, SmallVector<Operation *>> dotsOf;
    for (auto &[tile, operands] : readers)
      for (OpOperand *operand : operands)
        dotsOf[tile.second].push_back(operand->getOwner());
    for (auto &[tile, operands] : readers) {
      Operation *last = operands.front()->getOwner();
      for (Operation *dot : dotsOf[tile.second]) {
        bool isNeededLater = dot->getBlock() == last->getBlock() && dot->isBeforeInBlock(last) &&
                             llvm::all_of(dot->getUsers(), [&](Operation *user) {
                               Operation *ancestor = last->getBlock()->findAncestorOpInBlock(*user);
                               return ancestor && last->isBeforeInBlock(ancestor);
                             });
        if (isNeededLater)
          dot->moveBefore(last);
      }
    }
  }

  /// The last barrier in front of `op` in its block; null if there is none.
  static pipe::BarrierOp barrierBefore(Operation *op) {
    for (Operation *each = op->getPrevNode(); each; each = each->getPrevNode())
      if (auto barrier = dyn_cast<pipe::BarrierOp>(each))
        return barrier;
    return {};
  }

  /// The block in which `dot` brings the tile to shared memory: its own, or, if `dot` stands in a
  /// branch that computes a product again, a block around it that has brought the tile already.
  static Block *blockOf(tile::DotOp dot, Value tile, const Readers &readers) {
    Block *block = dot->getBlock();
    while (isa<scf::IfOp>(block->getParentOp()) && !readers.contains({tile, block}))
      block = block->getParentOp()->getBlock();
    return readers.contains({tile, block}) ? block : dot->getBlock();
  }

  /// `standsBesideOthers`: another barrier stands between any two writes of the tile.
  LogicalResult stage(Value tile, ArrayRef<OpOperand *> operands, bool standsBesideOthers) {
    Operation *first = operands.front()->getOwner();
    for (OpOperand *operand : operands) // joinMeetings may have moved one behind another
      if (Operation *owner = operand->getOwner();
          owner->getBlock() == first->getBlock() && owner->isBeforeInBlock(first))
        first = owner;
    if (first->getParentOfType<scf::IfOp>())
      return first->emitOpError()
             << "expected operands that are loaded, or computed in registers where the product "
                "reads them: under a branch not all threads would bring this one to shared memory";
    auto type = cast<tile::TileType>(tile.getType());
    tile::ScheduleAttr schedule = getOperation().getScheduleAttr();
    bool hasRoles = schedule->consumers > 0;
    Value source = narrowSource(tile);
    // Tiles that are cut are wide: there is no room for a second stage.
    int64_t stages = hasRoles && !source && !nvvm::isCut(type, schedule.getChoices()) &&
                             first->getParentOfType<scf::ForOp>() &&
                             first->getBlock() == tile.getParentBlock()
                         ? 2
                         : 1;
    Location loc = first->getLoc();
    Value count = stages > 1 ? countUses(first->getParentOfType<scf::ForOp>()) : Value();
    OpBuilder top = OpBuilder::atBlockBegin(&getOperation().getBodyBlock()), builder(first);
    auto bufferType =
        pipe::BufferType::get(&getContext(), stages, type.getExtent(0), type.getExtent(1),
                              type.getElementType(), /*panels=*/hasRoles);
    Value buffer = pipe::AllocOp::create(top, loc, bufferType, Value(), IntegerAttr());
    if (stages > 1) // nobody reads this stage: write as soon as the tile is computed
      builder.setInsertionPointAfter(tile.getDefiningOp());
    Operation *convert = tile.getDefiningOp();
    // The same holds if all threads meet in front of the tile in each iteration of its loop: they
    // have then read what the last iteration wrote.
    pipe::BarrierOp earlier =
        !hasRoles && !source && convert && convert->getBlock() == first->getBlock()
            ? barrierBefore(convert)
            : pipe::BarrierOp();
    if (earlier)
      builder.setInsertionPointAfter(convert);
    Value stage = arith::ConstantIntOp::create(builder, loc, stages > 1 ? stages : 0, 32);
    if (stages > 1)
      stage = arith::RemUIOp::create(builder, loc, count, stage);
    else if (!earlier && (!source || !standsBesideOthers) && !hasVoteBefore(first))
      pipe::BarrierOp::create(builder, loc); // all threads have read what was there
    Operation *write = pipe::WriteOp::create(builder, loc, source ? source : tile, buffer, stage);
    builder.setInsertionPoint(first);
    // If all threads meet between the write and the read anyway, that barrier is enough.
    Operation *meeting = earlier ? barrierBefore(first) : nullptr;
    if (!meeting || meeting->isBeforeInBlock(write))
      pipe::BarrierOp::create(builder, loc);
    Value slot = pipe::SlotOp::create(
        builder, loc, type.withEncoding(pipe::SharedAttr::get(&getContext())), buffer, stage);
    for (OpOperand *operand : operands)
      operand->set(slot);
    if (source && convert->use_empty())
      convert->erase();
    return success();
  }

  /// Whether all warps vote in front of `op` in its block, and so meet: each has then awaited the
  /// last iteration's products.
  static bool hasVoteBefore(Operation *op) {
    return llvm::any_of(llvm::make_range(op->getBlock()->begin(), op->getIterator()),
                        [](Operation &each) { return nvvm::isVoteOfAll(&each); });
  }

  /// The narrow tile in shared memory that `tile` is widened from, or null. A load that the
  /// producer will serve gets the encoding of a tile in shared memory here.
  static Value narrowSource(Value tile) {
    auto convert = tile.getDefiningOp<tile::ConvertOp>();
    if (!convert)
      return Value();
    Value source = convert.getSource();
    auto type = cast<tile::TileType>(source.getType());
    auto shared = pipe::SharedAttr::get(tile.getContext());
    if (auto load = source.getDefiningOp<tile::LoadOp>(); load && isWidened(load))
      source.setType(type.withEncoding(shared));
    return cast<tile::TileType>(source.getType()).getEncoding() == shared ? source : Value();
  }

  /// Makes `loop` and all loops around it carry, as an i32, how often its body has run in the
  /// kernel. The loops are replaced.
  static Value countUses(scf::ForOp loop) {
    Location loc = loop.getLoc();
    SmallVector<scf::ForOp> loops = {loop};
    while (auto outer = loops.back()->getParentOfType<scf::ForOp>())
      loops.push_back(outer);
    OpBuilder outside(loops.back());
    Value count = arith::ConstantIntOp::create(outside, loc, 0, 32);
    for (scf::ForOp &each : llvm::reverse(loops)) {
      each = nvvm::carryMore(each, count);
      count = each.getRegionIterArgs().back();
    }
    Operation *yield = loops.front().getBody()->getTerminator();
    OpBuilder builder(yield);
    Value one = arith::ConstantIntOp::create(builder, loc, 1, 32);
    Value next = arith::AddIOp::create(builder, loc, count, one);
    yield->setOperand(yield->getNumOperands() - 1, next);
    for (auto [inner, outer] : llvm::zip(loops, llvm::drop_begin(loops))) {
      Operation *terminator = outer.getBody()->getTerminator();
      terminator->setOperand(terminator->getNumOperands() - 1, inner.getResults().back());
    }
    return count;
  }
};

} // namespace
} // namespace tesela
