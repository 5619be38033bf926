//===- FindBlocks.cpp - find_blocks and found_block, by a warp --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/FoundRing.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

/// A finder whose lanes are those of a warp and whose memory is shared memory.
class KernelLowering::Finder : public FinderTarget {
public:
  Finder(KernelLowering &lowering, Value memory) : lowering(lowering), memory(memory) {}

  Value load(Value index) override {
    Type i32 = lowering.builder.getI32Type();
    return LLVM::LoadOp::create(lowering.builder, lowering.loc, i32, address(index),
                                /*alignment=*/4, /*isVolatile=*/true);
  }
  void store(Value word, Value index) override {
    LLVM::StoreOp::create(lowering.builder, lowering.loc, word, address(index), /*alignment=*/4,
                          /*isVolatile=*/true);
  }
  void storeOnce(Value word, Value index) override {
    lowering.onLaneZero([&] { store(word, index); });
  }
  void agree() override { NVVM::SyncWarpOp::create(lowering.builder, lowering.loc, all()); }

  std::pair<Value, Value> testLanes(Test test) override {
    auto [keeps, drops] = test(lowering.lane);
    return {ballot(keeps), ballot(drops)};
  }
  void forEachLane(llvm::function_ref<void(Value)> body) override { body(lowering.lane); }

  std::pair<Value, Value> inlineTest(Region &test, Value first, Value last) override {
    Block &block = test.front();
    lowering.values[block.getArgument(0)] = {first};
    lowering.values[block.getArgument(1)] = {last};
    failed_ |= failed(lowering.lowerBlock(block));
    Operation *yield = block.getTerminator();
    return {lowering.valueOf(yield->getOperand(0)), lowering.valueOf(yield->getOperand(1))};
  }

  LogicalResult result() const { return failure(failed_); }

private:
  Value all() { return lowering.constant(-1); }
  Value ballot(Value bit) {
    return NVVM::VoteSyncOp::create(lowering.builder, lowering.loc, lowering.builder.getI32Type(),
                                    all(), bit, NVVM::VoteSyncKind::ballot);
  }
  Value address(Value index) {
    Value bytes = lowering.add(memory, lowering.multiply(index, lowering.constant(4)));
    auto shared = LLVM::LLVMPointerType::get(lowering.builder.getContext(),
                                             unsigned(NVVM::NVVMMemorySpace::Shared));
    return LLVM::IntToPtrOp::create(lowering.builder, lowering.loc, shared, bytes);
  }

  KernelLowering &lowering;
  Value memory;
  bool failed_ = false;
};

LogicalResult KernelLowering::lowerFindBlocks(tile::FindBlocksOp op) {
  int64_t offset = op->getAttrOfType<IntegerAttr>(finderOffsetAttr).getInt();
  Value memory = add(sharedBase, constant(offset));
  if (consumers == 0)
    memory = add(memory, multiply(warp, constant(4 * BlockFinder::memoryWords)));
  Finder target(*this, memory);
  bool isOfKeys = op.getFound().getType().getAxis() == tile::Axis::Key;
  Value below = op.getBelow() ? valueOf(op.getBelow()) : isOfKeys ? extents().Sk : extents().Sq;
  BlockFinder finder(builder, loc, op, target, valueOf(op.getLow()), valueOf(op.getHigh()), below);
  values[op.getCount()] = {finder.count()};
  finders.insert({op.getFound(), {finder, memory}});
  return target.result();
}

LogicalResult KernelLowering::lowerFoundBlock(tile::FoundBlockOp op) {
  auto &[finder, memory] = finders.find(op.getFound())->second;
  Finder target(*this, memory);
  Value number = valueOf(op.getNumber());
  auto [index, partial] = op->hasAttr(soughtAttr) ? readFound(builder, loc, target, number)
                                                  : finder.block(loc, target, number);
  values[op.getIndex()] = {index};
  values[op.getPartial()] = {partial};
  return target.result();
}

} // namespace tesela::nvvm
