//===- OverlapItems.cpp - pipe-overlap-items --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/nvvm/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPEOVERLAPITEMS
#include "targets/nvvm/Passes.h.inc"

namespace {

/// A role's program for one work item: a head, a loop, and behind it a tail, which handles what the
/// loop's last iteration left to do. `early`, `late` and `rest` divide the loop and the tail.
struct Item {
  Item(scf::WhileOp items, scf::ForOp loop) : items(items), loop(loop) {}

  scf::WhileOp items;
  scf::ForOp loop;
  SmallVector<Operation *> early; ///< the loop, and the ops that run before the next item's head
  SmallVector<Operation *> late;  ///< ops that run behind the next item's head, or beside it
  SmallVector<Operation *> rest;  ///< ops that run after both
  tile::DotOp first, last;        ///< of the consumers: the products of the head and of `late`
  llvm::SetVector<Value> carried; ///< values of the head that are needed behind it
  llvm::SmallPtrSet<Operation *, 16> remade; ///< ops of the head that are repeated behind it
  llvm::DenseMap<Operation *, bool> ofAll;   ///< of the head: same for all items?

  Block &body() { return *items.getAfterBody(); }
  auto head() { return llvm::make_range(body().begin(), loop->getIterator()); }
  auto tail() {
    return llvm::make_range(std::next(loop->getIterator()), body().getTerminator()->getIterator());
  }
  bool isInHead(Value value) {
    if (isa<BlockArgument>(value))
      return value.getParentBlock() == &body();
    Operation *op = value.getDefiningOp();
    return op->getBlock() == &body() && op->isBeforeInBlock(loop);
  }
};

/// Whether a value of this type is a scalar or a tile in registers. Other values only name
/// something.
bool isInRegisters(Type type) {
  auto tile = dyn_cast<tile::TileType>(type);
  return tile ? !isa_and_present<pipe::SharedAttr>(tile.getEncoding()) : type.isIntOrFloat();
}

/// Whether `op` may be repeated elsewhere. An op that reads a stage may not: the stage is refilled.
bool isRepeatable(Operation *op) {
  auto isStage = [](Type type) { return isa<tile::TileType>(type) && !isInRegisters(type); };
  return op && isMemoryEffectFree(op) && op->getNumRegions() == 0 &&
         llvm::none_of(op->getOperandTypes(), isStage);
}

/// Whether `value` is the same for all items.
bool isOfAllItems(Item &item, Value value) {
  if (!item.isInHead(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto known = item.ofAll.find(op); known != item.ofAll.end())
    return known->second;
  bool isOfAll = isRepeatable(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
                   return isOfAllItems(item, operand);
                 });
  item.ofAll[op] = isOfAll;
  return isOfAll;
}

/// Notes that `value` is needed behind the head. A value that is the same for all items, or that
/// only names something, is computed again; others are carried.
bool collect(Item &item, Value value) {
  if (!item.isInHead(value))
    return true;
  if (isInRegisters(value.getType()) && !isOfAllItems(item, value)) {
    item.carried.insert(value);
    return true;
  }
  Operation *op = value.getDefiningOp();
  if (!isRepeatable(op))
    return false;
  return !item.remade.insert(op).second ||
         llvm::all_of(op->getOperands(), [&](Value operand) { return collect(item, operand); });
}

/// Whether all values that are needed behind the head can be carried or repeated, and all values
/// that the next item's head needs are known before `late`.
bool findCarried(Item &item) {
  bool isPossible = true;
  for (Operation *op = item.loop; op; op = op->getNextNode())
    op->walk([&](Operation *user) {
      for (Value operand : user->getOperands())
        if (operand.getParentBlock() == &item.body())
          isPossible &= collect(item, operand);
    });
  for (Value value : item.items.getYieldOp().getOperands())
    if (Operation *op = value.getDefiningOp())
      isPossible &= !llvm::is_contained(item.late, op) && !llvm::is_contained(item.rest, op);
  return isPossible && item.items->use_empty();
}

/// The item's only loop that contains an `Op`; null if there is none or more than one.
template <typename Op> scf::ForOp findLoop(scf::WhileOp items) {
  scf::ForOp found;
  for (auto loop : items.getAfterBody()->getOps<scf::ForOp>()) {
    if (loop.getBody()->getOps<Op>().empty())
      continue;
    if (found)
      return {};
    found = loop;
  }
  return found;
}

/// The producer's item: `late` is the last block of values. Returns nothing if the program does not
/// have the form that Passes.td shows.
std::optional<Item> findProducers(scf::WhileOp items) {
  Item item(items, findLoop<pipe::FillOp>(items));
  if (!item.loop)
    return std::nullopt;
  item.early.push_back(item.loop);
  for (Operation &op : item.tail())
    if (isa<pipe::AcquireOp, pipe::FillOp>(op))
      item.late.push_back(&op);
    else if (isRepeatable(&op) || isa<pipe::NextItemOp, pipe::ReceiveOp>(op))
      item.early.push_back(&op);
    else
      return std::nullopt;
  return findCarried(item) ? std::optional(std::move(item)) : std::nullopt;
}

/// The consumers' item: `late` is the last product, from the await of its right operand to the
/// release.
std::optional<Item> findConsumers(scf::WhileOp items) {
  Item item(items, findLoop<pipe::DotStartOp>(items));
  if (!item.loop)
    return std::nullopt;
  for (auto dot : item.body().getOps<tile::DotOp>()) {
    tile::DotOp &place = dot->isBeforeInBlock(item.loop) ? item.first : item.last;
    if (place)
      return std::nullopt;
    place = dot;
  }
  if (!item.first || !item.last || !item.first.getC().getDefiningOp<tile::ConstantOp>())
    return std::nullopt;
  pipe::AwaitOp await;
  bool isReleased = false;
  item.early.push_back(item.loop);
  for (Operation &op : item.tail()) {
    if (!await)
      await = dyn_cast<pipe::AwaitOp>(op);
    (!await ? item.early : isReleased ? item.rest : item.late).push_back(&op);
    auto release = dyn_cast<pipe::ReleaseOp>(op);
    isReleased |= release && await && release.getChannel() == await.getChannel();
  }
  bool isInPlace = isReleased && llvm::is_contained(item.late, item.last);
  // Outside of `late`, only the product's result may be used.
  for (Operation *op : item.late)
    for (Operation *user : op->getUsers())
      isInPlace &= op == item.last || llvm::is_contained(item.late, user);
  return isInPlace && findCarried(item) ? std::optional(std::move(item)) : std::nullopt;
}

struct PipeOverlapItems : impl::PipeOverlapItemsBase<PipeOverlapItems> {
  void runOnOperation() override {
    tile::ScheduleAttr schedule = getOperation().getScheduleAttr();
    // If the next item's queries were not loaded ahead, the first product would wait for them.
    if (!schedule || !schedule->overlap || schedule->queryStages < 2)
      return;
    for (auto roles : getOperation().getBodyBlock().getOps<pipe::RolesOp>())
      for (Region *role : {&roles.getProducer(), &roles.getConsumers()})
        for (auto items : llvm::to_vector(role->front().getOps<scf::WhileOp>()))
          if (std::optional<Item> item =
                  role == &roles.getProducer() ? findProducers(items) : findConsumers(items))
            overlap(*item);
  }

