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

bool hasRoles(Operation *op) {
  tile::ScheduleAttr schedule = op->getParentOfType<tile::KernelOp>().getScheduleAttr();
  return schedule && schedule.getConsumers() > 0;
}

LogicalResult verify(tile::WorkOp work) {
  tile::BlockType block = work.getBlock().getType();
  if (block.getAxis() == tile::Axis::Query || !hasRoles(work))
    return success();
  return work.emitOpError() << "expected a block of queries, got " << block
                            << "; work items of keys take consumers = 0";
}

LogicalResult verify(tile::WorkPartOp work) {
  return work.emitOpError() << "has no lowering for GPUs so far; split keys on the host";
}

LogicalResult verify(tile::BlockAtOp at) {
  tile::BlockType block = at.getBlock().getType();
  if (block.getAxis() == tile::Axis::Key || !hasRoles(at))
    return success();
  return at.emitOpError() << "expected a block of keys, got " << block
                          << "; loops over queries take consumers = 0";
}

LogicalResult verify(tile::MapOp map) {
  auto type = cast<tile::TileType>(map.getType());
  if (!type.isSingleRow())
    return success();
  return map.emitOpError() << "expected a tile of more than one row, got " << type
                           << "; values of columns are loaded, and read by other maps";
}

/// Tiles that products read go through shared memory, others straight into registers.
LogicalResult verify(tile::LoadOp load) {
  if (llvm::any_of(load->getUsers(), llvm::IsaPred<tile::DotOp>))
    return success();
  auto type = cast<tile::TileType>(load.getType());
  if (type.isSingleRow() && hasRoles(load))
    return load.emitOpError() << "expected a value for each row, got " << type
                              << "; values of columns take consumers = 0";
  if (load.getColumns())
    return load.emitOpError() << "expected all columns of the view, got a block of them, which is "
                                 "loaded for tile.dot alone";
  std::optional<int64_t> columns =
      load.getView().getType().getRank() == 4 ? load.getView().getType().getStaticExtent(3) : 8;
  if (!columns || *columns % 8 != 0)
    return load.emitOpError() << "expected a view whose columns are a multiple of 8, got "
                              << load.getView().getType();
  Type element = type.getElementType();
  if (!element.isF32() && (type.getRank() == 1 || !(element.isF16() || element.isBF16())))
    return load.emitOpError() << "expected elements f32, or f16 or bf16 of two extents, got "
                              << element;
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
    LogicalResult verified =
        llvm::TypeSwitch<Operation *, LogicalResult>(op)
            .Case<tile::BlockAtOp, tile::DotOp, tile::LoadOp, tile::MapOp, tile::StoreOp,
                  tile::WorkOp, tile::WorkPartOp>([](auto each) { return verify(each); })
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
