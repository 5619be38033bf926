//===- OverlapItems.cpp - pipe-overlap-items --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/RoleSteps.h"

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
/// `late` makes the item's last use of a channel: the producer fills a stage, the consumers read
/// it.
struct Item {
  Item(scf::WhileOp items, scf::ForOp loop) : items(items), loop(loop) {}

  scf::WhileOp items;
  scf::ForOp loop;
  SmallVector<Operation *> early; ///< the loop, and the ops that run before the next item's head
  SmallVector<Operation *> late;  ///< ops that run behind the next item's head, or beside it
  SmallVector<Operation *> rest;  ///< ops that run after both
  tile::DotOp first, last;        ///< of the consumers: the products of the head and of `late`
  Value lastUse;                  ///< in `late`: the number of that use
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

/// The zero of a type in registers: of a number or of a tile of numbers.
Value zeroOf(OpBuilder &builder, Location loc, Type type) {
  auto tile = dyn_cast<tile::TileType>(type);
  if (!tile)
    return arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
  return tile::ConstantOp::create(builder, loc, type, builder.getF32FloatAttr(0));
}

/// Whether `zeroOf` can make it: tiles of truth values have no constants.
bool hasZero(Type type) {
  auto tile = dyn_cast<tile::TileType>(type);
  return !tile || !tile.getElementType().isInteger(1);
}

/// Which argument of the loop over items counts a channel's uses, of which `use` is the number of
/// one; nothing if there is none, or if it does not begin with 0.
std::optional<unsigned> countOf(scf::WhileOp items, Value use) {
  for (;;) {
    auto argument = dyn_cast<BlockArgument>(use);
    if (auto loop = use.getDefiningOp<scf::ForOp>())
      use = loop.getInitArgs()[cast<OpResult>(use).getResultNumber()];
    else if (auto outer =
                 argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()) : scf::ForOp();
             outer && argument != outer.getInductionVar())
      use = outer.getTiedLoopInit(argument)->get();
    else
      break;
  }
  auto ofItem = dyn_cast<BlockArgument>(use);
  if (!ofItem || ofItem.getOwner() != items.getAfterBody())
    return std::nullopt;
  auto argument = dyn_cast<BlockArgument>(items.getConditionOp().getArgs()[ofItem.getArgNumber()]);
  if (!argument || argument.getOwner() != items.getBeforeBody() ||
      !matchPattern(items.getInits()[argument.getArgNumber()], m_Zero()))
    return std::nullopt;
  return argument.getArgNumber();
}