  static void cloneAll(OpBuilder &builder, ArrayRef<Operation *> ops, IRMapping &mapping) {
    for (Operation *op : ops)
      builder.clone(*op, mapping);
  }

  static SmallVector<Value> lookup(IRMapping &mapping, ValueRange values) {
    return llvm::map_to_vector(values, [&](Value v) { return mapping.lookupOrDefault(v); });
  }

  /// Takes an item and maps the arguments of the items' loop to it. Returns whether there is one.
  static Value takeItem(OpBuilder &builder, scf::WhileOp items, ValueRange given,
                        IRMapping &mapping) {
    mapping.map(items.getBeforeArguments(), given);
    for (Operation &op : items.getBeforeBody()->without_terminator())
      builder.clone(op, mapping);
    scf::ConditionOp condition = items.getConditionOp();
    mapping.map(items.getAfterArguments(), lookup(mapping, condition.getArgs()));
    return mapping.lookup(condition.getCondition());
  }

  /// Writes the next item's head with its first product in flight beside this item's last product.
  /// `next` maps the next item's values, `current` this item's. Returns the last product.
  static Value emitProducts(OpBuilder &builder, Item &item, IRMapping &next, IRMapping current) {
    Location loc = item.last.getLoc();
    pipe::DotStartOp started, delayed;
    Value sum;
    Value first = item.first.getResult();
    // Releases of stages that the first product reads wait until it is awaited.
    SmallVector<Operation *> releases;
    auto awaitFirst = [&] {
      next.map(first,
               pipe::DotWaitOp::create(builder, item.first.getLoc(), first.getType(), started, 1));
      cloneAll(builder, releases, next);
    };
    auto place = llvm::find(item.late, item.last);
    auto finish = [&] {
      sum = pipe::DotWaitOp::create(builder, loc, item.last.getType(), delayed, 0);
      cloneAll(builder, ArrayRef(std::next(place), item.late.end()), current);
    };
    for (Operation &op : item.head()) {
      if (&op == item.first) {
        tile::DotOp dot = item.first;
        started = pipe::DotStartOp::create(
            builder, dot.getLoc(), dot, next.lookupOrDefault(dot.getA()),
            next.lookupOrDefault(dot.getB()), next.lookupOrDefault(dot.getC()));
        cloneAll(builder, ArrayRef(item.late.begin(), place), current);
        delayed = pipe::DotStartOp::create(
            builder, loc, item.last, current.lookup(item.last.getA()),
            current.lookup(item.last.getB()), current.lookup(item.last.getC()));
        continue;
      }
      bool isInFlight = started && !next.contains(first);
      if (isInFlight && isa<pipe::ReleaseOp>(op)) {
        releases.push_back(&op);
        continue;
      }
      if (isInFlight && llvm::is_contained(valuesUsedBy(op), first))
        awaitFirst();
      // The rounded exponentials take the registers of the last product's left operand.
      if (delayed && !sum && isa<tile::ConvertOp>(op))
        finish();
      builder.clone(op, next);
    }
    if (!next.contains(first))
      awaitFirst();
    if (!sum)
      finish();
    return sum;
  }

