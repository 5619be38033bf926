//===- OwnTiles.cpp - tile-own-tiles ----------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/GradientOps.h"
#include "tile/OwnedTiles.h"
#include "transforms/Passes.h"

#include "analysis/FollowsFrom.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEOWNTILES
#include "transforms/Passes.h.inc"

namespace {

struct TileOwnTiles : impl::TileOwnTilesBase<TileOwnTiles> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<tile::ScorePartialsOp> hooks;
    getOperation().walk([&](tile::ScorePartialsOp op) { hooks.push_back(op); });
    if (hooks.size() != 1)
      return;
    tile::DepositOp deposit = onlyAddition(hooks.front());
    auto blocks = dyn_cast<tile::BlocksOp>(hooks.front()->getParentOp());
    auto loop = dyn_cast_or_null<scf::ForOp>(blocks ? blocks->getParentOp() : nullptr);
    if (deposit && loop && loop->getParentOp() == getOperation() && loop.getNumResults() == 0 &&
        blocks.getNumResults() == 0 && !blocks.getAmong() && blocks.getPart().empty() &&
        isSameForAll(deposit) && isSameForAll(blocks, loop))
      own(deposit);
  }

private:
  /// The hook's addition, if it is the only one and its elements belong to one work item.
  static tile::DepositOp onlyAddition(tile::ScorePartialsOp hook) {
    SmallVector<Operation *> additions;
    hook.walk([&](Operation *op) {
      if (isa<tile::CollectOp, tile::DepositOp>(op))
        additions.push_back(op);
    });
    if (additions.size() != 1 || additions.front()->getParentOp() != hook)
      return {};
    return dyn_cast<tile::DepositOp>(additions.front());
  }

  /// Whether the indices are the same for all batches and heads that are summed.
  bool isSameForAll(tile::DepositOp deposit) {
    constexpr unsigned batch = 1, head = 2, kvHead = 3; // arguments of the hook
    Block &hook = *deposit->getBlock();
    return llvm::none_of(deposit.getIndices(), [&](Value index) {
      return followsFrom(index, [&](Value source) {
        return (sumsBatches && source == hook.getArgument(batch)) ||
               (sumsHeads &&
                (source == hook.getArgument(head) || source == hook.getArgument(kvHead)));
      });
    });
  }

  /// Whether `blocks` has the same blocks in each iteration of `loop`.
  bool isSameForAll(tile::BlocksOp blocks, scf::ForOp loop) {
    llvm::SetVector<Value> seen(blocks.getRuns().begin(), blocks.getRuns().end());
    seen.insert(blocks.getDrops().begin(), blocks.getDrops().end());
    for (size_t next = 0; next < seen.size(); ++next) {
      Value each = seen[next];
      if (each == loop.getInductionVar())
        return false;
      Operation *op = each.getDefiningOp();
      if (!op || loop.isDefinedOutsideOfLoop(each))
        continue;
      if (auto place = dyn_cast<tile::CoordinatesOp>(op)) {
        if (each == place.getBatch() ? sumsBatches : each != place.getFirst() && sumsHeads)
          return false;
        if (each != place.getFirst())
          continue;
        auto block = place.getBlock().getDefiningOp<tile::BlockOp>();
        if (block)
          seen.insert(block.getFirst());
        continue;
      }
      if (!isMemoryEffectFree(op))
        return false;
      for (Value used : valuesUsedBy(*op))
        seen.insert(used);
    }
    return true;
  }

  /// The gradient gets the element type of its tensor, whose name is the part before the last dot.
  void own(tile::DepositOp deposit) {
    tile::KernelOp kernel = getOperation();
    auto view = dyn_cast<BlockArgument>(deposit.getView());
    if (!view)
      return;
    StringRef name = kernel.getArgumentName(view.getArgNumber());
    Value tensor = kernel.getArgument(name.rsplit('.').first);
    auto type = cast<tile::ViewType>(view.getType());
    if (tensor)
      view.setType(tile::ViewType::get(&getContext(), type.getExtents(),
                                       cast<tile::ViewType>(tensor.getType()).getElementType()));
    OpBuilder builder(deposit);
    auto put = tile::PutOp::create(builder, deposit.getLoc(), builder.getF32Type(),
                                   deposit.getValue(), view, deposit.getIndices());
    deposit.replaceAllUsesWith(put.getResult());
    deposit.erase();
    kernel->setAttr(tile::ownsTilesAttr, builder.getUnitAttr());
  }
};

} // namespace
} // namespace tesela