/// Whether the loop over items can begin with an item that does not exist. Without an item each
/// count keeps its first value. That value must be 0, except for the channel whose first stage is
/// handed over: its count is 1 then. Each value that is carried must have a zero.
bool canBeginWithNone(Item &item) {
  std::optional<unsigned> counted = countOf(item.items, item.lastUse);
  auto isKnown = [&](auto each) {
    auto [index, yielded] = each;
    Operation *op = yielded.getDefiningOp();
    if (index == counted) {
      auto next = dyn_cast_or_null<arith::AddIOp>(op);
      return next && next.getLhs() == item.lastUse && matchPattern(next.getRhs(), m_One());
    }
    if (op != item.loop)
      return item.isInHead(yielded) || isa_and_nonnull<pipe::NextItemOp>(op);
    Value start = item.loop.getInitArgs()[cast<OpResult>(yielded).getResultNumber()];
    return item.carried.contains(start) && matchPattern(item.items.getInits()[index], m_Zero());
  };
  auto fitsBranch = [&](Operation *op) { // else emitIfExists has no results without an item
    return llvm::all_of(op->getResults(), [&](Value result) {
      return llvm::is_contained(item.items.getYieldOp().getOperands(), result);
    });
  };
  for (Operation *op : item.early)
    if (op != item.loop && !isRepeatable(op) && !fitsBranch(op))
      return false;
  return counted && llvm::all_of(llvm::enumerate(item.items.getYieldOp().getOperands()), isKnown) &&
         llvm::all_of(item.carried, [](Value value) { return hasZero(value.getType()); });
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
  return isPossible && item.items->use_empty() && canBeginWithNone(item);
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
/// have the form that Passes.td shows. If a finder sends the blocks, the producer keeps its order:
/// otherwise it would wait for the search for the next item before it fills this item's last
/// values.
std::optional<Item> findProducers(scf::WhileOp items) {
  Item item(items, findLoop<pipe::FillOp>(items));
  if (!item.loop)
    return std::nullopt;
  item.early.push_back(item.loop);
  for (Operation &op : item.tail()) {
    bool isLate = isa<pipe::AcquireOp>(op) ? item.late.empty()
                                           : isa<pipe::FillOp>(op) && item.late.size() == 1;
    if (isLate)
      item.late.push_back(&op);
    else if (isRepeatable(&op) || isa<pipe::NextItemOp>(op))
      item.early.push_back(&op);
    else
      return std::nullopt;
  }
  if (item.late.size() != 2)
    return std::nullopt;
  item.lastUse = cast<pipe::AcquireOp>(item.late.front()).getUse();
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
  if (await)
    item.lastUse = await.getUse();
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
    for (auto roles : getOperation().getBodyBlock().getOps<pipe::RolesOp>()) {
      scf::WhileOp ofProducer = findItems(roles.getProducer()),
                   ofConsumers = findItems(roles.getConsumers());
      if (!ofProducer || !ofConsumers)
        continue;
      std::optional<Item> consumers = findConsumers(ofConsumers);
      if (!consumers)
        continue;
      pipe::AcquireOp filled = firstFill(ofProducer, consumers->last);
      std::optional<unsigned> count = filled ? countOf(ofProducer, filled.getUse()) : std::nullopt;
      if (!count)
        continue;
      std::optional<Item> producer = findProducers(ofProducer);
      if (producer && nvvm::useOf(producer->late.front()).first != filled.getChannel())
        producer.reset();
      sendNothing(ofProducer, filled.getChannel());
      if (producer)
        overlap(*producer);
      else
        ofProducer.getInitsMutable()[*count].assign(one(ofProducer));
      overlap(*consumers);
    }
  }

  /// The role's loop over items; null if it has none.
  static scf::WhileOp findItems(Region &role) {
    auto loops = role.front().getOps<scf::WhileOp>();
    return loops.empty() ? scf::WhileOp() : *loops.begin();
  }

  /// The first use of the channel that brings the right operand of `product`.
  static pipe::AcquireOp firstFill(scf::WhileOp items, tile::DotOp product) {
    auto slot = product.getB().getDefiningOp<pipe::SlotOp>();
    pipe::AcquireOp found;
    items.getAfter().walk([&](pipe::FillOp fill) {
      if (!slot || fill.getBuffer() != slot.getBuffer())
        return WalkResult::advance();
      found = dyn_cast_or_null<pipe::AcquireOp>(fill->getPrevNode());
      return WalkResult::interrupt();
    });
    return found;
  }

  static Value one(Operation *before) {
    OpBuilder builder(before);
    return arith::ConstantIntOp::create(builder, before->getLoc(), 1, 32);
  }

  /// Hands over the channel's first stage with anything in it, for the item that does not exist.
  static void sendNothing(scf::WhileOp items, Value channel) {
    OpBuilder builder(items);
    Location loc = items.getLoc();
    Value none = arith::ConstantIntOp::create(builder, loc, 0, 32);
    SmallVector<Value> numbers(cast<pipe::ChannelType>(channel.getType()).getWords(), none);
    pipe::AcquireOp::create(builder, loc, channel, none, /*part=*/0);
    pipe::SendOp::create(builder, loc, numbers, channel, none);
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

  /// Clones what the item does before the next one's head. An item that does not exist has a loop
  /// without iterations.
  static void emitEarly(OpBuilder &builder, Item &item, Value exists, IRMapping &current) {
    Location loc = item.loop.getLoc();
    for (Operation *op : item.early) {
      if (op == item.loop) {
        Value low = current.lookupOrDefault(item.loop.getLowerBound()),
              high = current.lookupOrDefault(item.loop.getUpperBound());
        auto loop = cast<scf::ForOp>(builder.clone(*op, current));
        OpBuilder before(loop);
        loop.getUpperBoundMutable().assign(arith::SelectOp::create(before, loc, exists, high, low));
      } else if (isRepeatable(op)) {
        builder.clone(*op, current);
      } else {
        emitIfExists(builder, item, op, exists, current);
      }
    }
  }

  /// Clones `op` into a branch. Without an item its results are what the loop over items began
  /// with.
  static void emitIfExists(OpBuilder &builder, Item &item, Operation *op, Value exists,
                           IRMapping &current) {
    Location loc = op->getLoc();
    bool hasResults = op->getNumResults() > 0;
    auto branch = scf::IfOp::create(builder, loc, op->getResultTypes(), exists, hasResults);
    OpBuilder then = OpBuilder::atBlockBegin(branch.thenBlock());
    Operation *copy = then.clone(*op, current);
    if (!hasResults)
      return;
    scf::YieldOp::create(then, loc, copy->getResults());
    scf::YieldOp onward = item.items.getYieldOp();
    SmallVector<Value> none;
    for (Value result : op->getResults()) {
      auto yielded = llvm::find(onward.getOperands(), result);
      none.push_back(item.items.getInits()[std::distance(onward.getOperands().begin(), yielded)]);
    }
    OpBuilder otherwise = OpBuilder::atBlockBegin(branch.elseBlock());
    scf::YieldOp::create(otherwise, loc, none);
    current.map(op->getResults(), branch.getResults());
  }

  static void overlap(Item &item) {
    scf::WhileOp items = item.items;
    scf::ForOp loop = item.loop;
    scf::YieldOp ofItems = items.getYieldOp();
    Location loc = items.getLoc();
    OpBuilder builder(items);

    // In front of the first item stands one that does not exist.
    ValueRange carried = item.carried.getArrayRef();
    SmallVector<Value> start = {arith::ConstantIntOp::create(builder, loc, 1, 1),
                                arith::ConstantIntOp::create(builder, loc, 0, 1)};
    for (Value value : carried)
      start.push_back(zeroOf(builder, loc, value.getType()));
    for (auto [yielded, init] : llvm::zip_equal(ofItems.getOperands(), items.getInits()))
      if (item.carried.contains(yielded))
        start[2 + std::distance(item.carried.begin(), llvm::find(item.carried, yielded))] = init;

    SmallVector<Type> all(ValueRange(start).getTypes()), given(llvm::drop_begin(all));
    auto rotated = scf::WhileOp::create(builder, loc, given, start);
    OpBuilder before(builder.getContext()), inside(builder.getContext());
    Block *condition =
        before.createBlock(&rotated.getBefore(), {}, all, SmallVector<Location>(all.size(), loc));
    scf::ConditionOp::create(before, loc, condition->getArgument(0),
                             condition->getArguments().drop_front());
    Block *body = inside.createBlock(&rotated.getAfter(), {}, given,
                                     SmallVector<Location>(given.size(), loc));
    Value exists = body->getArgument(0);
    IRMapping current;
    current.map(carried, body->getArguments().drop_front());
    for (Operation &op : item.head())
      if (item.remade.contains(&op))
        inside.clone(op, current);
    emitEarly(inside, item, exists, current);

    IRMapping next;
    Value more = takeItem(inside, items, lookup(current, ofItems.getOperands()), next);
    SmallVector<Type> results(carried.getTypes());
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
    }
    scf::YieldOp::create(otherwise, loc, yielded);
    auto ending = scf::IfOp::create(inside, loc, exists, /*withElseRegion=*/false);
    OpBuilder real = OpBuilder::atBlockBegin(ending.thenBlock());
    cloneAll(real, item.last ? item.rest : item.late, current);
    SmallVector<Value> onward = {more, arith::ConstantIntOp::create(inside, loc, 1, 1)};
    llvm::append_range(onward, branch.getResults().take_front(carried.size()));
    scf::YieldOp::create(inside, loc, onward);
    items.erase();
  }
};

} // namespace
} // namespace tesela