  static void overlap(Item &item) {
    scf::WhileOp items = item.items;
    scf::ForOp loop = item.loop;
    Location loc = items.getLoc();
    OpBuilder builder(items);

    // A thread block has at least one item.
    IRMapping first;
    SmallVector<Value> start = {takeItem(builder, items, items.getInits(), first)};
    for (Operation &op : item.head())
      builder.clone(op, first);
    ValueRange carried = item.carried.getArrayRef();
    llvm::append_range(start, lookup(first, carried));

    SmallVector<Type> given(carried.getTypes()), all = {builder.getI1Type()};
    llvm::append_range(all, given);
    auto rotated = scf::WhileOp::create(builder, loc, given, start);
    OpBuilder before(builder.getContext()), inside(builder.getContext());
    Block *condition =
        before.createBlock(&rotated.getBefore(), {}, all, SmallVector<Location>(all.size(), loc));
    scf::ConditionOp::create(before, loc, condition->getArgument(0),
                             condition->getArguments().drop_front());
    Block *body = inside.createBlock(&rotated.getAfter(), {}, given,
                                     SmallVector<Location>(given.size(), loc));
    IRMapping current;
    current.map(carried, body->getArguments());
    for (Operation &op : item.head())
      if (item.remade.contains(&op))
        inside.clone(op, current);
    cloneAll(inside, item.early, current);

    IRMapping next;
    Value more = takeItem(inside, items, lookup(current, items.getYieldOp().getOperands()), next);
    SmallVector<Type> results(given);
    if (item.last)
      results.push_back(item.last.getType());
    auto branch = scf::IfOp::create(inside, loc, results, more, /*withElseRegion=*/true);
    OpBuilder then = OpBuilder::atBlockBegin(branch.thenBlock());
    Value sum;
    if (item.last)
      sum = emitProducts(then, item, next, current);
    else
      for (Operation &op : item.head())
        then.clone(op, next);
    SmallVector<Value> yielded = lookup(next, carried);
    if (sum)
      yielded.push_back(sum);
    scf::YieldOp::create(then, loc, yielded);

    // After the last item nobody reads the carried values. Yield results of the loop that are not
    // used any more, so that no register is held for them.
    OpBuilder otherwise = OpBuilder::atBlockBegin(branch.elseBlock());
    yielded.clear();
    for (Value value : carried) {
      auto initial = llvm::find(loop.getInitArgs(), value);
      bool isOfLoop = initial != loop.getInitArgs().end();
      unsigned index = isOfLoop ? std::distance(loop.getInitArgs().begin(), initial) : 0;
      yielded.push_back(current.lookup(isOfLoop ? Value(loop.getResult(index)) : value));
    }
    if (item.last) {
      IRMapping alone(current);
      cloneAll(otherwise, item.late, alone);
      yielded.push_back(alone.lookup(item.last.getResult()));
      current.map(item.last.getResult(), branch.getResults().back());
    } else {
      cloneAll(inside, item.late, current);
    }
    scf::YieldOp::create(otherwise, loc, yielded);
    cloneAll(inside, item.rest, current);
    SmallVector<Value> onward = {more};
    llvm::append_range(onward, branch.getResults().take_front(given.size()));
    scf::YieldOp::create(inside, loc, onward);
    items.erase();
  }
};

} // namespace
} // namespace tesela
