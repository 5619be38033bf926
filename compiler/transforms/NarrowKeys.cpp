//===- NarrowKeys.cpp - tile-narrow-keys ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Runs after tile-place-views, because the place of a page's scale depends on how keys are paged.
//
//===----------------------------------------------------------------------===//
#include "tile/Extents.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILENARROWKEYS
#include "transforms/Passes.h.inc"

namespace {

class Narrowing {
public:
  Narrowing(tile::KernelOp kernel, bool isByPage)
      : kernel(kernel), isByPage(isByPage), builder(kernel.getContext()), loc(kernel.getLoc()),
        narrow(Float8E4M3FNType::get(kernel.getContext())) {}

  LogicalResult run() {
    for (BlockArgument argument : llvm::to_vector(kernel.getBodyBlock().getArguments()))
      if (isOfKeys(argument) && failed(narrowView(argument)))
        return failure();
    return success();
  }

private:
  /// Whether the argument is a tensor [B, heads, Sk, D] of the caller, before or after placing.
  bool isOfKeys(BlockArgument argument) {
    if (kernel.getArgumentRole(argument.getArgNumber()) != tile::Role::In)
      return false;
    auto isDense = [](Type type) {
      auto view = dyn_cast<tile::ViewType>(type);
      if (!view || view.getRank() != 4)
        return false;
      auto symbol = dyn_cast<tile::SymbolAttr>(view.getExtents()[2]);
      return symbol && symbol.getName() == "Sk";
    };
    return isDense(argument.getType()) ||
           llvm::any_of(placedFrom(argument), [&](Value view) { return isDense(view.getType()); });
  }

  /// The results of the ops that place the rows of `argument`. It is not the table of a tile.paged.
  static SmallVector<Value> placedFrom(BlockArgument argument) {
    SmallVector<Value> placed;
    for (Operation *user : argument.getUsers()) {
      auto paged = dyn_cast<tile::PagedOp>(user);
      if (isa<tile::RaggedOp>(user) || (paged && paged.getView() == argument))
        placed.push_back(user->getResult(0));
    }
    return placed;
  }

  LogicalResult narrowView(BlockArgument argument) {
    auto view = cast<tile::ViewType>(argument.getType());
    Type wide = view.getElementType();
    SmallVector<Value> views = {argument};
    llvm::append_range(views, placedFrom(argument));
    SmallVector<tile::LoadOp> loads;
    tile::PagedOp paged;
    for (Value each : views) {
      paged = each.getDefiningOp<tile::PagedOp>() ? each.getDefiningOp<tile::PagedOp>() : paged;
      for (Operation *user : each.getUsers())
        if (auto load = dyn_cast<tile::LoadOp>(user))
          loads.push_back(load);
        else if (!isa<tile::RaggedOp, tile::PagedOp, tile::ViewExtentOp>(user))
          return user->emitOpError()
                 << "expected keys and values of 8 bits to be loaded alone, got "
                    "another use of them; leave out cache=e4m3";
    }
    for (Value each : views) {
      auto type = cast<tile::ViewType>(each.getType());
      each.setType(tile::ViewType::get(kernel.getContext(), type.getExtents(), narrow,
                                       type.getContiguous()));
    }
    if (isByPage && !paged)
      return kernel.emitOpError() << "expected keys=paged with scales=page, which are a number a "
                                     "page, got keys that lie "
                                     "otherwise; take scales=head";
    BlockArgument scales = addScales(argument);
    for (tile::LoadOp load : loads)
      if (failed(narrowLoad(load, wide, scales, paged)))
        return failure();
    return success();
  }

  /// The extents are dynamic: indices are clamped, so one scale may serve all heads, or all pages.
  BlockArgument addScales(BlockArgument argument) {
    MLIRContext *context = kernel.getContext();
    SmallVector<Attribute> extents(isByPage ? 2 : 1,
                                   tile::getExtent(context, ShapedType::kDynamic));
    std::string name = (kernel.getArgumentName(argument.getArgNumber()) + "_scale").str();
    auto type = tile::ViewType::get(context, extents, builder.getF32Type(), /*contiguous=*/false);
    BlockArgument added = kernel.addArgument(name, type, loc);
    SmallVector<Attribute> roles(kernel.getArgumentRoles()->getValue());
    roles[added.getArgNumber()] = builder.getStringAttr(tile::stringifyRole(tile::Role::In));
    kernel.setArgumentRolesAttr(builder.getArrayAttr(roles));
    return added;
  }

