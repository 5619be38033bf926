//===- LowerBounds.cpp - tile-lower-bounds ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/Extents.h"
#include "transforms/CaptureSummary.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/MapVector.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILELOWERBOUNDS
#include "transforms/Passes.h.inc"

namespace {

/// Up to this many granules of a line are read without a loop, so that their latencies overlap. If
/// a box has more of level 0, level 1 is read; if it has more of level 1, a loop reads them.
constexpr int64_t maxGranulesOfLine = 16;
/// The limit for all lines of a box together. If there are more granules, a loop reads the lines.
constexpr int64_t maxGranules = 32;

/// The keys of the least and of the largest element.
struct KeyBounds {
  Value least, largest;
};

/// The granules of an axis that a box touches: `first` to `last`.
struct GranuleRange {
  Value first, last;
  int64_t count; ///< an upper bound of their number; 0: not known
};

/// The largest number of granules of `size` that `within` neighbours can touch; 0: not known.
int64_t granulesWithin(int64_t within, int64_t size) {
  if (within <= 1)
    return within;
  return (within + size - 2) / size + 1;
}

/// Writes one tile.bounds as reads of a summary.
class BoundsEmitter {
public:
  BoundsEmitter(tile::BoundsOp op, const CaptureSummary &summary)
      : op(op), builder(op), loc(op.getLoc()), summary(summary) {}

  /// The level of the summary that the op reads.
  int64_t level() {
    int64_t within = op.getWithin()[summary.axes.back()];
    int64_t count = granulesWithin(within, granuleColumns);
    return count == 0 || count > maxGranulesOfLine ? 1 : 0;
  }

  /// `view` is the summary's argument for that level.
  void emit(Value view) {
    this->view = view;
    SmallVector<Value> indices = {Value()}; // the plane
    bool hasRows = summary.rows != 1;
    for (int64_t axis : ArrayRef(summary.axes).drop_back(hasRows ? 2 : 1))
      indices.push_back(clamped(op.getLow()[axis], indices.size()));
    indices.resize(summary.axes.size() + 1); // the rest are granules
    int64_t columns = level() == 0 ? granuleColumns : granuleColumns * granulesOfGroup;
    GranuleRange column = range(summary.axes.back(), columns, indices.size() - 1);
    auto line = [&]() {
      return over(column, column.count != 0 && column.count <= maxGranulesOfLine, [&](Value index) {
        indices.back() = index;
        return read(indices);
      });
    };
    KeyBounds keys;
    if (!hasRows) {
      keys = line();
    } else {
      GranuleRange row = range(summary.axes.end()[-2], summary.rows, indices.size() - 2);
      bool unrolled = row.count * column.count != 0 && row.count * column.count <= maxGranules;
      keys = over(row, unrolled, [&](Value index) {
        indices.end()[-2] = index;
        return line();
      });
    }
    op.getLeast().replaceAllUsesWith(decode(keys.least));
    op.getLargest().replaceAllUsesWith(decode(keys.largest));
    op.erase();
  }

private:
  Value constant(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }

  /// `index`, clamped to the axis of the summary; 0 if the axis has no granules.
  Value clamped(Value index, int64_t viewAxis) {
    Value extent = tile::ViewExtentOp::create(builder, loc, builder.getI32Type(), view,
                                              builder.getI64IntegerAttr(viewAxis));
    Value last = arith::SubIOp::create(builder, loc, extent, constant(1));
    Value below = arith::MinSIOp::create(builder, loc, index, last);
    return arith::MaxSIOp::create(builder, loc, below, constant(0));
  }

  GranuleRange range(int64_t axis, int64_t size, int64_t viewAxis) {
    auto granule = [&](Value index) -> Value {
      Value shift = constant(llvm::Log2_64(size));
      return clamped(arith::ShRSIOp::create(builder, loc, index, shift), viewAxis);
    };
    return {granule(op.getLow()[axis]), granule(op.getHigh()[axis]),
            granulesWithin(op.getWithin()[axis], size)};
  }

  KeyBounds join(const KeyBounds &a, const KeyBounds &b) {
    return {arith::MinSIOp::create(builder, loc, a.least, b.least),
            arith::MaxSIOp::create(builder, loc, a.largest, b.largest)};
  }

