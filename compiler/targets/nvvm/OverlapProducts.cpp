//===- OverlapProducts.cpp - pipe-overlap-products --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/common/FoundRing.h"
#include "targets/nvvm/IterationSlice.h"
#include "targets/nvvm/Passes.h"
#include "tile/EmptyRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPEOVERLAPPRODUCTS
#include "targets/nvvm/Passes.h.inc"

namespace {

/// A loop's first and last product, and the number of the carried value to which the last one adds.
struct Products {
  tile::DotOp first, last;
  tile::LoadOp lastLoad; ///< gives the right operand of `last`
  unsigned carried;
};

struct PipeOverlapProducts : impl::PipeOverlapProductsBase<PipeOverlapProducts> {
  void runOnOperation() override {
    tile::ScheduleAttr schedule = getOperation().getScheduleAttr();
    if (!schedule || !schedule->overlap)
      return;
    auto loops = llvm::to_vector(getOperation().getBodyBlock().getOps<scf::ForOp>());
    for (scf::ForOp loop : loops) {
      std::optional<Products> products = findProducts(loop);
      if (!products)
        continue;
      if (!loop->hasAttr(tile::dropsEmptyAttr)) {
        loop.emitError() << "expected a loop that drops what it computes of an empty range (`"
                         << tile::dropsEmptyAttr
                         << "`), since its first iteration always runs; give the schedule overlap "
                            "= false";
        return signalPassFailure();
      }
      overlap(loop, *products, schedule->turns);
    }
  }

  /// Returns nothing if the loop does not have the form that Passes.td shows.
  static std::optional<Products> findProducts(scf::ForOp loop) {
    auto dots = llvm::to_vector(loop.getBody()->getOps<tile::DotOp>());
    if (dots.size() < 2)
      return std::nullopt;
    Products products{dots.front(), dots.back(), {}, 0};
    // The first product must not wait for a value that the loop carries.
    auto isLoaded = [&](Value value) {
      return loop.isDefinedOutsideOfLoop(value) || value.getDefiningOp<tile::LoadOp>();
    };
    if (products.first.getLeftTransposed() || products.last.getLeftTransposed())
      return std::nullopt;
    if (!isLoaded(products.first.getA()) || !isLoaded(products.first.getB()) ||
        !loop.isDefinedOutsideOfLoop(products.first.getC()))
      return std::nullopt;
    Value sum = products.last.getResult();
    auto left = cast<tile::TileType>(products.last.getA().getType());
    products.lastLoad = products.last.getB().getDefiningOp<tile::LoadOp>();
    if (!sum.hasOneUse() || !isa<scf::YieldOp>(*sum.user_begin()) || !products.lastLoad ||
        !products.lastLoad->hasOneUse() || !isa_and_nonnull<pipe::OperandAttr>(left.getEncoding()))
      return std::nullopt;
    products.carried = sum.use_begin()->getOperandNumber();
    if (!nvvm::followsIteration(loop, products.lastLoad.getBlock()) ||
        products.lastLoad.getColumns())
      return std::nullopt;
    return products;
  }

  /// Marks the found blocks from which `block` is made: the first product has asked for them.
  static void markSought(Value block) {
    SmallVector<Value> worklist = {block};
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val().getDefiningOp();
      if (!op)
        continue;
      if (isa<tile::FoundBlockOp>(op))
        op->setAttr(soughtAttr, UnitAttr::get(op->getContext()));
      else if (isa<arith::MulIOp, arith::AddIOp, tile::BlockOp>(op))
        llvm::append_range(worklist, op->getOperands());
    }
  }

  /// Loads the last product's right operand for iteration `index`.
  static Value loadLast(OpBuilder &builder, scf::ForOp loop, const Products &products,
                        Value index) {
    tile::LoadOp load = products.lastLoad;
    IRMapping iteration;
    iteration.map(loop.getInductionVar(), index);
    Value block = nvvm::copyForIteration(builder, loop, load.getBlock(), iteration);
    markSought(block);
    return tile::LoadOp::create(builder, load.getLoc(), load.getType(), load.getView(), block,
                                /*columns=*/Value());
  }

  /// What the next iteration and the delayed product need of the iteration whose values are in
  /// `mapping`: the yielded values without the sum, then the product's left operand, then its
  /// addend.
  static SmallVector<Value> carriedValues(scf::ForOp loop, const Products &products,
                                          IRMapping &mapping) {
    SmallVector<Value> values;
    for (OpOperand &yielded : loop.getBody()->getTerminator()->getOpOperands())
      if (yielded.getOperandNumber() != products.carried)
        values.push_back(mapping.lookupOrDefault(yielded.get()));
    tile::DotOp last = products.last;
    values.push_back(mapping.lookupOrDefault(last.getA()));
    values.push_back(mapping.lookupOrDefault(last.getC()));
    return values;
  }

  /// Resolves branches of the loop's body on "is this the first iteration" in the copy that
  /// `mapping` describes: only the side that is taken stays.
  static void foldFirst(scf::ForOp loop, IRMapping &mapping, bool isFirst) {
    for (auto branch : loop.getBody()->getOps<scf::IfOp>()) {
      auto test = branch.getCondition().getDefiningOp<arith::CmpIOp>();
      if (!test || test.getPredicate() != arith::CmpIPredicate::eq ||
          test.getLhs() != loop.getInductionVar() || test.getRhs() != loop.getLowerBound())
        continue;
      auto copy = cast<scf::IfOp>(mapping.lookup(branch.getOperation()));
      Block *taken = isFirst ? copy.thenBlock() : copy.elseBlock();
      Operation *yield = taken->getTerminator();
      SmallVector<Value> results(yield->getOperands());
      yield->erase();
      copy->getBlock()->getOperations().splice(copy->getIterator(), taken->getOperations());
      for (auto [original, old, result] :
           llvm::zip(branch.getResults(), copy.getResults(), results)) {
        old.replaceAllUsesWith(result);
        mapping.map(original, result);
      }
      copy.erase();
    }
  }

