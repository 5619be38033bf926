//===- FindBlocks.cpp - find_blocks and found_block on the host -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela {

/// A finder whose lanes are iterations of a loop and whose memory is on the stack.
class KernelLowering::Finder : public FinderTarget {
public:
  Finder(KernelLowering &lowering, Value memory) : lowering(lowering), memory(memory) {}

  Value load(Value index) override {
    return builder().load(builder().getI32Type(), address(index));
  }
  void store(Value word, Value index) override { builder().store(word, address(index)); }

  std::pair<Value, Value> testLanes(Test test) override {
    CodeBuilder &b = builder();
    Value zero = b.i32(0);
    auto loop = scf::ForOp::create(b, zero, b.i32(32), b.i32(1), ValueRange{zero, zero});
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value lane = loop.getInductionVar();
    auto [keeps, drops] = test(lane);
    SmallVector<Value> masks;
    for (auto [bit, mask] :
         {std::pair(keeps, loop.getRegionIterArg(0)), {drops, loop.getRegionIterArg(1)}}) {
      Value wide = arith::ExtUIOp::create(b, b.getI32Type(), bit);
      masks.push_back(arith::OrIOp::create(b, mask, arith::ShLIOp::create(b, wide, lane)));
    }
    scf::YieldOp::create(b, masks);
    return {loop.getResult(0), loop.getResult(1)};
  }

  void forEachLane(llvm::function_ref<void(Value)> body) override {
    CodeBuilder &b = builder();
    auto loop = scf::ForOp::create(b, b.i32(0), b.i32(32), b.i32(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }

  std::pair<Value, Value> inlineTest(Region &test, Value first, Value last) override {
    Block &block = test.front();
    lowering.scalars_.map(block.getArgument(0), first);
    lowering.scalars_.map(block.getArgument(1), last);
    failed_ |= failed(lowering.lowerBlock(block));
    Operation *yield = block.getTerminator();
    return {lowering.scalars_.lookupOrDefault(yield->getOperand(0)),
            lowering.scalars_.lookupOrDefault(yield->getOperand(1))};
  }

  LogicalResult result() const { return failure(failed_); }

private:
  CodeBuilder &builder() { return lowering.builder_; }
  Value address(Value index) {
    Value wide = arith::ExtUIOp::create(builder(), builder().getI64Type(), index);
    return builder().address(memory, builder().getI32Type(), wide);
  }

  KernelLowering &lowering;
  Value memory;
  bool failed_ = false;
};

LogicalResult KernelLowering::lowerFindBlocks(tile::FindBlocksOp op) {
  Value memory;
  {
    OpBuilder::InsertionGuard guard(builder_);
    Region *function = builder_.getInsertionBlock()->getParent();
    while (!isa<LLVM::LLVMFuncOp>(function->getParentOp()))
      function = function->getParentRegion();
    builder_.setInsertionPointToStart(&function->front());
    memory = LLVM::AllocaOp::create(builder_, builder_.pointerType(), builder_.getI32Type(),
                                    builder_.i64(BlockFinder::memoryWords));
  }
  Finder target(*this, memory);
  bool isOfKeys = op.getFound().getType().getAxis() == tile::Axis::Key;
  Value below = op.getBelow() ? scalar(op.getBelow()) : isOfKeys ? extents_.Sk : extents_.Sq;
  BlockFinder finder(builder_, op.getLoc(), op, target, scalar(op.getLow()), scalar(op.getHigh()),
                     below);
  scalars_.map(op.getCount(), finder.count());
  finders_.insert({op.getFound(), {finder, memory}});
  return target.result();
}

LogicalResult KernelLowering::lowerFoundBlock(tile::FoundBlockOp op) {
  auto &[finder, memory] = finders_.find(op.getFound())->second;
  Finder target(*this, memory);
  auto [index, partial] = finder.block(op.getLoc(), target, scalar(op.getNumber()));
  scalars_.map(op.getIndex(), index);
  scalars_.map(op.getPartial(), partial);
  return target.result();
}

} // namespace tesela
