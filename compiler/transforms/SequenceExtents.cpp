//===- SequenceExtents.cpp - tile-sequence-extents --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Dominance.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILESEQUENCEEXTENTS
#include "transforms/Passes.h.inc"

namespace {

struct TileSequenceExtents : impl::TileSequenceExtentsBase<TileSequenceExtents> {
  void runOnOperation() override {
    SmallVector<tile::SequenceOp> sequences;
    getOperation().walk([&](tile::SequenceOp op) { sequences.push_back(op); });
    if (sequences.empty())
      return;
    if (sequences.size() > 1) {
      sequences[1].emitOpError() << "expected one in a kernel, got " << sequences.size();
      return signalPassFailure();
    }
    tile::SequenceOp sequence = sequences.front();
    OpBuilder builder(&getContext());
    builder.setInsertionPoint(sequence);
    Value queries = arith::AddIOp::create(builder, sequence.getLoc(), sequence.getFrom(),
                                          sequence.getQueries());
    DominanceInfo dominance(getOperation());
    SmallVector<tile::ExtentOp> extents;
    getOperation().walk([&](tile::ExtentOp extent) {
      if (!extent.getOfLaunch() && (extent.getName() == "Sq" || extent.getName() == "Sk"))
        extents.push_back(extent);
    });
    for (tile::ExtentOp extent : extents) {
      if (!dominance.properlyDominates(sequence.getOperation(), extent)) {
        extent.emitOpError()
            << "expected to stand behind tile.sequence, which gives Sq and Sk, or to be "
               "`of_launch`";
        return signalPassFailure();
      }
      extent.replaceAllUsesWith(extent.getName() == "Sq" ? queries : sequence.getKeys());
      extent.erase();
    }
  }
};

} // namespace
} // namespace tesela