  static bool isZero(Value tile) {
    auto constant = tile.getDefiningOp<tile::ConstantOp>();
    return constant && constant.getValue().isZero();
  }

  /// Whether `value` is `of` or a multiple of it, and so zero where `of` is zero.
  static bool isMultiple(Value value, Value of) {
    if (value == of)
      return true;
    if (auto branch = value.getDefiningOp<scf::IfOp>()) {
      unsigned index = cast<OpResult>(value).getResultNumber();
      return llvm::all_of(branch->getRegions(), [&](Region &region) {
        return isMultiple(region.front().getTerminator()->getOperand(index), of);
      });
    }
    auto map = value.getDefiningOp<tile::MapOp>();
    if (!map || map.getNumOperands() == 0 || !isMultiple(map.getOperand(0), of))
      return false;
    Block &body = map->getRegion(0).front();
    auto product = body.getTerminator()->getOperand(0).getDefiningOp<arith::MulFOp>();
    return product && llvm::is_contained(product->getOperands(), body.getArgument(0));
  }

  static void overlap(scf::ForOp loop, Products products, bool hasTurns) {
    OpBuilder builder(loop);
    Location loc = loop.getLoc();
    unsigned carried = products.carried;
    Value low = loop.getLowerBound(), one = loop.getStep();
    Value second = arith::AddIOp::create(builder, loc, low, one);
    Value high = arith::MaxSIOp::create(builder, loc, loop.getUpperBound(), second);

    IRMapping first;
    first.map(loop.getInductionVar(), low);
    first.map(loop.getRegionIterArgs(), loop.getInitArgs());
    auto isKept = [&](Operation &op) { return &op != products.last && &op != products.lastLoad; };
    for (Operation &op : llvm::make_filter_range(loop.getBody()->without_terminator(), isKept))
      builder.clone(op, first);
    foldFirst(loop, first, /*isFirst=*/true);

    SmallVector<Value> start = carriedValues(loop, products, first);
    if (isZero(loop.getInitArgs()[carried]) &&
        isMultiple(products.last.getC(), loop.getRegionIterArgs()[carried]))
      start.back() = loop.getInitArgs()[carried];
    auto rotated = scf::ForOp::create(builder, loc, second, high, one, start);
    ValueRange arguments = rotated.getRegionIterArgs();
    Value left = arguments[arguments.size() - 2], sum = arguments.back();
    OpBuilder inner = OpBuilder::atBlockBegin(rotated.getBody());
    IRMapping mapping;
    mapping.map(loop.getInductionVar(), rotated.getInductionVar());
    for (unsigned index = 0, next = 0; index < loop.getNumRegionIterArgs(); ++index)
      if (index != carried)
        mapping.map(loop.getRegionIterArgs()[index], arguments[next++]);

    // Each product is awaited at its first use, so other ops run beside it.
    pipe::DotStartOp started, delayed;
    Value previous = loop.getRegionIterArgs()[carried];
    auto await = [&](Value product, pipe::DotStartOp start, unsigned pending) {
      mapping.map(product, pipe::DotWaitOp::create(inner, loc, product.getType(), start, pending));
    };
    auto awaitUsed = [&](Operation &op) {
      SmallVector<Value> used = valuesUsedBy(op);
      auto uses = [&](Value product) { return llvm::is_contained(used, product); };
      bool usesSum = !mapping.contains(previous) && uses(previous);
      Value score = products.first.getResult();
      if (started && !mapping.contains(score) && (usesSum || uses(score)))
        await(score, started, 1);
      if (usesSum)
        await(previous, delayed, 0);
    };
    for (Operation &op : llvm::make_filter_range(loop.getBody()->without_terminator(), isKept)) {
      if (&op == products.first) {
        tile::DotOp dot = products.first;
        if (hasTurns)
          pipe::BeginTurnOp::create(inner, loc);
        started = pipe::DotStartOp::create(inner, loc, dot, mapping.lookupOrDefault(dot.getA()),
                                           mapping.lookupOrDefault(dot.getB()), dot.getC());
        Value before = arith::SubIOp::create(inner, loc, rotated.getInductionVar(), one);
        Value right = loadLast(inner, loop, products, before);
        delayed = pipe::DotStartOp::create(inner, loc, products.last, left, right, sum);
        if (hasTurns)
          pipe::EndTurnOp::create(inner, loc);
        continue;
      }
      awaitUsed(op);
      inner.clone(op, mapping);
    }
    if (Value score = products.first.getResult(); !mapping.contains(score))
      await(score, started, 1);
    if (!mapping.contains(previous))
      await(previous, delayed, 0);
    foldFirst(loop, mapping, /*isFirst=*/false);
    scf::YieldOp::create(inner, loc, carriedValues(loop, products, mapping));

    Value lastIndex = arith::SubIOp::create(builder, loc, high, one);
    Value right = loadLast(builder, loop, products, lastIndex);
    unsigned count = rotated.getNumResults();
    Value total = tile::DotOp::create(
        builder, loc, products.last.getType(), rotated.getResult(count - 2), right,
        rotated.getResult(count - 1), /*left_transposed=*/false, products.last.getTransposed());
    for (unsigned index = 0, result = 0; index < loop.getNumResults(); ++index)
      loop.getResult(index).replaceAllUsesWith(index == carried ? total
                                                                : rotated.getResult(result++));
    loop.erase();
  }
};

} // namespace
} // namespace tesela
