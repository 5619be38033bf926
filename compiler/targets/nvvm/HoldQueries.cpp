//===- HoldQueries.cpp - pipe-hold-queries ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/ProductChain.h"
#include "targets/nvvm/ProductShares.h"
#include "tile/Extents.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPEHOLDQUERIES
#include "targets/nvvm/Passes.h.inc"

namespace {

/// Whether the product multiplies the rows of a tile that a loop's iterations share with the rows
/// of a tile that each iteration has anew.
bool isOfQueries(tile::DotOp dot) {
  auto loop = dot->getParentOfType<scf::ForOp>();
  pipe::SlotOp queries = stageOf(dot.getA()), keys = stageOf(dot.getB());
  return loop && queries && keys && dot.getTransposed() && !dot.getLeftTransposed() &&
         !loop->isAncestor(queries) && loop->isAncestor(keys);
}

/// The columns of `slot`'s tile from `first` on.
Value columnsOf(pipe::SlotOp slot, int64_t first, int64_t count) {
  OpBuilder builder(slot);
  builder.setInsertionPointAfter(slot);
  auto type = cast<tile::TileType>(slot.getType());
  auto part = tile::TileType::get(
      builder.getContext(), {type.getExtents()[0], tile::getExtent(builder.getContext(), count)},
      type.getElementType(), type.getEncoding());
  return pipe::SlotOp::create(builder, slot.getLoc(), part, slot.getBuffer(), slot.getStage(),
                              slot.getFirstColumn() + first);
}

struct PipeHoldQueries : impl::PipeHoldQueriesBase<PipeHoldQueries> {
  void runOnOperation() override {
    tile::KernelOp kernel = getOperation();
    tile::ScheduleAttr chosen = kernel.getScheduleAttr();
    bool hasRoles = false;
    kernel.walk([&](pipe::RolesOp) { hasRoles = true; });
    if (!chosen || chosen->queryPanels == 0 || !hasRoles)
      return;
    const Schedule &schedule = chosen.getChoices();
    SmallVector<tile::DotOp> products;
    kernel.walk([&](tile::DotOp dot) {
      if (isOfQueries(dot))
        products.push_back(dot);
    });
    if (products.empty()) {
      kernel.emitOpError() << "expected, with query_panels = " << schedule.queryPanels
                           << ", a loop with a product of queries and keys that is awaited where "
                              "it starts, got none; leave query_panels out";
      return signalPassFailure();
    }
    for (tile::DotOp dot : products)
      if (failed(hold(dot, schedule)))
        return signalPassFailure();
  }

  LogicalResult hold(tile::DotOp dot, const Schedule &schedule) {
    pipe::SlotOp queries = stageOf(dot.getA()), keys = stageOf(dot.getB());
    auto type = cast<tile::TileType>(queries.getType());
    int64_t held = queries.getBuffer().getType().getPanelColumns() * schedule.queryPanels;
    int64_t rest = type.getExtent(1) - held;
    if (rest <= 0)
      return dot.emitOpError() << "expected queries of more than " << held
                               << " columns (query_panels = " << schedule.queryPanels << "), got "
                               << type << "; take fewer panels";
    Value first = columnsOf(queries, 0, held);
    OpBuilder builder(first.getContext());
    builder.setInsertionPointAfterValue(first);
    auto firstType = cast<tile::TileType>(first.getType());
    auto operand = pipe::OperandAttr::get(builder.getContext(), nvvm::rowWarps(type, schedule));
    Value registers =
        pipe::ConvertOp::create(builder, dot.getLoc(), firstType.withEncoding(operand), first);
    Value others = columnsOf(queries, held, rest);
    Value keysOfFirst = columnsOf(keys, 0, held), keysOfOthers = columnsOf(keys, held, rest);
    builder.setInsertionPoint(dot);
    auto product = [&](Value a, Value b, Value c) -> Value {
      return tile::DotOp::create(builder, dot.getLoc(), dot.getType(), a, b, c,
                                 /*left_transposed=*/false, /*transposed=*/true);
    };
    Value sum = product(registers, keysOfFirst, dot.getC());
    dot.replaceAllUsesWith(product(others, keysOfOthers, sum));
    dot.erase();
    for (pipe::SlotOp slot : {queries, keys})
      if (slot->use_empty())
        slot.erase();
    return success();
  }
};

} // namespace
} // namespace tesela
