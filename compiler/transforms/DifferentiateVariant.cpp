//===- DifferentiateVariant.cpp - attn-differentiate ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/Passes.h"
#include "transforms/ReverseSweep.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_ATTNDIFFERENTIATE
#include "transforms/Passes.h.inc"

namespace {

struct AttnDifferentiate : impl::AttnDifferentiateBase<AttnDifferentiate> {
  void runOnOperation() override {
    for (auto variant : llvm::to_vector(getOperation().getOps<attn::VariantOp>()))
      if (failed(differentiate(variant)))
        return signalPassFailure();
  }
};

} // namespace
} // namespace tesela