  LogicalResult narrowLoad(tile::LoadOp load, Type wide, Value scales, tile::PagedOp paged) {
    auto type = cast<tile::TileType>(load.getType());
    load.getTile().setType(
        tile::TileType::get(kernel.getContext(), type.getExtents(), narrow, type.getEncoding()));
    builder.setInsertionPointAfter(load);
    Value widened = tile::ConvertOp::create(builder, load.getLoc(), type, load.getTile());
    load.getTile().replaceAllUsesExcept(widened, widened.getDefiningOp());
    for (Operation *user : llvm::to_vector(widened.getUsers())) {
      auto dot = dyn_cast<tile::DotOp>(user);
      if (!dot || dot.getB() != widened || dot.getA() == widened || dot.getC() == widened ||
          dot.getLeftTransposed())
        return user->emitOpError() << "expected keys and values of 8 bits to be right operands of "
                                      "tile.dot, got another "
                                      "use of them; leave out cache=e4m3";
      if (!dot.getTransposed() && !isByPage)
        multiplyAsHalves(dot);
      LogicalResult scaled =
          !isByPage ? (dot.getTransposed() ? scaleScores(dot, scales) : scaleOutput(dot, scales))
          : dot.getTransposed() ? scaleKeyColumns(dot, scales, paged, load)
                                : scaleValueColumns(dot, scales, paged, load);
      if (failed(scaled))
        return failure();
    }
    return success();
  }

  /// Converts to f16, which represents all numbers of e4m3. The reference of each schedule keeps
  /// exponentials below the largest f16 (DecomposeSoftmax.cpp). Above 2^-17 f16 is more precise
  /// than bf16; exponentials below 2^-25 become 0. If pages have scales, P is multiplied by
  /// them and may be large, so such products stay in bf16.
  void multiplyAsHalves(tile::DotOp dot) {
    auto narrowed = dot.getA().getDefiningOp<tile::ConvertOp>();
    auto widened = dot.getB().getDefiningOp<tile::ConvertOp>();
    auto left = cast<tile::TileType>(dot.getA().getType());
    if (!narrowed || !left.getElementType().isBF16() ||
        !cast<tile::TileType>(narrowed.getSource().getType()).getElementType().isF32())
      return;
    auto inHalves = [&](Value tile) {
      auto type = cast<tile::TileType>(tile.getType());
      return tile::TileType::get(kernel.getContext(), type.getExtents(), builder.getF16Type(),
                                 type.getEncoding());
    };
    builder.setInsertionPoint(dot);
    dot.getAMutable().assign(
        tile::ConvertOp::create(builder, dot.getLoc(), inHalves(dot.getA()), narrowed.getSource()));
    if (narrowed->use_empty())
      narrowed.erase();
    if (widened->hasOneUse()) {
      widened.getResult().setType(inHalves(widened));
      return;
    }
    builder.setInsertionPoint(widened);
    dot.getBMutable().assign(
        tile::ConvertOp::create(builder, dot.getLoc(), inHalves(widened), widened.getSource()));
  }

  Value constant(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }

  //===--- one scale for each head --------------------------------------------===//

  /// The scale of the head of `rows`, read directly after the op that gives `rows`.
  Value readForHead(Value scales, Value rows) {
    builder.setInsertionPointAfter(rows.getDefiningOp());
    auto place = tile::CoordinatesOp::create(builder, loc, rows);
    return tile::ReadOp::create(builder, loc, builder.getF32Type(), scales,
                                ValueRange(place.getKvHead()));
  }

  /// Multiplies the softmax scale by the keys' scale, which is a common factor of all scores.
  LogicalResult scaleScores(tile::DotOp dot, Value scales) {
    for (Operation *user : llvm::to_vector(dot.getResult().getUsers())) {
      auto score = dyn_cast<tile::ScoreOp>(user);
      if (!score)
        return user->emitOpError()
               << "expected the product with keys of 8 bits to go to tile.score, "
                  "whose scale has theirs, got another use of it; leave out "
                  "cache=e4m3";
      Value scale = score.getScale();
      if (scaled.contains(scale)) // another product of the same keys did it
        continue;
      Value ofHead = readForHead(scales, score.getRows());
      // Exponents need a positive factor, at least the least scale of a launch. But if all keys
      // are 0, their scale may be 0.
      Value least =
          arith::ConstantFloatOp::create(builder, loc, builder.getF32Type(), APFloat(0x1p-100f));
      Value both = arith::MaxNumFOp::create(
          builder, loc, arith::MulFOp::create(builder, loc, scale, ofHead), least);
      scale.replaceUsesWithIf(both, [](OpOperand &use) {
        return isa<tile::ScoreOp, tile::ExponentFactorOp>(use.getOwner());
      });
      for (Operation *factor : both.getUsers()) // a user before the op must move behind it
        if (factor->getBlock() == both.getDefiningOp()->getBlock() &&
            factor->isBeforeInBlock(both.getDefiningOp()))
          factor->moveAfter(both.getDefiningOp());
      scaled.insert(both);
    }
    return success();
  }

