//===- PlaceViews.cpp - tile-place-views ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// This pass decides where rows lie. It also clamps all numbers that come from device memory to the
// tensors, except page numbers, which are clamped where they are looked up.
//
//===----------------------------------------------------------------------===//
#include "tile/Extents.h"
#include "tile/SharedPrefix.h"
#include "tile/TokenOrder.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEPLACEVIEWS
#include "transforms/Passes.h.inc"

namespace {

enum class Place { Dense, Ragged, Paged };
enum class Positions { Begin, End, Given };

/// The rows of one sequence: the first of them among the rows of all sequences, and their number.
struct Span {
  Value start, count;
};

class Placing {
public:
  Placing(tile::KernelOp kernel, Place queries, Place keys, int64_t page, Positions positions)
      : kernel(kernel), queries(queries), keys(keys), positions(positions), page(page),
        builder(kernel.getContext()), loc(kernel.getLoc()), isOfTokens(tile::isOfTokens(kernel)) {
    std::optional<tile::PrefixPart> part = tile::prefixPartOf(kernel);
    isOfSuffix = part && *part == tile::PrefixPart::Suffix;
  }

  LogicalResult run() {
    placedQueries = viewsWith("Sq");
    placedKeys = viewsWith("Sk");
    bool changes = queries != Place::Dense || keys != Place::Dense || positions != Positions::Begin;
    if (changes && failed(findItem()))
      return failure();
    addArguments();
    replaceSequenceKeys();
    if (changes)
      place();
    return success();
  }

private:
  Value constant(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value subtract(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
  Value min(Value a, Value b) { return arith::MinSIOp::create(builder, loc, a, b); }
  Value max(Value a, Value b) { return arith::MaxSIOp::create(builder, loc, a, b); }
  Value extent(StringRef name) {
    return tile::ExtentOp::create(builder, loc, builder.getI32Type(), name, /*of_launch=*/true);
  }
  Value viewExtent(Value view, int64_t axis) {
    return tile::ViewExtentOp::create(builder, loc, builder.getI32Type(), view, axis);
  }
  Value read(Value view, Value index) {
    return tile::ReadOp::create(builder, loc, builder.getI32Type(), view, ValueRange(index));
  }

  /// The tensors [B, heads, `name`, …] of the caller.
  SmallVector<BlockArgument> viewsWith(StringRef name) {
    auto isNamed = [](Attribute extent, StringRef name) {
      auto symbol = dyn_cast<tile::SymbolAttr>(extent);
      return symbol && symbol.getName() == name;
    };
    SmallVector<BlockArgument> views;
    for (BlockArgument argument : kernel.getBodyBlock().getArguments()) {
      auto view = dyn_cast<tile::ViewType>(argument.getType());
      std::optional<tile::Role> role = kernel.getArgumentRole(argument.getArgNumber());
      if (view && role && *role != tile::Role::Workspace && view.getRank() >= 3 &&
          isNamed(view.getExtents()[0], "B") && isNamed(view.getExtents()[2], name))
        views.push_back(argument);
    }
    return views;
  }

  /// Finds the block of queries of the loops and hooks, which must all have the same one. In a
  /// kernel without them, finds the work item's block, or the block of a store.
  LogicalResult findItem() {
    WalkResult found = kernel.walk([&](Operation *op) {
      Value rows;
      if (auto loop = dyn_cast<tile::BlocksOp>(op))
        rows = loop.getRows();
      else if (auto sink = dyn_cast<tile::SinkOp>(op))
        rows = sink.getRows();
      if (rows && item && item != rows) {
        op->emitOpError() << "expected the rows of the other loops and hooks, got others: where "
                             "queries or keys are placed, a kernel has one block of queries; leave "
                             "out queries, keys and positions";
        return WalkResult::interrupt();
      }
      item = rows ? rows : item;
      return WalkResult::advance();
    });
    if (found.wasInterrupted())
      return failure();
    if (!item)
      kernel.walk([&](tile::WorkOp work) { item = work.getBlock(); });
    if (!item) // work items that store single rows of heads
      kernel.walk([&](tile::StoreOp store) { item = store.getBlock(); });
    bool isOfQueries = item && item.getDefiningOp() &&
                       cast<tile::BlockType>(item.getType()).getAxis() == tile::Axis::Query;
    if (!isOfQueries)
      return kernel.emitOpError()
             << "expected work items of queries, got " << (item ? "others" : "none")
             << ": ragged queries and keys, pages and positions are for templates whose kernels "
                "have a block of queries each; leave out queries, keys and positions";
    for (Operation *user : item.getUsers())
      if (isa<tile::BlockOp, tile::SequenceOp>(user))
        return user->emitOpError()
               << "expected no block that is made of the work item's, got one: say its batch and "
                  "head instead, or leave out queries, keys and positions";
    return success();
  }

  BlockArgument addInteger(StringRef name, ArrayRef<Attribute> extents) {
    auto type = tile::ViewType::get(builder.getContext(), extents, builder.getI32Type(),
                                    /*contiguous=*/false);
    BlockArgument argument = kernel.addArgument(name, type, loc);
    SmallVector<Attribute> roles(kernel.getArgumentRoles()->getValue());
    roles[argument.getArgNumber()] = builder.getStringAttr(tile::stringifyRole(tile::Role::In));
    kernel.setArgumentRolesAttr(builder.getArrayAttr(roles));
    return argument;
  }

  void addArguments() {
    MLIRContext *context = builder.getContext();
    Attribute B = tile::SymbolAttr::get(context, "B");
    Attribute any = tile::getExtent(context, ShapedType::kDynamic);
    Attribute next = tile::ExtentExprAttr::get(context, tile::ExtentOperator::Add, B,
                                               tile::getExtent(context, 1));
    // A kernel of tokens is launched with another B.
    if (queries == Place::Ragged)
      startsQ = addInteger("starts_q", {isOfTokens ? any : next});
    if (keys == Place::Ragged)
      startsK = addInteger("starts_k", {next});
    if (isOfTokens) {
      table = kernel.getArgument(("$" + tile::shared_prefix::table).str());
      lengths = kernel.getArgument(("$" + tile::shared_prefix::length).str());
    } else if (keys == Place::Paged) {
      table = addInteger("table", {B, any});
      lengths = addInteger("lengths", {B});
    }
    if (positions == Positions::Given && !isOfTokens)
      offsets = addInteger("offsets", {B});
  }

  /// The least number of rows (axis 2) of `views`.
  Value rowsOfAll(ArrayRef<BlockArgument> views) {
    Value rows;
    for (BlockArgument view : views)
      if (kernel.getArgumentRole(view.getArgNumber()) != tile::Role::Optional) {
        Value own = viewExtent(view, 2);
        rows = rows ? min(rows, own) : own;
      }
    return rows ? rows : constant(std::numeric_limits<int32_t>::max());
  }

  /// The rows from starts[batch] to starts[batch + 1], clamped to the tensors.
  Span span(Value starts, Value batch, ArrayRef<BlockArgument> views) {
    return between(starts, batch, arith::AddIOp::create(builder, loc, batch, constant(1)), views);
  }

  /// The rows from starts[first] to starts[next], clamped to the tensors.
  Span between(Value starts, Value first, Value next, ArrayRef<BlockArgument> views) {
    Value rows = rowsOfAll(views), none = constant(0);
    Value start = max(min(read(starts, first), rows), none);
    Value end = max(min(read(starts, next), rows), start);
    return {start, subtract(end, start)};
  }

  Span keysOf(Value batch) {
    if (keys == Place::Ragged)
      return span(startsK, batch, placedKeys);
    if (keys == Place::Dense)
      return {constant(0), extent("Sk")};
    // At most the rows of all pages in the table; 0 if the pool has no page.
    Value mostPages = constant((std::numeric_limits<int32_t>::max() - 4096) / page);
    Value most =
        arith::MulIOp::create(builder, loc, min(viewExtent(table, 1), mostPages), constant(page));
    for (BlockArgument view : placedKeys) {
      Value isEmpty = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle,
                                            viewExtent(view, 0), constant(0));
      most = arith::SelectOp::create(builder, loc, isEmpty, constant(0), most);
    }
    return {constant(0), max(min(read(lengths, batch), most), constant(0))};
  }

  void replaceSequenceKeys() {
    SmallVector<tile::SequenceKeysOp> asked;
    kernel.walk([&](tile::SequenceKeysOp op) { asked.push_back(op); });
    for (tile::SequenceKeysOp op : asked) {
      builder.setInsertionPoint(op);
      Value count = keysOf(op.getBatch()).count;
      if (isOfSuffix) {
        Value length = kernel.getArgument(("$" + tile::shared_prefix::length).str());
        Value before = max(min(read(length, constant(0)), count), constant(0));
        count = subtract(count, before);
      }
      op.replaceAllUsesWith(count);
      op.erase();
    }
  }

  /// Changes the type of `view`. `shift`, or the table and `rows`, say where its elements lie.
  void placeView(BlockArgument view, Place how, Value shift, Value batch, Value rows) {
    auto type = cast<tile::ViewType>(view.getType());
    MLIRContext *context = builder.getContext();
    Attribute any = tile::getExtent(context, ShapedType::kDynamic);
    SmallVector<Attribute> extents(type.getExtents());
    auto asked = tile::ViewType::get(context, extents, type.getElementType(), false);
    extents[0] = how == Place::Ragged ? tile::getExtent(context, 1) : any;
    extents[2] = how == Place::Ragged ? any : tile::getExtent(context, page);
    SmallVector<Operation *> users(view.getUsers());
    llvm::erase_if(users, llvm::IsaPred<tile::ViewExtentOp>);
    view.setType(tile::ViewType::get(context, extents, type.getElementType(), false));
    Value placed = how == Place::Ragged
                       ? Value(tile::RaggedOp::create(builder, loc, asked, view, shift))
                       : Value(tile::PagedOp::create(builder, loc, asked, view, table, batch));
    for (Operation *user : users) {
      user->replaceUsesOfWith(view, placed);
      user->replaceUsesOfWith(item, rows);
    }
  }

  void place() {
    builder.setInsertionPointAfter(item.getDefiningOp());
    auto coordinates = tile::CoordinatesOp::create(builder, loc, item);
    Value batch = coordinates.getBatch(), first = coordinates.getFirst();
    bool isRagged = queries == Place::Ragged;
    Span ofQueries = {constant(0), extent("Sq")};
    if (isRagged) { // the launch may have work items for fewer queries; then the first ones count
      Value last = isOfTokens ? subtract(viewExtent(startsQ, 0), constant(1)) : Value();
      Span all = isOfTokens ? between(startsQ, constant(0), last, placedQueries)
                            : span(startsQ, batch, placedQueries);
      ofQueries = {all.start, min(all.count, ofQueries.count)};
    }
    Span ofKeys = keysOf(batch);
    Value from = constant(0);
    if (isOfTokens) // a row's index is the number of its token
      from = ofQueries.start;
    else if (positions == Positions::End)
      from = subtract(ofKeys.count, ofQueries.count);
    else if (positions == Positions::Given) // clamped, so that later sums do not leave i32
      from =
          max(min(read(offsets, batch), constant(int64_t(1) << 30)), constant(-(int64_t(1) << 30)));
    Value needed = ofKeys.count;
    if (isRagged) { // an item behind the sequence's end visits no keys
      Value hasRows =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, first, ofQueries.count);
      needed = arith::SelectOp::create(builder, loc, hasRows, needed, constant(0));
    }
    Value rows =
        tile::SequenceOp::create(builder, loc, item.getType(), item, from, ofQueries.count, needed);
    if (isRagged && !isOfTokens && item.getDefiningOp<tile::WorkOp>() && !placedQueries.empty())
      rows.getDefiningOp()->setAttr(
          tile::tokenOrderAttr,
          builder.getDenseI64ArrayAttr(
              {cast<BlockArgument>(startsQ).getArgNumber(), placedQueries.front().getArgNumber()}));

    item.replaceUsesWithIf(rows, [](OpOperand &use) {
      return !isa<tile::CoordinatesOp, tile::SequenceOp, tile::LoadOp, tile::StoreOp,
                  tile::AccumulateOp>(use.getOwner());
    });
    Value shift = subtract(ofQueries.start, from);
    for (BlockArgument view : placedQueries)
      if (isRagged)
        placeView(view, queries, shift, batch, rows);
    for (BlockArgument view : placedKeys)
      if (keys != Place::Dense)
        placeView(view, keys, ofKeys.start, batch, rows);
  }

