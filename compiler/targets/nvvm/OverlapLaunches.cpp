//===- OverlapLaunches.cpp - A launch begins while one ends -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/Passes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tesela {

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
