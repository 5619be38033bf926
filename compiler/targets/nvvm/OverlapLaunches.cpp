//===- OverlapLaunches.cpp - pipe-overlap-launches --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/EarlierLaunch.h"
#include "targets/nvvm/Passes.h"

#include "tile/GradientOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tesela {

static bool writes(Operation *access) {
  return isa<tile::AccumulateOp, tile::CollectOp, tile::DepositOp, tile::PutOp, tile::StoreOp,
             pipe::AddOutOp, pipe::EmptyOutOp, pipe::StoreOp>(access);
}

bool nvvm::readsEarlierLaunch(Value view) {
  while (Operation *place = view.getDefiningOp())
    view = place->getOperand(0);
  auto argument = cast<BlockArgument>(view);
  auto kernel = cast<tile::KernelOp>(argument.getOwner()->getParentOp());
  if (!isa<pipe::AwaitLaunchOp>(kernel.getBodyBlock().front()))
    return false;
  std::optional<tile::Role> role = kernel.getArgumentRole(argument.getArgNumber());
  // Summaries and sums of gradients are tensors of the plan. Their names have a dot:
  // "$doc.summary0".
  bool isOfPlan = role ? *role != tile::Role::In
                       : kernel.getArgumentName(argument.getArgNumber()).contains('.');
  return isOfPlan && !llvm::all_of(view.getUsers(), writes);
}

#define GEN_PASS_DEF_PIPEOVERLAPLAUNCHES
#include "targets/nvvm/Passes.h.inc"

namespace {

struct PipeOverlapLaunches : impl::PipeOverlapLaunchesBase<PipeOverlapLaunches> {
  void runOnOperation() override {
    tile::KernelOp kernel = getOperation();
    OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBodyBlock());
    if (kernel->removeAttr(followsLaunchAttr))
      pipe::AwaitLaunchOp::create(builder, kernel.getLoc());
    if (kernel->removeAttr(precedesLaunchAttr))
      pipe::ReleaseLaunchOp::create(builder, kernel.getLoc());
  }
};

} // namespace
} // namespace tesela