  tile::KernelOp kernel;
  Place queries, keys;
  Positions positions;
  int64_t page;
  OpBuilder builder;
  Location loc;
  bool isOfTokens, isOfSuffix = false; ///< the kernel's kind (tile-share-prefix)
  SmallVector<BlockArgument> placedQueries, placedKeys;
  Value item; ///< the block of queries, as in dense memory
  Value startsQ, startsK, table, lengths, offsets;
};

struct TilePlaceViews : impl::TilePlaceViewsBase<TilePlaceViews> {
  using Base::Base;

  void runOnOperation() override {
    std::optional<Place> ofQueries = llvm::StringSwitch<std::optional<Place>>(queries)
                                         .Case("dense", Place::Dense)
                                         .Case("ragged", Place::Ragged)
                                         .Default(std::nullopt);
    std::optional<Place> ofKeys = llvm::StringSwitch<std::optional<Place>>(keys)
                                      .Case("dense", Place::Dense)
                                      .Case("ragged", Place::Ragged)
                                      .Case("paged", Place::Paged)
                                      .Default(std::nullopt);
    std::optional<Positions> at = llvm::StringSwitch<std::optional<Positions>>(positions)
                                      .Case("begin", Positions::Begin)
                                      .Case("end", Positions::End)
                                      .Case("given", Positions::Given)
                                      .Default(std::nullopt);
    tile::KernelOp kernel = getOperation();
    if (!ofQueries)
      kernel.emitError() << "queries is dense or ragged, not '" << queries << "'";
    if (!ofKeys)
      kernel.emitError() << "keys is dense, ragged or paged, not '" << keys << "'";
    if (!at)
      kernel.emitError() << "positions is begin, end or given, not '" << positions << "'";
    bool arePaged = ofKeys == Place::Paged;
    if (arePaged != (page > 0))
      kernel.emitError() << (arePaged ? "keys=paged needs page=N, the rows of a page"
                                      : "page=N is of keys=paged: bind both or neither");
    if (!ofQueries || !ofKeys || !at || arePaged != (page > 0))
      return signalPassFailure();
    if (failed(Placing(kernel, *ofQueries, *ofKeys, page, *at).run()))
      signalPassFailure();
  }
};

} // namespace
} // namespace tesela
