//===- RotateLoop.cpp - pipe-rotate-loop ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/IterationSlice.h"
#include "targets/nvvm/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <array>

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPEROTATELOOP
#include "targets/nvvm/Passes.h.inc"

namespace {

/// The ops of a loop's body that copy its blocks, as pipe-assign-fragments leaves them. A commit
/// for the first copies of an inner loop may follow.
struct CopyGroup {
  pipe::BarrierOp before;
  SmallVector<pipe::CopyOp> copies;
  pipe::CommitOp commit;
  pipe::WaitOp wait;
};

struct PipeRotateLoop : impl::PipeRotateLoopBase<PipeRotateLoop> {
  void runOnOperation() override {
    tile::ScheduleAttr schedule = getOperation().getScheduleAttr();
    stages = schedule ? schedule->stages : 1;
    if (stages < 2)
      return;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      if (std::optional<CopyGroup> group = findGroup(loop))
        rotate(loop, *group);
  }

  /// Returns nothing if the loop copies nothing or a copy depends on more than the iteration.
  static std::optional<CopyGroup> findGroup(scf::ForOp loop) {
    CopyGroup group;
    for (Operation &op : *loop.getBody()) {
      if (auto barrier = dyn_cast<pipe::BarrierOp>(op); barrier && !group.before)
        group.before = barrier;
      else if (auto copy = dyn_cast<pipe::CopyOp>(op))
        group.copies.push_back(copy);
      else if (auto commit = dyn_cast<pipe::CommitOp>(op); commit && !group.commit)
        group.commit = commit;
      else if (auto wait = dyn_cast<pipe::WaitOp>(op); wait && !group.wait)
        group.wait = wait;
    }
    if (group.copies.empty() || !group.before || !group.commit || !group.wait)
      return std::nullopt;
    for (pipe::CopyOp copy : group.copies)
      for (Value block : {Value(copy.getBlock()), Value(copy.getColumns())})
        if (block && !nvvm::followsIteration(loop, block))
          return std::nullopt;
    return group;
  }

  void rotate(scf::ForOp loop, CopyGroup &group) {
    Location loc = loop.getLoc();
    Value low = loop.getLowerBound();
    auto constant = [&](OpBuilder &builder, int64_t value) -> Value {
      return arith::ConstantIntOp::create(builder, loc, value, 32);
    };
    widenBuffers(group);

    // In front of the loop: copy the first n - 1 blocks, before earlier copies are awaited there.
    // In an outer loop, first wait until all threads have read the stages of the last round.
    OpBuilder before(loop);
    if (isa<scf::ForOp>(loop->getParentOp()))
      pipe::BarrierOp::create(before, loc);
    pipe::WaitOp earlierWait;
    for (Operation *op = loop->getPrevNode(); op && !earlierWait; op = op->getPrevNode())
      earlierWait = dyn_cast<pipe::WaitOp>(op);
    if (earlierWait && !areKnownAt(earlierWait, loop))
      earlierWait = {};
    if (earlierWait)
      before.setInsertionPoint(earlierWait);
    for (int64_t stage = 0; stage + 1 < stages; ++stage) {
      Value index = arith::AddIOp::create(before, loc, low, constant(before, stage));
      copyIfInside(before, loop, group, index, constant(before, stage));
    }
    if (earlierWait) // the new groups may stay under way
      earlierWait.setPending(earlierWait.getPending() + stages - 1);

    // In the loop: await this block, then start the copy for n - 1 iterations ahead. The last
    // iteration has read its stage, and the barrier makes sure that all threads are done with it.
    OpBuilder inside(group.before);
    pipe::WaitOp::create(inside, loc, stages - 2);
    inside.setInsertionPointAfter(group.before);
    Value count = constant(inside, stages);
    Value done = arith::SubIOp::create(inside, loc, loop.getInductionVar(), low);
    Value stage = arith::RemUIOp::create(inside, loc, done, count);
    Value ahead = constant(inside, stages - 1);
    Value next = arith::AddIOp::create(inside, loc, loop.getInductionVar(), ahead);
    Value nextStage =
        arith::RemUIOp::create(inside, loc, arith::AddIOp::create(inside, loc, done, ahead), count);
    copyIfInside(inside, loop, group, next, nextStage);

    Operation *secondBarrier = group.wait->getNextNode();
    SmallVector<Value> buffers;
    for (pipe::CopyOp copy : group.copies)
      buffers.push_back(copy.getBuffer());
    loop.walk([&](pipe::SlotOp slot) {
      if (llvm::is_contained(buffers, slot.getBuffer()))
        slot.getStageMutable().assign(stage);
    });
    secondBarrier->erase();
    group.wait.erase();
    group.commit.erase();
    for (pipe::CopyOp copy : group.copies)
      copy.erase();
  }

  /// Whether the bounds of `loop` are known in front of `op` in the same block. The blocks of the
  /// copies are then known there, too.
  static bool areKnownAt(Operation *op, scf::ForOp loop) {
    return llvm::all_of(std::array{loop.getLowerBound(), loop.getUpperBound()}, [&](Value bound) {
      Operation *source = bound.getDefiningOp();
      return !source || source->getBlock() != op->getBlock() || source->isBeforeInBlock(op);
    });
  }

  void widenBuffers(CopyGroup &group) {
    for (pipe::CopyOp copy : group.copies) {
      auto type = copy.getBuffer().getType();
      copy.getBuffer().setType(pipe::BufferType::get(&getContext(), stages, type.getRows(),
                                                     type.getColumns(), type.getElementType()));
    }
  }

  /// Copies the blocks of iteration `index` if there is such an iteration. Commits in any case, so
  /// that groups can be counted.
  static void copyIfInside(OpBuilder &builder, scf::ForOp loop, CopyGroup &group, Value index,
                           Value stage) {
    Location loc = group.commit.getLoc();
    Value inside =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, index, loop.getUpperBound());
    auto branch = scf::IfOp::create(builder, loc, inside, /*withElseRegion=*/false);
    OpBuilder inner = branch.getThenBodyBuilder();
    IRMapping iteration;
    iteration.map(loop.getInductionVar(), index);
    auto blockAt = [&](Value block) {
      return block ? nvvm::copyForIteration(inner, loop, block, iteration) : block;
    };
    for (pipe::CopyOp copy : group.copies) {
      Value block = blockAt(copy.getBlock()), columns = blockAt(copy.getColumns());
      pipe::CopyOp::create(inner, copy.getLoc(), copy.getView(), block, columns, copy.getBuffer(),
                           stage);
    }
    pipe::CommitOp::create(builder, loc);
  }

  int64_t stages = 1;
};

} // namespace
} // namespace tesela
