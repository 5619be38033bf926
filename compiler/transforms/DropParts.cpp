//===- DropParts.cpp - tile-drop-parts --------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/Passes.h"
#include "transforms/UnusedArguments.h"

#include "tile/Extents.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEDROPPARTS
#include "transforms/Passes.h.inc"

namespace {

/// The work map of a kernel whose query heads are dealt to a single worker; null if there is none.
tile::WorkOp singleWorkOf(tile::KernelOp kernel) {
  for (auto work : kernel.getBodyBlock().getOps<tile::WorkOp>())
    if (Attribute workers = work.getWorkersAttr(); workers && tile::staticExtent(workers) == 1)
      return work;
  return {};
}

/// Replaces scalar ops of the kernel's own block by constants where all operands are known.
void foldScalars(tile::KernelOp kernel) {
  for (Operation &op : llvm::make_early_inc_range(kernel.getBodyBlock())) {
    if (op.getNumResults() != 1 || !op.getResult(0).getType().isIntOrIndex() ||
        op.hasTrait<OpTrait::ConstantLike>())
      continue;
    OpBuilder builder(&op);
    SmallVector<Value> folded;
    if (failed(builder.tryFold(&op, folded)) || folded.empty())
      continue;
    op.getResult(0).replaceAllUsesWith(folded.front());
    op.erase();
  }
}

/// Whether `rows` are all rows of the work item's block `keys`.
bool isWhole(tile::BlockOp rows, Value keys) {
  auto place = rows.getFirst().getDefiningOp<tile::CoordinatesOp>();
  auto end = rows.getEnd() ? rows.getEnd().getDefiningOp<tile::ExtentOp>() : tile::ExtentOp();
  return rows.getOf() == keys && !rows.getBatch() && !rows.getHead() && place &&
         place.getBlock() == keys && rows.getFirst() == place.getFirst() && end &&
         end.getName() == "Sk";
}

struct TileDropParts : impl::TileDropPartsBase<TileDropParts> {
  void runOnOperation() override {
    for (auto kernel : llvm::make_early_inc_range(getOperation().getOps<tile::KernelOp>())) {
      tile::WorkOp work = singleWorkOf(kernel);
      if (work && work.getJoined())
        kernel.erase();
      else if (work)
        drop(kernel, work);
    }
  }

  static void drop(tile::KernelOp kernel, tile::WorkOp work) {
    work.removeWorkersAttr();
    auto replace = [](Operation *op, int64_t value) {
      OpBuilder builder(op);
      op->getResult(0).replaceAllUsesWith(
          arith::ConstantIntOp::create(builder, op->getLoc(), value, 32).getResult());
      op->erase();
    };
    kernel.walk([&](Operation *op) {
      auto parts = dyn_cast<tile::HeadPartsOp>(op);
      if (parts && tile::staticExtent(parts.getWorkers()) == 1)
        replace(op, 1);
      else if (isa<tile::WorkPartOp>(op))
        replace(op, 0);
    });
    foldScalars(kernel);
    Block &body = kernel.getBodyBlock();
    for (auto store : llvm::make_early_inc_range(body.getOps<tile::StoreOp>())) {
      auto rows = store.getBlock().getDefiningOp<tile::BlockOp>();
      if (rows && rows.getEnd() && matchPattern(rows.getEnd(), m_Zero()))
        store.erase();
      else if (rows && isWhole(rows, work.getBlock()))
        store.getBlockMutable().assign(work.getBlock());
    }
    eraseUnusedArguments(kernel);
  }
};

} // namespace
} // namespace tesela
