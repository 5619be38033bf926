//===- SumByProduct.cpp - tile-sum-by-product -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/Extents.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILESUMBYPRODUCT
#include "transforms/Passes.h.inc"

namespace {

/// The op `Op` that alone uses `value`, or null.
template <typename Op> Op onlyUser(Value value) {
  return value.hasOneUse() ? dyn_cast<Op>(*value.user_begin()) : Op();
}

/// A loop of the online softmax: what its step's sum and its product are carried by.
struct SoftmaxLoop {
  scf::ForOp loop;
  tile::SoftmaxStepOp step;
  tile::RescaleOp rescale;
  tile::DotOp dot;
  tile::FinishOp finish;
  unsigned sum, output; ///< numbers of carried values
};

struct TileSumByProduct : impl::TileSumByProductBase<TileSumByProduct> {
  void runOnOperation() override {
    tile::ScheduleAttr schedule = getOperation().getScheduleAttr();
    if (!schedule || schedule.getRowSums() != tile::RowSums::Product)
      return;
    SmallVector<tile::SoftmaxStepOp> steps;
    getOperation().walk([&](tile::SoftmaxStepOp step) { steps.push_back(step); });
    for (tile::SoftmaxStepOp step : steps) {
      std::optional<SoftmaxLoop> found = find(step);
      if (!found) {
        step.emitOpError()
            << "expected row_sums = product to find a loop whose product with p adds "
               "to a carried accumulator that starts from zero and is rescaled by α, "
               "and a tile.finish of both; write it so, or take row_sums = registers";
        return signalPassFailure();
      }
      sumByProduct(*found);
    }
  }

  /// Nothing where the loop is not of the form that Passes.td shows.
  static std::optional<SoftmaxLoop> find(tile::SoftmaxStepOp step) {
    SoftmaxLoop parts;
    parts.step = step;
    parts.loop = dyn_cast<scf::ForOp>(step->getParentOp());
    auto rounded = onlyUser<tile::ConvertOp>(step.getP());
    parts.dot = rounded ? onlyUser<tile::DotOp>(rounded.getResult()) : tile::DotOp();
    if (!parts.loop || !parts.dot || parts.dot.getA() != rounded.getResult())
      return std::nullopt;
    parts.rescale = parts.dot.getC().getDefiningOp<tile::RescaleOp>();
    if (!parts.rescale || parts.rescale.getBy() != step.getAlpha() ||
        !parts.rescale.getResult().hasOneUse())
      return std::nullopt;
    std::optional<unsigned> sum = carried(parts.loop, step.getL(), step.getNextL());
    std::optional<unsigned> output =
        carried(parts.loop, parts.rescale.getSource(), parts.dot.getResult());
    if (!sum || !output)
      return std::nullopt;
    parts.sum = *sum;
    parts.output = *output;
    auto start = parts.loop.getInitArgs()[*output].getDefiningOp<tile::ConstantOp>();
    parts.finish = onlyUser<tile::FinishOp>(parts.loop.getResult(*output));
    if (!start || !start.getValue().isZero() || !parts.finish ||
        onlyUser<tile::FinishOp>(parts.loop.getResult(*sum)) != parts.finish ||
        parts.finish.getO() != parts.loop.getResult(*output))
      return std::nullopt;
    return parts;
  }

  /// The number of the carried value that is `before` in the body, which alone reads it, and
  /// `after` behind it.
  static std::optional<unsigned> carried(scf::ForOp loop, Value before, Value after) {
    auto argument = dyn_cast<BlockArgument>(before);
    if (!argument || argument.getOwner() != loop.getBody() || !before.hasOneUse() ||
        !onlyUser<scf::YieldOp>(after))
      return std::nullopt;
    unsigned number = after.use_begin()->getOperandNumber();
    if (loop.getRegionIterArgs()[number] != argument)
      return std::nullopt;
    return number;
  }

  static void sumByProduct(SoftmaxLoop &parts) {
    scf::ForOp loop = parts.loop;
    auto narrow = cast<tile::TileType>(parts.dot.getType());
    SmallVector<Attribute> extents(narrow.getExtents());
    extents[1] =
        tile::getExtent(narrow.getContext(), narrow.getExtent(1) + tile::DotOp::sumColumns);
    auto wide = tile::TileType::get(narrow.getContext(), extents, narrow.getElementType(),
                                    /*encoding=*/Attribute());
    OpBuilder builder(loop);
    Location loc = loop.getLoc();

    // The loop without its sum, the output with more columns.
    SmallVector<Value> inits(loop.getInitArgs());
    inits[parts.output] = tile::ConstantOp::create(builder, loc, wide, builder.getF32FloatAttr(0));
    Value unused = inits[parts.sum];
    inits.erase(inits.begin() + parts.sum);
    auto summed = scf::ForOp::create(builder, loc, loop.getLowerBound(), loop.getUpperBound(),
                                     loop.getStep(), inits);
    Block *body = summed.getBody();
    body->getOperations().splice(body->end(), loop.getBody()->getOperations());
    body->getTerminator()->eraseOperand(parts.sum);
    loop.getInductionVar().replaceAllUsesWith(summed.getInductionVar());
    auto split =
        tile::SplitRowSumsOp::create(builder, loc, narrow, parts.step.getL().getType(),
                                     summed.getResult(parts.output - (parts.sum < parts.output)));
    unsigned next = 0;
    for (unsigned number = 0; number < loop.getNumResults(); ++number) {
      Value argument = loop.getRegionIterArgs()[number], result = loop.getResult(number);
      if (number == parts.sum) {
        argument.replaceAllUsesWith(unused);
        result.replaceAllUsesWith(split.getSums());
        continue;
      }
      argument.replaceAllUsesWith(summed.getRegionIterArgs()[next]);
      result.replaceAllUsesWith(number == parts.output ? split.getProduct()
                                                       : summed.getResult(next));
      ++next;
    }
    loop.erase();

    parts.step.setWithoutSum(true);
    parts.rescale.getResult().setType(wide);
    parts.dot.getResult().setType(wide);
    parts.dot.setRowSums(true);
    parts.finish.setWholeSums(true);
  }
};

} // namespace
} // namespace tesela
