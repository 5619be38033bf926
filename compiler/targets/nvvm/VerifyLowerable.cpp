//===- VerifyLowerable.cpp - pipe-verify-lowerable --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPEVERIFYLOWERABLE
#include "targets/nvvm/Passes.h.inc"

namespace {

LogicalResult verify(tile::WorkOp work) {
  tile::BlockType block = work.getBlock().getType();
  if (block.getAxis() == tile::Axis::Query)
    return success();
  return work.emitOpError() << "expected a block of queries, got " << block
                            << "; work items of keys run on the host alone";
}

LogicalResult verify(tile::WorkPartOp work) {
  return work.emitOpError() << "has no lowering for GPUs so far; split keys on the host";
}

LogicalResult verify(tile::BlockAtOp at) {
  tile::BlockType block = at.getBlock().getType();
  if (block.getAxis() == tile::Axis::Key)
    return success();
  return at.emitOpError() << "expected a block of keys, got " << block
                          << "; loops over queries run on the host alone";
}

/// Tiles that products read go through shared memory, others straight into registers.
LogicalResult verify(tile::LoadOp load) {
  if (llvm::any_of(load->getUsers(), llvm::IsaPred<tile::DotOp>))
    return success();
  auto type = cast<tile::TileType>(load.getType());
  if (type.isSingleRow())
    return load.emitOpError() << "expected a value for each row, got " << type
                              << "; values of columns are for the host alone";
  if (!type.getElementType().isF32())
    return load.emitOpError() << "expected elements f32, got " << type.getElementType()
                              << "; a tile of them is loaded for tile.dot alone";
  if (load.getColumns())
    return load.emitOpError() << "expected all columns of the view, got a block of them, which is "
                                 "loaded for tile.dot alone";
  if (load.getBlock().getType().getHeadCount() > 1)
    return load.emitOpError() << "expected a block of one head, got " << load.getBlock().getType()
                              << ", which is loaded for tile.dot alone";
  return success();
}

/// They leave through a buffer of 16-bit elements.
LogicalResult verify(tile::StoreOp store) {
  auto type = cast<tile::TileType>(store.getTile().getType());
  if (type.getRank() == 1 || type.getElementType().getIntOrFloatBitWidth() == 16)
    return success();
  return store.emitOpError() << "expected a tile of 16-bit elements, got " << type
                             << "; convert it with tile.convert, or run it on the host";
}

LogicalResult verify(tile::DotOp dot) {
  if (dot.getLeftTransposed())
    return dot.emitOpError() << "expected a left operand that is not transposed; compute the "
                                "product's transpose, or run it on the host";
  Type element = cast<tile::TileType>(dot.getA().getType()).getElementType();
  if (element.isF16() || element.isBF16())
    return success();
  return dot.emitOpError() << "expected operands f16 or bf16, got " << element
                           << "; convert them with tile.convert";
}

} // namespace

LogicalResult verifyLowerable(tile::KernelOp kernel) {
  WalkResult result = kernel.walk([](Operation *op) {
    LogicalResult verified = llvm::TypeSwitch<Operation *, LogicalResult>(op)
                                 .Case<tile::BlockAtOp, tile::DotOp, tile::LoadOp, tile::StoreOp, tile::WorkOp,
                  tile::WorkPartOp>(
                                     [](auto each) { return verify(each); })
                                 .Default([](Operation *) { return success(); });
    return failed(verified) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

namespace {

struct PipeVerifyLowerable : impl::PipeVerifyLowerableBase<PipeVerifyLowerable> {
  void runOnOperation() override {
    if (failed(verifyLowerable(getOperation())))
      signalPassFailure();
  }
};

} // namespace
} // namespace tesela
