//===- LowerRoles.cpp - Roles, channels, tensor copies ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

// A channel is its full barriers, then its empty ones.
static constexpr int64_t barrierBytes = 8, panelColumns = 64, panelRowBytes = 128;

void KernelLowering::initChannels() {
  Value isFirst =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, thread, constant(0));
  auto branch = scf::IfOp::create(builder, loc, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  kernel.walk([&](pipe::OpenOp open) {
    Value base = valueOf(open);
    int64_t stages = open.getChannel().getType().getStages();
    for (int64_t stage = 0; stage < stages; ++stage) {
      ptx().initBarrier(base, stage * barrierBytes, 1); // the producer, with its bytes
      ptx().initBarrier(base, (stages + stage) * barrierBytes, 4 * consumers); // each warp
    }
  });
  ptx().fenceBarrierInit();
}

LogicalResult KernelLowering::lowerRoles(pipe::RolesOp op) {
  Location outer = loc;
  initChannels();
  ptx().barrier();
  // The warpgroup's number is the same in a warp; the shuffle tells the compiler so.
  Value warpgroup = ptx().uniform(arith::ShRUIOp::create(builder, loc, thread, constant(7)));
  Value isProducer =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, warpgroup, constant(0));
  auto branch = scf::IfOp::create(builder, loc, isProducer, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);

  builder.setInsertionPointToStart(branch.thenBlock());
  ptx().setRegisters(op.getProducerRegisters(), /*increase=*/false);
  Value isFirst =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, thread, constant(0));
  auto one = scf::IfOp::create(builder, loc, isFirst, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(one.thenBlock());
  if (failed(lowerBlock(op.getProducer().front())))
    return failure();

  loc = outer;
  builder.setInsertionPointToStart(branch.elseBlock());
  ptx().setRegisters(op.getConsumerRegisters(), /*increase=*/true);
  numberThreads(arith::SubIOp::create(builder, loc, thread, constant(128)));
  if (failed(lowerBlock(op.getConsumers().front())))
    return failure();
  loc = outer;
  return success();
}

std::pair<Value, Value> KernelLowering::channelUse(Value channel, Value use, bool isFull) {
  int64_t stages = cast<pipe::ChannelType>(channel.getType()).getStages();
  Value number = valueOf(use), count = constant(stages);
  Value stage = arith::RemUIOp::create(builder, loc, number, count);
  Value phase = arith::DivUIOp::create(builder, loc, number, count);
  Value address = add(valueOf(channel), multiply(stage, constant(barrierBytes)));
  if (!isFull)
    address = add(address, constant(stages * barrierBytes));
  return {address, arith::AndIOp::create(builder, loc, phase, constant(1))};
}

/// At first every stage is empty: the phase before the first counts as complete, and its parity
/// is 1.
void KernelLowering::lowerAcquire(pipe::AcquireOp op) {
  auto [address, parity] = channelUse(op.getChannel(), op.getUse(), /*isFull=*/false);
  ptx().awaitBarrier(address, arith::XOrIOp::create(builder, loc, parity, constant(1)));
}

void KernelLowering::lowerAwait(pipe::AwaitOp op) {
  auto [address, parity] = channelUse(op.getChannel(), op.getUse(), /*isFull=*/true);
  ptx().awaitBarrier(address, parity);
}

void KernelLowering::lowerRelease(pipe::ReleaseOp op) {
  ptx().arrive(channelUse(op.getChannel(), op.getUse(), /*isFull=*/false).first, lane);
}

Values KernelLowering::tensorCoordinates(Value view, const BlockCoordinates &block, int64_t column,
                                         Value row) {
  unsigned map = viewOf(view).tensorMap;
  return {constant(column), add(block.first, row), multiply(block.head, slots[map + 2]),
          multiply(block.batch, slots[map + 1])};
}

void KernelLowering::lowerFill(pipe::FillOp op) {
  auto buffer = op.getBuffer().getType();
  Value barrier = channelUse(op.getChannel(), op.getUse(), /*isFull=*/true).first;
  Value stage =
      arith::RemUIOp::create(builder, loc, valueOf(op.getUse()), constant(buffer.getStages()));
  Value target = stageAddress(op.getBuffer(), stage);
  ptx().arriveExpecting(barrier, buffer.getStageBytes());
  Value map = slots[viewOf(op.getView()).tensorMap];
  for (int64_t column = 0; column < buffer.getColumns(); column += panelColumns) {
    int64_t offset = column / panelColumns * buffer.getRows() * panelRowBytes;
    ptx().copyTensorIn(add(target, constant(offset)), map,
                       tensorCoordinates(op.getView(), blockOf(op.getBlock()), column, constant(0)),
                       barrier);
  }
}

void KernelLowering::lowerEmptyOut(pipe::EmptyOutOp op) {
  auto buffer = op.getBuffer().getType();
  ptx().fenceAsyncProxy();
  Value warpgroup = arith::ShRUIOp::create(builder, loc, thread, constant(7));
  // Barrier 0 is the thread block's.
  ptx().barrier(add(warpgroup, constant(1)), 128);
  Value threadOfGroup = arith::AndIOp::create(builder, loc, thread, constant(127));
  Value isFirst =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, threadOfGroup, constant(0));
  auto branch = scf::IfOp::create(builder, loc, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value row = multiply(warpgroup, constant(64));
  Value source = add(valueOf(op.getBuffer()), multiply(row, constant(panelRowBytes)));
  Value map = slots[viewOf(op.getView()).tensorMap];
  for (int64_t column = 0; column < buffer.getColumns(); column += panelColumns) {
    int64_t offset = column / panelColumns * buffer.getRows() * panelRowBytes;
    ptx().copyTensorOut(map, tensorCoordinates(op.getView(), blockOf(op.getBlock()), column, row),
                        add(source, constant(offset)));
  }
  ptx().commitTensorCopies();
  ptx().awaitTensorReads();
}

} // namespace tesela::nvvm
