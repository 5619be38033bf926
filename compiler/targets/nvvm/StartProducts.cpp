//===- StartProducts.cpp - pipe-start-products ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Names in this file: the *head* is what the first product of an iteration needs. The iteration
// before does it, behind its own last product. The *tail* begins with the last products, those that
// need no result of a product that may still run: with it begins what a loop's exit must not cut
// apart, for ptxas 13.0 makes all products wait (C7514) where one that started before the exit is
// awaited behind another that starts after it. The *main* part is what stands before. Where all
// products are of stages there are no last ones, and the tail begins with what uses the result of
// another than the first.
//
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/RoleRegisters.h"
#include "targets/nvvm/TileRegisters.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPESTARTPRODUCTS
#include "targets/nvvm/Passes.h.inc"

namespace {

/// Loops with two products that no loop stands around have a pass of their own,
/// pipe-overlap-products, unless both are of stages.
constexpr size_t fewestProducts = 3, fewestInside = 2;

/// A third accumulator in flight takes registers that the heads of 128 do not have.
constexpr size_t mostInFlight = 2;

/// A thread's registers that tiles must leave for addresses, counts and elements that are being
/// computed. With D 128, of the library's 51 variants those that leave 16 or more compile without
/// products that wait for each other (C7512), and those that leave 0 or fewer do not (ptxas 13.0).
constexpr int64_t otherRegisters = 16;

/// And beside sums of more columns than 128: with D 256 nothing of AssemblyTest's variants is
/// spilled with 48; with 40 it is 12 to 20 bytes of windows and ALiBi, with 16 ptxas serialises
/// documents.
constexpr int64_t wideColumns = 128, otherRegistersBesideWide = 48;

/// What additions to memory are better off with: each thread computes where they go. With D 128 12
/// to 16 bytes are spilled without.
constexpr int64_t registersOfAdditions = 16;

/// A row that no sequence has, far from the end of i32: what stands for the block of an iteration
/// that there was not.
constexpr int64_t rowBehindAll = int64_t(1) << 30;

/// A loop, and what is done where.
struct Chain {
  scf::ForOp loop;
  tile::DotOp first, last;             ///< no last one where all products are of stages
  SmallVector<tile::DotOp> early;      ///< other products of stages alone
  llvm::SetVector<Operation *> head;   ///< in the order of the body; `first` itself is not in it
  SmallVector<Value> received;         ///< what awaits of the head give the rest of the iteration
  SmallVector<Operation *> main, tail; ///< without what only the head needs to do
  SmallVector<pipe::AddOutOp> late;    ///< additions of the tail that the next main part starts
  pipe::BarrierOp lastBarrier;         ///< before `last`; in front of it late additions are drained

  Block &body() { return *loop.getBody(); }
  /// Of the body, or given to it.
  bool isInside(Value value) { return loop.getBodyRegion().isAncestor(value.getParentRegion()); }
  /// Whether the head needs `argument` of the loop.
  bool isOfHead(Value argument) {
    return llvm::any_of(argument.getUsers(), [&](Operation *user) { return head.contains(user); });
  }
};

Value channelThatFills(Value buffer) {
  for (Operation *user : buffer.getUsers())
    if (auto fill = dyn_cast<pipe::FillOp>(user); fill && fill.getBuffer() == buffer)
      return fill.getChannel();
  return {};
}

/// The stage that `tile` lies in; null where it is computed.
pipe::SlotOp stageOf(Value tile) { return tile.getDefiningOp<pipe::SlotOp>(); }

/// The pipe.await in the body for what `slot` reads; null where there are none or several.
pipe::AwaitOp awaitOf(Chain &chain, pipe::SlotOp slot) {
  pipe::AwaitOp found;
  Value channel = channelThatFills(slot.getBuffer());
  for (auto await : chain.body().getOps<pipe::AwaitOp>())
    if (await.getChannel() == channel) {
      if (found)
        return {};
      found = await;
    }
  return found;
}

/// Whether `tile` is in shared memory before the iteration begins to compute.
bool isOfStages(Chain &chain, Value tile) {
  return !chain.isInside(tile) || (stageOf(tile) && awaitOf(chain, stageOf(tile)));
}

bool isOfStages(Chain &chain, tile::DotOp dot) {
  return isOfStages(chain, dot.getA()) && isOfStages(chain, dot.getB()) &&
         !chain.isInside(dot.getC());
}

/// Notes that the head does `op` and what `op` needs. Not where that is more than numbers.
bool addToHead(Chain &chain, Operation *op) {
  if (!op || op->getBlock() != &chain.body() || chain.head.contains(op))
    return true; // the loop's own values are carried
  auto slot = dyn_cast<pipe::SlotOp>(op);
  auto await = dyn_cast<pipe::AwaitOp>(op);
  if ((!isMemoryEffectFree(op) && !await) || op->getNumRegions() > 0)
    return false;
  if (slot && !addToHead(chain, awaitOf(chain, slot)))
    return false;
  for (Value operand : op->getOperands())
    if (!addToHead(chain, operand.getDefiningOp()))
      return false;
  chain.head.insert(op);
  if (await)
    llvm::append_range(chain.received, await.getValues());
  return true;
}

bool hasSameHead(Chain &chain, Value block);

/// Whether `value`, a batch or a head, is the same in each iteration.
bool isSame(Chain &chain, Value value) {
  Operation *op = value.getDefiningOp();
  if (!chain.isInside(value))
    return true;
  if (auto coordinates = dyn_cast_or_null<tile::CoordinatesOp>(op))
    return value != coordinates.getFirst() && hasSameHead(chain, coordinates.getBlock());
  return isa_and_nonnull<arith::AddIOp, arith::MulIOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value each) { return isSame(chain, each); });
}

