//===- StageOperands.cpp - pipe-stage-operands ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/CarriedCounts.h"
#include "targets/nvvm/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPESTAGEOPERANDS
#include "targets/nvvm/Passes.h.inc"

namespace {

/// Whether a matrix instruction cannot read the operand from the registers that it was computed in.
bool needsSharedMemory(OpOperand &operand) {
  auto dot = dyn_cast<tile::DotOp>(operand.getOwner());
  if (!dot || operand.get() == dot.getC())
    return false;
  auto type = cast<tile::TileType>(operand.get().getType());
  bool isComputed = isa_and_nonnull<pipe::AccumulatorAttr>(type.getEncoding()) &&
                    !operand.get().getDefiningOp<tile::LoadOp>();
  return isComputed && (operand.getOperandNumber() == 1 || dot.getLeftTransposed());
}

struct PipeStageOperands : impl::PipeStageOperandsBase<PipeStageOperands> {
  void runOnOperation() override {
    // In the order of the program: the first product that needs a tile brings it there for all
    // that follow in its block.
    llvm::MapVector<std::pair<Value, Block *>, SmallVector<OpOperand *>> readers;
    getOperation().walk<WalkOrder::PreOrder>([&](tile::DotOp dot) {
      for (OpOperand &operand : dot->getOpOperands())
        if (needsSharedMemory(operand))
          readers[{operand.get(), dot->getBlock()}].push_back(&operand);
    });
    for (auto &[tile, operands] : readers)
      if (failed(stage(tile.first, operands)))
        return signalPassFailure();
  }

  LogicalResult stage(Value tile, ArrayRef<OpOperand *> operands) {
    Operation *first = operands.front()->getOwner();
    if (first->getParentOfType<scf::IfOp>())
      return first->emitOpError()
             << "expected operands that are loaded, or computed in registers where the product "
                "reads them: under a branch not all threads would bring this one to shared memory";
    auto type = cast<tile::TileType>(tile.getType());
    tile::ScheduleAttr schedule = getOperation().getScheduleAttr();
    bool hasRoles = schedule->consumers > 0;
    // A work item begins with the first stage, whatever the one before ended with.
    int64_t stages = hasRoles && !schedule->persistent && first->getParentOfType<scf::ForOp>() &&
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
    if (stages > 1) // none reads this stage: write as soon as the tile is there
      builder.setInsertionPointAfter(tile.getDefiningOp());
    Value stage = arith::ConstantIntOp::create(builder, loc, stages > 1 ? stages : 0, 32);
    if (stages > 1)
      stage = arith::RemUIOp::create(builder, loc, count, stage);
    else
      pipe::BarrierOp::create(builder, loc); // all have read what stood there
    pipe::WriteOp::create(builder, loc, tile, buffer, stage);
    builder.setInsertionPoint(first);
    pipe::BarrierOp::create(builder, loc);
    Value slot = pipe::SlotOp::create(
        builder, loc, type.withEncoding(pipe::SharedAttr::get(&getContext())), buffer, stage);
    for (OpOperand *operand : operands)
      operand->set(slot);
    return success();
  }

  /// How often the body of `loop` has run in the kernel, as an i32 that it and the loops around it
  /// carry. They are replaced.
  static Value countUses(scf::ForOp loop) {
    SmallVector<scf::ForOp> loops = {loop};
    while (auto outer = loops.back()->getParentOfType<scf::ForOp>())
      loops.push_back(outer);
    OpBuilder outside(loops.back());
    Value count = arith::ConstantIntOp::create(outside, loop.getLoc(), 0, 32);
    for (scf::ForOp &each : llvm::reverse(loops)) {
      each = nvvm::carryMore(each, count);
      count = each.getRegionIterArgs().back();
    }
    Operation *yield = loops.front().getBody()->getTerminator();
    OpBuilder builder(yield);
    Value one = arith::ConstantIntOp::create(builder, loop.getLoc(), 1, 32);
    Value next = arith::AddIOp::create(builder, loop.getLoc(), count, one);
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