  /// Multiplies the output of the rows to which the product is added.
  LogicalResult scaleOutput(tile::DotOp dot, Value scales) {
    auto loop = dot->getParentOfType<tile::BlocksOp>();
    SmallVector<tile::FinishOp> finishes;
    if (loop)
      for (Value result : loop->getResults())
        for (Operation *user : result.getUsers())
          if (auto finish = dyn_cast<tile::FinishOp>(user);
              finish && finish.getO() == result && !llvm::is_contained(finishes, finish))
            finishes.push_back(finish);
    if (finishes.size() != 1)
      return dot.emitOpError() << "expected one tile.finish of what the loop of blocks sums, which "
                                  "is scaled, got "
                               << finishes.size() << "; leave out cache=e4m3, or take scales=page";
    tile::FinishOp finish = finishes.front();
    Value ofHead = readForHead(scales, loop.getRows());
    builder.setInsertionPointAfter(finish);
    Value output = finish.getOutput();
    auto map = emitMap(output, [&](Value x, Value, Value) {
      return arith::MulFOp::create(builder, loc, x, ofHead).getResult();
    });
    output.replaceAllUsesExcept(map, map);
    return success();
  }

  //===--- one scale for each page --------------------------------------------===//

  tile::MapOp emitMap(Value tile, llvm::function_ref<Value(Value, Value, Value)> body) {
    Type element = cast<tile::TileType>(tile.getType()).getElementType();
    auto map = tile::MapOp::create(builder, loc, tile.getType(), ValueRange(tile));
    OpBuilder::InsertionGuard guard(builder);
    Block *block = builder.createBlock(&map.getBody());
    Value x = block->addArgument(element, loc);
    Value row = block->addArgument(builder.getI32Type(), loc);
    Value column = block->addArgument(builder.getI32Type(), loc);
    tile::YieldOp::create(builder, loc, body(x, row, column));
    return map;
  }

  /// Multiplies the columns of `tile`, the keys of `load`, by their scales. A page behind the last
  /// key may not belong to the sequence; the mask drops those columns.
  Value scaleColumns(Value tile, Value scales, tile::PagedOp paged, tile::LoadOp load,
                     bool keepsZeros) {
    auto place = tile::CoordinatesOp::create(builder, loc, load.getBlock());
    int64_t page = *paged.getView().getType().getStaticExtent(2);
    return emitMap(tile, [&](Value x, Value, Value column) -> Value {
      Value key = arith::AddIOp::create(builder, loc, place.getFirst(), column);
      Value number = arith::DivUIOp::create(builder, loc, key, constant(page));
      Value name = tile::ReadOp::create(builder, loc, builder.getI32Type(), paged.getTable(),
                                        ValueRange{paged.getBatch(), number});
      Value scale = tile::ReadOp::create(builder, loc, builder.getF32Type(), scales,
                                         ValueRange{name, place.getKvHead()});
      Value product = arith::MulFOp::create(builder, loc, x, scale);
      if (!keepsZeros)
        return product;
      Value none =
          arith::ConstantFloatOp::create(builder, loc, builder.getF32Type(), APFloat(0.0f));
      Value isNone = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, x, none);
      return arith::SelectOp::create(builder, loc, isNone, none, product);
    });
  }

  LogicalResult scaleKeyColumns(tile::DotOp dot, Value scales, tile::PagedOp paged,
                                tile::LoadOp load) {
    builder.setInsertionPointAfter(dot);
    Value columns = scaleColumns(dot.getResult(), scales, paged, load, /*keepsZeros=*/false);
    dot.getResult().replaceAllUsesExcept(columns, columns.getDefiningOp());
    return success();
  }

  LogicalResult scaleValueColumns(tile::DotOp dot, Value scales, tile::PagedOp paged,
                                  tile::LoadOp load) {
    Value left = dot.getA();
    auto narrowed = left.getDefiningOp<tile::ConvertOp>();
    Value exact = narrowed ? narrowed.getSource() : left;
    if (!cast<tile::TileType>(exact.getType()).getElementType().isF32())
      return dot.emitOpError()
             << "expected a left operand of f32, or one that tile.convert makes of "
                "f32, where scales=page go to, got another; take scales=head";
    builder.setInsertionPoint(dot);
    Value columns = scaleColumns(exact, scales, paged, load, /*keepsZeros=*/true);
    if (columns.getType() != left.getType())
      columns = tile::ConvertOp::create(builder, dot.getLoc(), left.getType(), columns);
    dot.getAMutable().assign(columns);
    if (narrowed && narrowed->use_empty())
      narrowed.erase();
    return success();
  }

  tile::KernelOp kernel;
  bool isByPage;
  OpBuilder builder;
  Location loc;
  Type narrow;
  llvm::SmallPtrSet<Value, 4> scaled; ///< softmax scales that have the keys' scale
};

struct TileNarrowKeys : impl::TileNarrowKeysBase<TileNarrowKeys> {
  using Base::Base;

  void runOnOperation() override {
    tile::KernelOp kernel = getOperation();
    if (scales != "head" && scales != "page") {
      kernel.emitError() << "scales is head or page, not '" << scales << "'";
      return signalPassFailure();
    }
    if (failed(Narrowing(kernel, scales == "page").run()))
      signalPassFailure();
  }
};

} // namespace
} // namespace tesela