  /// Joins the results of `each` over the granules of the range.
  KeyBounds over(const GranuleRange &range, bool unrolled,
                 llvm::function_ref<KeyBounds(Value)> each) {
    if (unrolled) {
      KeyBounds bounds = each(range.first);
      for (int64_t i = 1; i < range.count; ++i) {
        Value next = arith::AddIOp::create(builder, loc, range.first, constant(i));
        bounds = join(bounds, each(arith::MinSIOp::create(builder, loc, next, range.last)));
      }
      return bounds;
    }
    Value high = arith::AddIOp::create(builder, loc, range.last, constant(1));
    Value none[] = {constant(std::numeric_limits<int32_t>::max()),
                    constant(std::numeric_limits<int32_t>::min())};
    auto loop = scf::ForOp::create(builder, loc, range.first, high, constant(1), none);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    KeyBounds bounds =
        join({loop.getRegionIterArg(0), loop.getRegionIterArg(1)}, each(loop.getInductionVar()));
    scf::YieldOp::create(builder, loc, ValueRange{bounds.least, bounds.largest});
    return {loop.getResult(0), loop.getResult(1)};
  }

  KeyBounds read(SmallVector<Value> indices) {
    auto plane = [&](int64_t number) -> Value {
      indices.front() = constant(number);
      auto read = tile::ReadOp::create(builder, loc, builder.getI32Type(), view, indices);
      read.setCovered(true); // its indices are clamped, and a summary has no gaps
      return read;
    };
    Value least = plane(0);
    return {least, plane(1)};
  }

  /// The element that has this key.
  Value decode(Value key) {
    if (!op.getLeast().getType().isF32())
      return key;
    Value sign = arith::ShRSIOp::create(builder, loc, key, constant(31));
    Value belowSign = constant(std::numeric_limits<int32_t>::max());
    Value turned = arith::AndIOp::create(builder, loc, sign, belowSign);
    Value bits = arith::XOrIOp::create(builder, loc, key, turned);
    return arith::BitcastOp::create(builder, loc, builder.getF32Type(), bits);
  }

  tile::BoundsOp op;
  OpBuilder builder;
  Location loc;
  const CaptureSummary &summary;
  Value view;
};

/// Writes one tile.has_element: loops over the axes in which the box extends, if the box is small.
class ElementsEmitter {
public:
  explicit ElementsEmitter(tile::HasElementOp op) : op(op), builder(op), loc(op.getLoc()) {}

  void emit() {
    Value count = constant(1), most = constant(tile::HasElementOp::mostElements);
    for (auto [low, high] : llvm::zip(op.getLow(), op.getHigh())) {
      indices.push_back(low);
      if (low == high)
        continue;
      axes.push_back(indices.size() - 1);
      // As an unsigned number the difference is right, whatever the ends are.
      Value further = arith::SubIOp::create(builder, loc, high, low);
      further = arith::MinUIOp::create(builder, loc, further, most);
      extents.push_back(arith::AddIOp::create(builder, loc, further, constant(1)));
      count = arith::MulIOp::create(builder, loc, count, extents.back());
    }
    Value isSmall = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, count, most);
    auto branch = scf::IfOp::create(builder, loc, builder.getI1Type(), isSmall,
                                    /*withElseRegion=*/true);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, over(0));
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, truth(true));
    op.replaceAllUsesWith(branch.getResult(0));
    op.erase();
  }

private:
  Value constant(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value truth(bool value) { return arith::ConstantIntOp::create(builder, loc, value, 1); }

  /// Whether an element lies in the interval. Loops over the axes from axes[depth] on.
  Value over(size_t depth) {
    if (depth == axes.size()) {
      Value element =
          tile::ReadOp::create(builder, loc, builder.getI32Type(), op.getView(), indices);
      auto compare = [&](arith::CmpIPredicate predicate, Value end) -> Value {
        return arith::CmpIOp::create(builder, loc, predicate, element, end);
      };
      Value isAbove = compare(arith::CmpIPredicate::sge, op.getLeast());
      Value isBelow = compare(arith::CmpIPredicate::sle, op.getLargest());
      return arith::AndIOp::create(builder, loc, isAbove, isBelow);
    }
    auto loop =
        scf::ForOp::create(builder, loc, constant(0), extents[depth], constant(1), truth(false));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value &index = indices[axes[depth]], low = index;
    index = arith::AddIOp::create(builder, loc, low, loop.getInductionVar());
    Value found = arith::OrIOp::create(builder, loc, loop.getRegionIterArg(0), over(depth + 1));
    index = low;
    scf::YieldOp::create(builder, loc, found);
    return loop.getResult(0);
  }

  tile::HasElementOp op;
  OpBuilder builder;
  Location loc;
  SmallVector<Value> indices, extents;
  SmallVector<size_t> axes; ///< in which the box extends
};

