//===- CountRegisters.cpp - pipe-count-registers ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/TileRegisters.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPECOUNTREGISTERS
#include "targets/nvvm/Passes.h.inc"

namespace {

struct PipeCountRegisters : impl::PipeCountRegistersBase<PipeCountRegisters> {
  void runOnOperation() override {
    int64_t most = nvvm::tileRegisters(getOperation().getBodyBlock());
    getOperation()->setAttr(tileRegistersAttr, Builder(&getContext()).getI64IntegerAttr(most));
  }
};

} // namespace
} // namespace tesela