/// Whether the blocks that `block` is in each iteration are of one batch and one head.
bool hasSameHead(Chain &chain, Value block) {
  if (!chain.isInside(block))
    return true;
  auto op = block.getDefiningOp<tile::BlockOp>();
  return op && op.getOf() && hasSameHead(chain, op.getOf()) &&
         (!op.getBatch() || isSame(chain, op.getBatch())) &&
         (!op.getHead() || isSame(chain, op.getHead()));
}

/// An addition that starts right behind the writes to its buffer waits for them. Started beside the
/// next iteration's first products, it finds them done. The consumers meet once more before the
/// last product: there they also learn that the copy engine has read the buffer.
void findLateAdditions(Chain &chain) {
  if (!chain.last)
    return;
  for (auto barrier : chain.body().getOps<pipe::BarrierOp>())
    if (barrier->isBeforeInBlock(chain.last))
      chain.lastBarrier = barrier;
  if (!chain.lastBarrier)
    return;
  for (Operation *op : chain.tail)
    if (auto addition = dyn_cast<pipe::AddOutOp>(op)) {
      Operation *block = addition.getBlock().getDefiningOp();
      if (!hasSameHead(chain, addition.getBlock()) || block->getBlock() != &chain.body() ||
          !block->isBeforeInBlock(chain.first))
        return chain.late.clear();
      chain.late.push_back(addition);
    }
  if (!chain.late.empty())
    llvm::erase_if(chain.tail, llvm::IsaPred<pipe::DrainOp>);
}

/// Whether `op` uses what a product gives. Then it waits for it.
bool usesProduct(Operation &op) {
  return llvm::any_of(valuesUsedBy(op),
                      [](Value used) { return bool(used.getDefiningOp<tile::DotOp>()); });
}

/// The first of the last products of `dots` between which nothing waits for a product.
tile::DotOp firstOfTail(ArrayRef<tile::DotOp> dots) {
  tile::DotOp found = dots.back();
  for (tile::DotOp dot : llvm::reverse(dots.drop_back())) {
    if (llvm::any_of(
            llvm::make_range(std::next(dot->getIterator()), std::next(found->getIterator())),
            usesProduct))
      break;
    found = dot;
  }
  return found;
}

/// The first op that uses what one of `dots` gives.
Operation *firstUser(ArrayRef<tile::DotOp> dots) {
  Block &body = *dots.front()->getBlock();
  for (Operation &op : body)
    if (llvm::any_of(valuesUsedBy(op), [&](Value used) {
          return llvm::is_contained(dots, used.getDefiningOp<tile::DotOp>());
        }))
      return &op;
  return body.getTerminator();
}