struct TileLowerBounds : impl::TileLowerBoundsBase<TileLowerBounds> {
  void runOnOperation() override {
    // The tests may compute more than they yield. Unused loops would not be removed later.
    IRRewriter rewriter(&getContext());
    getOperation().walk(
        [&](tile::FindBlocksOp find) { (void)runRegionDCE(rewriter, find->getRegions()); });
    llvm::MapVector<Value, SmallVector<tile::BoundsOp>> byView;
    getOperation().walk([&](tile::BoundsOp op) { byView[op.getView()].push_back(op); });
    getOperation().walk([](tile::HasElementOp op) { ElementsEmitter(op).emit(); });
    SmallVector<CaptureSummary> summaries;
    for (auto &[view, ops] : byView)
      if (std::optional<CaptureSummary> summary = lower(view, ops))
        summaries.push_back(*summary);
    if (!summaries.empty())
      setSummaries(getOperation(), summaries);
  }

  /// The axes in which the op's box may have more than one element.
  static SmallVector<int64_t> axesOf(tile::BoundsOp op) {
    SmallVector<int64_t> axes;
    for (auto [axis, within] : llvm::enumerate(op.getWithin()))
      if (within != 1)
        axes.push_back(axis);
    return axes;
  }

  std::optional<CaptureSummary> lower(Value view, ArrayRef<tile::BoundsOp> ops) {
    auto type = cast<tile::ViewType>(view.getType());
    // The axes in which granules extend.
    SmallVector<int64_t> extended;
    for (tile::BoundsOp op : ops) {
      SmallVector<int64_t> all = extended;
      for (int64_t axis : axesOf(op))
        if (!llvm::is_contained(all, axis))
          all.push_back(axis);
      if (all.size() <= maxBoxAxes && type.getRank() <= maxSummaryRank)
        extended = all;
    }
    llvm::sort(extended);

    CaptureSummary summary;
    for (int64_t axis = 0; axis < type.getRank(); ++axis)
      if (!llvm::is_contained(extended, axis))
        summary.axes.push_back(axis);
    llvm::append_range(summary.axes, extended);
    summary.rows = extended.size() == 2 ? granuleRows : 1;
    summary.capture =
        getOperation().getArgumentName(cast<BlockArgument>(view).getArgNumber()).str();

    Value levels[2];
    for (tile::BoundsOp op : ops) {
      SmallVector<int64_t> axes = axesOf(op);
      if (axes.empty()) {
        readElement(op);
      } else if (!llvm::all_of(axes, [&](int64_t a) { return llvm::is_contained(extended, a); })) {
        giveUp(op);
      } else {
        BoundsEmitter emitter(op, summary);
        Value &level = levels[emitter.level()];
        if (!level)
          level = addArgument(summary, emitter.level(), type.getRank() + 1);
        emitter.emit(level);
      }
    }
    if (!levels[0] && !levels[1])
      return std::nullopt;
    summary.levels = levels[1] ? 2 : 1;
    return summary;
  }

  Value addArgument(const CaptureSummary &summary, int64_t level, int64_t rank) {
    Builder builder(&getContext());
    SmallVector<Attribute> extents(rank, tile::getExtent(&getContext(), ShapedType::kDynamic));
    auto type = tile::ViewType::get(&getContext(), extents, builder.getI32Type());
    return getOperation().addArgument(summaryName(summary, level), type, getOperation().getLoc());
  }

  static void readElement(tile::BoundsOp op) {
    OpBuilder builder(op);
    Value element = tile::ReadOp::create(builder, op.getLoc(), op.getLeast().getType(),
                                         op.getView(), op.getLow());
    op->replaceAllUsesWith(ValueRange{element, element});
    op->erase();
  }

  /// Replaces the op by bounds that hold for every value.
  static void giveUp(tile::BoundsOp op) {
    OpBuilder builder(op);
    auto constant = [&](int32_t end) -> Value {
      if (op.getLeast().getType().isInteger(32))
        return arith::ConstantIntOp::create(builder, op.getLoc(), end, 32);
      return arith::ConstantFloatOp::create(builder, op.getLoc(), builder.getF32Type(),
                                            APFloat(std::nanf("")));
    };
    Value ends[] = {constant(std::numeric_limits<int32_t>::min()),
                    constant(std::numeric_limits<int32_t>::max())};
    op->replaceAllUsesWith(ValueRange(ends));
    op->erase();
  }
};

} // namespace
} // namespace tesela