/// Nothing where the loop is not of the form that Passes.td shows.
std::optional<Chain> findChain(scf::ForOp loop) {
  Chain chain{loop, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  auto dots = llvm::to_vector(chain.body().getOps<tile::DotOp>());
  bool isOfStagesAlone =
      llvm::all_of(dots, [&](tile::DotOp dot) { return isOfStages(chain, dot); });
  size_t fewest =
      loop->getParentOfType<scf::ForOp>() || isOfStagesAlone ? fewestInside : fewestProducts;
  if (dots.size() < fewest || !chain.body().getOps<scf::ForOp>().empty())
    return std::nullopt;
  for (tile::DotOp dot : dots)
    if (isOfStages(chain, dot)) {
      if (chain.first)
        chain.early.push_back(dot);
      else
        chain.first = dot;
    }
  if (!isOfStagesAlone)
    chain.last = dots.back();
  if (!chain.first || chain.first == chain.last || llvm::is_contained(chain.early, chain.last))
    return std::nullopt;
  for (Value operand : {chain.first.getA(), chain.first.getB()})
    if (!addToHead(chain, operand.getDefiningOp()))
      return std::nullopt;
  auto head = chain.head.takeVector();
  llvm::sort(head, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  chain.head.insert(head.begin(), head.end());

  // Without a second stage the head would wait for what is still read.
  for (Operation *op : chain.head)
    if (auto await = dyn_cast<pipe::AwaitOp>(op))
      if (await.getChannel().getType().getStages() < 2)
        return std::nullopt;
  Operation *firstOfTail =
      isOfStagesAlone ? firstUser(chain.early) : tesela::firstOfTail(dots).getOperation();
  if (!chain.first->isBeforeInBlock(firstOfTail) ||
      !llvm::all_of(chain.early,
                    [&](tile::DotOp dot) { return dot->isBeforeInBlock(firstOfTail); }))
    return std::nullopt;
  bool isTail = false;
  for (Operation &op : chain.body().without_terminator()) {
    bool isOfHead = chain.head.contains(&op) && isa<pipe::AwaitOp>(op);
    isTail |= &op == firstOfTail;
    if (!isOfHead)
      (isTail ? chain.tail : chain.main).push_back(&op);
  }
  // A stage is no value that goes through the loop's exit: the tail finds it anew.
  llvm::SetVector<Operation *> slots;
  for (Operation *op : chain.tail)
    for (Value used : valuesUsedBy(*op))
      if (pipe::SlotOp slot = stageOf(used); slot && llvm::is_contained(chain.main, slot))
        slots.insert(slot);
  chain.tail.insert(chain.tail.begin(), slots.begin(), slots.end());
  // The next head comes right behind the last product, or begins the tail.
  Operation *ahead = chain.last ? chain.last.getOperation() : firstOfTail;
  for (auto [argument, yielded] : llvm::zip(loop.getRegionIterArgs(), loop.getYieldedValues()))
    if (Operation *op = yielded.getDefiningOp(); chain.isOfHead(argument) && op &&
                                                 op->getBlock() == &chain.body() &&
                                                 (op == firstOfTail || ahead->isBeforeInBlock(op)))
      return std::nullopt;
  findLateAdditions(chain);
  return chain;
}

/// Writes an iteration, or a part of one.
class Writer {
public:
  Writer(Chain &chain, OpBuilder builder) : chain(chain), builder(builder) {}

  /// A product that runs: which one it is, and what started it or carries it.
  struct Product {
    tile::DotOp dot;
    Value started;
    bool isOfNext = false; ///< it reads the next iteration's stages
  };

  void write(Operation *op);
  /// Starts `dot`, for the iteration whose values are in `values`.
  Value start(tile::DotOp dot, IRMapping &values);
  /// Awaits `product`, if it runs, and what started before it.
  void awaitUntil(Value product);
  /// Awaits all products but the last `count`.
  void awaitAllBut(size_t count) {
    while (products.size() > count)
      awaitOldest();
  }

  Chain &chain;
  OpBuilder builder;
  IRMapping mapping;
  SmallVector<Product> products;         ///< in flight, the oldest first
  SmallVector<pipe::ReleaseOp> releases; ///< of stages that these read
  SmallVector<Value> lateRows;           ///< where the additions of the iteration before go

private:
  void awaitOldest();
  bool isRead(pipe::ReleaseOp release);
};

void Writer::awaitOldest() {
  Product product = products.front();
  products.erase(products.begin());
  tile::DotOp dot = product.dot;
  mapping.map(dot.getResult(), pipe::DotWaitOp::create(builder, dot.getLoc(), dot.getType(),
                                                       product.started, products.size()));
  for (pipe::ReleaseOp release : std::exchange(releases, {})) {
    if (isRead(release))
      releases.push_back(release);
    else
      builder.clone(*release, mapping);
  }
}

void Writer::awaitUntil(Value product) {
  auto isIt = [&](const Product &other) {
    return !other.isOfNext && other.dot->getResult(0) == product;
  };
  while (llvm::any_of(products, isIt))
    awaitOldest();
}

/// Whether a product in flight reads a stage that `release` gives back.
bool Writer::isRead(pipe::ReleaseOp release) {
  return llvm::any_of(products, [&](const Product &product) {
    tile::DotOp dot = product.dot;
    return !product.isOfNext &&
           llvm::any_of(ValueRange{dot.getA(), dot.getB()}, [&](Value operand) {
             pipe::SlotOp slot = stageOf(operand);
             return slot && channelThatFills(slot.getBuffer()) == release.getChannel();
           });
  });
}

Value Writer::start(tile::DotOp dot, IRMapping &values) {
  awaitUntil(dot.getC());
  awaitAllBut(mostInFlight - 1);
  auto started = pipe::DotStartOp::create(
      builder, dot.getLoc(), dot, values.lookupOrDefault(dot.getA()),
      values.lookupOrDefault(dot.getB()), values.lookupOrDefault(dot.getC()));
  products.push_back({dot, started});
  return started;
}

void Writer::write(Operation *op) {
  if (op == chain.first) {
    for (tile::DotOp dot : chain.early)
      start(dot, mapping);
    for (auto [addition, row] : llvm::zip_equal(chain.late, lateRows)) {
      Location loc = addition.getLoc();
      Value block = tile::BlockOp::create(builder, loc, addition.getBlock().getType(), row, Value(),
                                          Value(), mapping.lookup(addition.getBlock()));
      pipe::AddOutOp::create(builder, loc, addition.getBuffer(), addition.getView(), block,
                             /*late=*/true);
    }
    return;
  }
  if (op == chain.lastBarrier && !chain.late.empty())
    pipe::DrainOp::create(builder, op->getLoc());
  auto dot = dyn_cast<tile::DotOp>(op);
  if (dot && llvm::is_contained(chain.early, dot))
    return;
  for (Value used : valuesUsedBy(*op))
    awaitUntil(used);
  auto release = dyn_cast<pipe::ReleaseOp>(op);
  if (dot)
    start(dot, mapping);
  else if (release && isRead(release))
    releases.push_back(release);
  else
    builder.clone(*op, mapping);
}

/// Writes the loop anew.
class Rewriter {
public:
  explicit Rewriter(Chain &chain) : chain(chain), loc(chain.loop.getLoc()) {}
  void run();

private:
  /// Does the head of the iteration whose loop values are in `mapping`, and starts its product.
  Value writeHead(Writer &writer, IRMapping &mapping);
  SmallVector<Value> valuesForTail(Writer &main);
  SmallVector<Value> writeTail(Writer &writer, Value next);

  Chain &chain;
  Location loc;
};

Value Rewriter::writeHead(Writer &writer, IRMapping &mapping) {
  writer.awaitAllBut(mostInFlight - 1); // stages are given back before others are awaited
  for (Operation *op : chain.head)
    writer.builder.clone(*op, mapping);
  return writer.start(chain.first, mapping);
}

/// What the tail, the next head and the next iteration use of the main part and of the loop.
SmallVector<Value> Rewriter::valuesForTail(Writer &main) {
  llvm::SetVector<Value> used;
  auto add = [&](Operation *op) {
    for (Value value : valuesUsedBy(*op)) {
      Operation *definition = value.getDefiningOp();
      bool isOfTail = llvm::is_contained(chain.tail, definition);
      if (chain.isInside(value) && !isOfTail)
        used.insert(value);
    }
  };
  for (Operation *op : chain.tail)
    add(op);
  add(chain.body().getTerminator());
  return used.takeVector();
}

void Rewriter::run() {
  scf::ForOp loop = chain.loop;
  OpBuilder builder(loop);
  Value low = loop.getLowerBound(), high = loop.getUpperBound();
  auto isLess = [&](OpBuilder &at, Value a, Value b) -> Value {
    return arith::CmpIOp::create(at, loc, arith::CmpIPredicate::slt, a, b);
  };
  auto branch = scf::IfOp::create(builder, loc, loop.getResultTypes(), isLess(builder, low, high),
                                  /*withElseRegion=*/true);
  branch->setAttr(countedAttr, builder.getUnitAttr());
  OpBuilder otherwise = OpBuilder::atBlockBegin(branch.elseBlock());
  scf::YieldOp::create(otherwise, loc, loop.getInitArgs());

  // The first head.
  Writer before(chain, OpBuilder::atBlockBegin(branch.thenBlock()));
  before.mapping.map(loop.getInductionVar(), low);
  before.mapping.map(loop.getRegionIterArgs(), loop.getInitArgs());
  Value started = writeHead(before, before.mapping);

  // What the loop carries: its number, what it carried before, what the head received, the product.
  SmallVector<Value> originals = {loop.getInductionVar()};
  llvm::append_range(originals, loop.getRegionIterArgs());
  llvm::append_range(originals, chain.received);
  SmallVector<Value> start = llvm::map_to_vector(
      originals, [&](Value value) { return before.mapping.lookupOrDefault(value); });
  for (pipe::AddOutOp addition : chain.late)
    start.push_back(
        arith::ConstantIntOp::create(before.builder, addition.getLoc(), rowBehindAll, 32));
  start.push_back(started);
  SmallVector<Location> locations(start.size(), loc);

  OpBuilder detached(builder.getContext());
  auto rotated = scf::WhileOp::create(before.builder, loc, TypeRange(), ValueRange(start));
  Block *mainBlock =
      detached.createBlock(&rotated.getBefore(), {}, ValueRange(start).getTypes(), locations);
  Writer main(chain, OpBuilder::atBlockBegin(mainBlock));
  auto carried = mainBlock->getArguments();
  main.mapping.map(originals, carried.take_front(originals.size()));
  main.lateRows.assign(carried.begin() + originals.size(), carried.end() - 1);
  main.products.push_back({chain.first, mainBlock->getArguments().back()});
  for (Operation *op : chain.main)
    main.write(op);
  main.awaitAllBut(0);
  Value next = arith::AddIOp::create(main.builder, loc, mainBlock->getArgument(0), loop.getStep());
  Value more = isLess(main.builder, next, high);

  // What the tail needs, then the next iteration's number.
  SmallVector<Value> needed = valuesForTail(main), passed;
  for (Value value : needed)
    passed.push_back(main.mapping.lookupOrDefault(value));
  passed.push_back(next);
  scf::ConditionOp::create(main.builder, loc, more, passed);

  auto takeOver = [&](Writer &writer, ValueRange given) {
    writer.mapping.map(needed, given.drop_back());
  };
  SmallVector<Type> types(ValueRange(passed).getTypes());
  Block *tailBlock = detached.createBlock(&rotated.getAfter(), {}, types,
                                          SmallVector<Location>(types.size(), loc));
  Writer tail(chain, OpBuilder::atBlockBegin(tailBlock));
  takeOver(tail, tailBlock->getArguments());
  SmallVector<Value> onward = writeTail(tail, tailBlock->getArguments().back());
  scf::YieldOp::create(tail.builder, loc, onward);

  // Only now is it known what the loop gives. Its last tail has no next iteration.
  OpBuilder behind(rotated);
  auto ending = scf::WhileOp::create(behind, loc, types, ValueRange(start));
  ending->setAttr(countedAttr, builder.getUnitAttr());
  ending.getBefore().takeBody(rotated.getBefore());
  ending.getAfter().takeBody(rotated.getAfter());
  rotated.erase();
  Writer end(chain, OpBuilder::atBlockEnd(branch.thenBlock()));
  takeOver(end, ending.getResults());
  scf::YieldOp::create(end.builder, loc, writeTail(end, /*next=*/{}));
  loop.replaceAllUsesWith(branch.getResults());
  loop.erase();
}

/// Gives what the loop carries on to iteration `next`; without one, what the loop gives.
SmallVector<Value> Rewriter::writeTail(Writer &writer, Value next) {
  scf::ForOp loop = chain.loop;
  IRMapping ahead;
  Value started;
  auto rest = chain.last ? std::next(llvm::find(chain.tail, chain.last)) : chain.tail.begin();
  auto writeRest = [&] {
    for (Operation *op : llvm::make_range(rest, chain.tail.end()))
      if (!next || !llvm::is_contained(chain.late, op))
        writer.write(op);
  };
  for (Operation *op : llvm::make_range(chain.tail.begin(), rest))
    writer.write(op);
  // The writes of what is added late go in front of the next head: beside its product, which reads
  // shared memory all the time, they take longer, and their registers are those of the products
  // that follow.
  bool writesFirst = !chain.late.empty();
  if (writesFirst)
    writeRest();
  if (next) {
    ahead.map(loop.getInductionVar(), next);
    for (auto [argument, yielded] : llvm::zip(loop.getRegionIterArgs(), loop.getYieldedValues()))
      if (chain.isOfHead(argument))
        ahead.map(argument, writer.mapping.lookupOrDefault(yielded));
    started = writeHead(writer, ahead);
    writer.products.back().isOfNext = true;
  }
  if (!writesFirst)
    writeRest();
  writer.awaitAllBut(next ? 1 : 0);
  SmallVector<Value> values;
  if (next)
    values.push_back(next);
  for (Value yielded : loop.getYieldedValues())
    values.push_back(writer.mapping.lookupOrDefault(yielded));
  if (next) {
    for (Value received : chain.received)
      values.push_back(ahead.lookup(received));
    for (pipe::AddOutOp addition : chain.late)
      values.push_back(
          tile::CoordinatesOp::create(writer.builder, addition.getLoc(),
                                      writer.mapping.lookupOrDefault(addition.getBlock()))
              .getFirst());
    values.push_back(started);
  }
  return values;
}

/// Rewrites the loops of the consumers of `kernel`. Whether there was one.
bool startProducts(tile::KernelOp kernel) {
  SmallVector<scf::ForOp> loops;
  for (auto roles : kernel.getBodyBlock().getOps<pipe::RolesOp>())
    roles.getConsumers().walk([&](scf::ForOp loop) { loops.push_back(loop); });
  bool hasChanged = false;
  for (scf::ForOp loop : loops)
    if (std::optional<Chain> chain = findChain(loop)) {
      Rewriter(*chain).run();
      hasChanged = true;
    }
  return hasChanged;
}

bool hasWideSums(tile::KernelOp kernel) {
  auto isWide = [](Operation *product) {
    return cast<tile::TileType>(product->getResult(0).getType()).getExtent(1) > wideColumns;
  };
  return kernel
      .walk([&](Operation *op) {
        return isa<tile::DotOp, pipe::DotStartOp>(op) && isWide(op) ? WalkResult::interrupt()
                                                                    : WalkResult::advance();
      })
      .wasInterrupted();
}

bool hasAdditions(tile::KernelOp kernel) {
  return kernel.walk([](pipe::AddOutOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Gives the consumers more registers where that helps. Whether they hold the tiles then.
bool makeRoomForTiles(tile::KernelOp kernel) {
  for (auto roles : kernel.getBodyBlock().getOps<pipe::RolesOp>()) {
    bool isWide = hasWideSums(kernel);
    int64_t needed = nvvm::tileRegisters(kernel.getBodyBlock()) +
                     (isWide ? otherRegistersBesideWide : otherRegisters);
    int64_t wanted = needed + (hasAdditions(kernel) ? registersOfAdditions : 0);
    if (wanted <= int64_t(roles.getConsumerRegisters()))
      return true;
    // Then smaller blocks take its place (driver/Attempts.h), with which nothing is spilled.
    if (isWide && !roles.getFinder().empty())
      return false;
    nvvm::dealConsumersMore(roles);
    return needed <= int64_t(roles.getConsumerRegisters());
  }
  return false;
}

struct PipeStartProducts : impl::PipeStartProductsBase<PipeStartProducts> {
  void runOnOperation() override {
    OwningOpRef<tile::KernelOp> trial = getOperation().clone();
    if (!startProducts(*trial))
      return;
    if (makeRoomForTiles(*trial))
      getOperation()->getRegion(0).takeBody(trial->getOperation()->getRegion(0));
    else
      getOperation()->setAttr(productsWaitAttr, UnitAttr::get(&getContext()));
  }
};

} // namespace
} // namespace tesela
