//===- StartProducts.cpp - pipe-start-products ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/nvvm/CarriedCounts.h"
#include "targets/nvvm/ChipFacts.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/ProductChain.h"
#include "targets/nvvm/RoleRegisters.h"
#include "targets/nvvm/RoleSteps.h"
#include "targets/nvvm/TileRegisters.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPESTARTPRODUCTS
#include "targets/nvvm/Passes.h.inc"

namespace {

/// A third accumulator in flight needs registers that kernels of head dimension 128 do not have.
constexpr size_t mostInFlight = 2;

/// How many registers of a thread the tiles must leave for addresses, counts and elements that are
/// being computed. Measured with D 128 and ptxas 13.0: of the library's 51 variants, those that
/// leave 16 or more compile without waiting products (C7512), and those that leave 0 or fewer do
/// not.
constexpr int64_t otherRegisters = 16;

/// The same beside sums of more than 128 columns. With D 256 and 48 none of AssemblyTest's variants
/// spills. With 40, windows and ALiBi spill 12 to 20 bytes. With 16, ptxas serialises the products
/// of documents.
constexpr int64_t wideColumns = 128, otherRegistersBesideWide = 48;

/// Further registers for kernels whose copies add to memory: threads compute addresses for them.
/// With D 128 such kernels spill 12 to 16 bytes without them.
constexpr int64_t registersOfAdditions = 16;

constexpr int chipWithRoles = 90; // roles need wgmma and setmaxnreg

/// The row that stands for "no block": larger than any row of a sequence, and far from the end of
/// i32. It is used where an iteration refers to the one before and there is none.
constexpr int64_t rowBehindAll = int64_t(1) << 30;

/// Writes an iteration or a part of one.
class Writer {
public:
  Writer(ProductChain &chain, OpBuilder builder) : chain(chain), builder(builder) {}

  /// A product in flight: its op, and the value that stands for it, which is the result of a
  /// pipe.dot_start or an argument of the loop.
  struct Product {
    tile::DotOp dot;
    Value started;
    bool isOfNext = false; ///< whether it reads the stages of the next iteration
  };

  void write(Operation *op);
  /// Starts `dot`, for the iteration whose values are in `values`.
  Value start(tile::DotOp dot, IRMapping &values);
  /// Awaits `product`, if it is in flight, and all products that started before it.
  void awaitUntil(Value product);
  /// The use of the exchange in the iteration whose values are in `mapping`.
  Value useOfExchange() {
    return mapping.lookupOrDefault(chain.loop.getRegionIterArg(chain.exchange->count));
  }
  /// Starts the last product for use `use` of the exchange.
  void startLast(Value use);
  /// Awaits the product that startLast started and releases its stage. When the buffer is free,
  /// writes the result by `ops`.
  void writeLast(Value use, ArrayRef<Operation *> ops);
  /// Adds what was written for the block that begins at `row`. A row behind all rows adds nothing.
  void addLate(pipe::AddOutOp addition, Value row);
  /// Awaits all products but the `count` youngest.
  void awaitAllBut(size_t count) {
    while (products.size() > count)
      awaitOldest();
  }

  ProductChain &chain;
  OpBuilder builder;
  IRMapping mapping;
  SmallVector<Product> products;         ///< in flight, the oldest first
  SmallVector<pipe::ReleaseOp> releases; ///< postponed: products in flight still read these stages
  SmallVector<Value> lateRows; ///< first rows to which the last iteration's results are added

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

/// Whether a product in flight reads a stage that `release` releases.
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

void Writer::startLast(Value use) {
  auto [write, slot, count, channel] = *chain.exchange;
  Location loc = slot.getLoc();
  pipe::AwaitOp::create(builder, loc, TypeRange(), channel, use);
  Value stages = arith::ConstantIntOp::create(builder, loc, nvvm::stagesOf(channel), 32);
  Value stage = arith::RemUIOp::create(builder, loc, use, stages);
  mapping.map(
      slot.getTile(),
      pipe::SlotOp::create(builder, loc, slot.getType(), slot.getBuffer(), stage).getTile());
  start(chain.last, mapping);
}

void Writer::writeLast(Value use, ArrayRef<Operation *> ops) {
  Location loc = chain.last.getLoc();
  awaitUntil(chain.last.getResult());
  pipe::ReleaseOp::create(builder, loc, chain.exchange->channel, use);
  pipe::DrainOp::create(builder, loc);
  for (Operation *op : ops)
    write(op);
}

void Writer::addLate(pipe::AddOutOp addition, Value row) {
  Location loc = addition.getLoc();
  Value block = tile::BlockOp::create(builder, loc, addition.getBlock().getType(), row, Value(),
                                      Value(), mapping.lookup(addition.getBlock()));
  pipe::AddOutOp::create(builder, loc, addition.getBuffer(), addition.getView(), block,
                         /*late=*/true);
}

void Writer::write(Operation *op) {
  if (op == chain.first) {
    for (tile::DotOp dot : chain.early)
      start(dot, mapping);
    for (auto [addition, row] : llvm::zip_equal(chain.late, lateRows))
      addLate(addition, row);
    return;
  }
  if (chain.exchange) {
    auto [write, slot, count, channel] = *chain.exchange;
    if (op == write)
      pipe::AcquireOp::create(builder, op->getLoc(), channel, useOfExchange(), /*part=*/0);
    if (op == chain.lastBarrier)
      return void(pipe::PublishOp::create(builder, op->getLoc(), slot.getBuffer(), channel,
                                          useOfExchange()));
    if (op == slot)
      return; // startLast makes a slot for the stage that it reads
  } else if (op == chain.lastBarrier && !chain.late.empty()) {
    pipe::DrainOp::create(builder, op->getLoc());
  }
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

/// Rewrites the loop.
class Rewriter {
public:
  explicit Rewriter(ProductChain &chain) : chain(chain), loc(chain.loop.getLoc()) {}
  void run();
  /// Starts all products in the iteration to which they belong.
  void runInside();

private:
  /// Writes the head of the iteration whose loop values are in `mapping`, and starts its product.
  Value writeHead(Writer &writer, IRMapping &mapping);
  SmallVector<Value> valuesForTail(Writer &main);
  /// Writes the tail. Returns what the loop carries to iteration `next` or, if that is null, what
  /// the loop gives. `lastRow`: the row to which the iteration before adds its result, if that
  /// addition is late.
  SmallVector<Value> writeTail(Writer &writer, Value next, Value lastRow);

  ProductChain &chain;
  Location loc;
};

Value Rewriter::writeHead(Writer &writer, IRMapping &mapping) {
  writer.awaitAllBut(mostInFlight - 1); // releases stages before the head awaits others
  for (Operation *op : chain.head)
    writer.builder.clone(*op, mapping);
  return writer.start(chain.first, mapping);
}

/// The values of the main part and of the loop that the tail, the next head or the next iteration
/// uses.
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

  // The head of the first iteration.
  Writer before(chain, OpBuilder::atBlockBegin(branch.thenBlock()));
  before.mapping.map(loop.getInductionVar(), low);
  before.mapping.map(loop.getRegionIterArgs(), loop.getInitArgs());
  Value started = writeHead(before, before.mapping);

  // The new loop carries the iteration's number, the values that the loop carried before, the
  // values that the head received, and the product in flight.
  SmallVector<Value> originals = {loop.getInductionVar()};
  llvm::append_range(originals, loop.getRegionIterArgs());
  llvm::append_range(originals, chain.received);
  SmallVector<Value> start = llvm::map_to_vector(
      originals, [&](Value value) { return before.mapping.lookupOrDefault(value); });
  // It also carries the rows of the late additions. If the last product runs one iteration late,
  // the rows of the next additions follow. The first iteration's late product has no reader.
  size_t carriedRows = chain.late.size() * (chain.exchange ? 2 : 1);
  for (size_t row = 0; row < carriedRows; ++row)
    start.push_back(arith::ConstantIntOp::create(before.builder, loc, rowBehindAll, 32));
  if (chain.exchange) {
    Value &use = start[1 + chain.exchange->count];
    pipe::OpenOp channel = chain.exchange->channel;
    pipe::AcquireOp::create(before.builder, loc, channel, use, /*part=*/0);
    pipe::PublishOp::create(before.builder, loc, chain.exchange->slot.getBuffer(), channel, use);
    use = arith::AddIOp::create(before.builder, loc, use,
                                arith::ConstantIntOp::create(before.builder, loc, 1, 32));
  }
  start.push_back(started);
  SmallVector<Location> locations(start.size(), loc);

  OpBuilder detached(builder.getContext());
  auto rotated = scf::WhileOp::create(before.builder, loc, TypeRange(), ValueRange(start));
  Block *mainBlock =
      detached.createBlock(&rotated.getBefore(), {}, ValueRange(start).getTypes(), locations);
  Writer main(chain, OpBuilder::atBlockBegin(mainBlock));
  auto carried = mainBlock->getArguments();
  main.mapping.map(originals, carried.take_front(originals.size()));
  auto rows = carried.drop_back().drop_front(originals.size());
  llvm::append_range(main.lateRows, rows.take_front(chain.late.size()));
  main.products.push_back({chain.first, mainBlock->getArguments().back()});
  for (Operation *op : chain.main)
    main.write(op);
  main.awaitAllBut(0);
  Value next = arith::AddIOp::create(main.builder, loc, mainBlock->getArgument(0), loop.getStep());
  Value more = isLess(main.builder, next, high);

  // Pass what the tail needs, then the next iteration's number.
  SmallVector<Value> needed = valuesForTail(main), passed;
  for (Value value : needed)
    passed.push_back(main.mapping.lookupOrDefault(value));
  if (chain.exchange)
    passed.push_back(rows.back());
  passed.push_back(next);
  scf::ConditionOp::create(main.builder, loc, more, passed);

  auto takeOver = [&](Writer &writer, ValueRange given) {
    writer.mapping.map(needed, given.take_front(needed.size()));
    return chain.exchange ? given.drop_back().back() : Value();
  };
  SmallVector<Type> types(ValueRange(passed).getTypes());
  Block *tailBlock = detached.createBlock(&rotated.getAfter(), {}, types,
                                          SmallVector<Location>(types.size(), loc));
  Writer tail(chain, OpBuilder::atBlockBegin(tailBlock));
  Value lastRow = takeOver(tail, tailBlock->getArguments());
  SmallVector<Value> onward = writeTail(tail, tailBlock->getArguments().back(), lastRow);
  scf::YieldOp::create(tail.builder, loc, onward);

  // Only now are the types of the loop's results known. The last tail has no next iteration.
  OpBuilder behind(rotated);
  auto ending = scf::WhileOp::create(behind, loc, types, ValueRange(start));
  ending->setAttr(countedAttr, builder.getUnitAttr());
  ending.getBefore().takeBody(rotated.getBefore());
  ending.getAfter().takeBody(rotated.getAfter());
  rotated.erase();
  Writer end(chain, OpBuilder::atBlockEnd(branch.thenBlock()));
  lastRow = takeOver(end, ending.getResults());
  scf::YieldOp::create(end.builder, loc, writeTail(end, /*next=*/{}, lastRow));
  loop.replaceAllUsesWith(branch.getResults());
  loop.erase();
}

/// Sums that are added from registers hold these until all additions have started. Beside them
/// there are no registers for the next iteration's first product, nor for the product before the
/// last one.
void Rewriter::runInside() {
  Block &body = chain.body();
  SmallVector<Operation *> old;
  for (Operation &op : body.without_terminator())
    old.push_back(&op);
  Writer writer(chain, OpBuilder(body.getTerminator()));
  writeHead(writer, writer.mapping);
  for (Operation *op : chain.main)
    writer.write(op);
  for (Operation *op : chain.tail) {
    if (op == chain.last)
      writer.awaitAllBut(0);
    writer.write(op);
  }
  writer.awaitAllBut(0);
  for (OpOperand &yielded : body.getTerminator()->getOpOperands())
    yielded.set(writer.mapping.lookupOrDefault(yielded.get()));
  for (Operation *op : llvm::reverse(old))
    op->erase();
}

SmallVector<Value> Rewriter::writeTail(Writer &writer, Value next, Value lastRow) {
  scf::ForOp loop = chain.loop;
  IRMapping ahead;
  Value started;
  auto rest = chain.last ? std::next(llvm::find(chain.tail, chain.last)) : chain.tail.begin();
  SmallVector<Operation *> restOps; ///< ops behind the last product
  for (Operation *op : llvm::make_range(rest, chain.tail.end()))
    if (!llvm::is_contained(chain.late, op))
      restOps.push_back(op);
  Value use, lastUse; ///< of the exchange, in this iteration and in the one before
  auto writeRest = [&] {
    if (chain.exchange) {
      writer.writeLast(lastUse, restOps);
      if (next)
        return;
      writer.addLate(chain.late.front(), lastRow);
      writer.startLast(use);
      writer.writeLast(use, *chain.last->user_begin());
    } else {
      for (Operation *op : restOps)
        writer.write(op);
    }
    if (!next)
      for (pipe::AddOutOp addition : chain.late)
        writer.write(addition);
  };
  for (Operation *op : llvm::make_range(chain.tail.begin(), rest))
    if (op != chain.last || !chain.exchange)
      writer.write(op);
  if (chain.exchange) {
    use = writer.useOfExchange();
    lastUse = arith::SubIOp::create(writer.builder, loc, use,
                                    arith::ConstantIntOp::create(writer.builder, loc, 1, 32));
    writer.startLast(lastUse);
  }
  // Write the results of late additions before the next head. Beside the head's product, which
  // reads shared memory all the time, these writes would take longer. They would also hold
  // registers that the following products need.
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
    if (chain.exchange) // what this iteration writes belongs to the iteration before
      values.insert(values.end() - 1, lastRow);
    values.push_back(started);
  }
  return values;
}

/// Opens the exchange's channel behind everything that pipe-place-buffers has placed. Drops the
/// exchange if there is no room, or if the loops do not carry the count of its uses as expected.
/// All scf.for loops around the chain carry this count already; the loop over work items gets it
/// here.
void openExchange(tile::KernelOp kernel, ProductChain &chain) {
  ProductChain::Exchange &exchange = *chain.exchange;
  auto roles = chain.loop->getParentOfType<pipe::RolesOp>();
  OpBuilder outside(roles);
  auto type =
      pipe::ChannelType::get(kernel.getContext(), exchange.slot.getBuffer().getType().getStages());
  int64_t end = cast<IntegerAttr>(kernel->getAttr(sharedBytesAttr)).getInt();
  int64_t offset = llvm::alignTo(end, 16);
  scf::ForOp outermost = chain.loop;
  unsigned count = exchange.count;
  bool isCarried = true;
  for (auto outer = outermost->getParentOfType<scf::ForOp>(); outer && isCarried;
       outer = outermost->getParentOfType<scf::ForOp>()) {
    auto start = dyn_cast<BlockArgument>(outermost.getInitArgs()[count]);
    isCarried = start && start.getOwner() == outer.getBody();
    if (isCarried) {
      count = start.getArgNumber() - 1;
      outermost = outer;
    }
  }
  auto items = outermost->getParentOfType<scf::WhileOp>();
  isCarried &= !items || outermost->getBlock() == items.getAfterBody();
  if (!isCarried || offset + type.getBytes() > chipFacts(chipWithRoles)->blockShared)
    return chain.exchange.reset();
  exchange.channel =
      pipe::OpenOp::create(outside, chain.loop.getLoc(), type, outside.getI64IntegerAttr(offset));
  kernel->setAttr(sharedBytesAttr, outside.getI64IntegerAttr(offset + type.getBytes()));
  if (!items)
    return;
  // The channel orders the uses of one work item before those of the next. So the consumers need no
  // barrier between items, unless an output lies over the exchange.
  if (llvm::none_of(exchange.slot.getBuffer().getUsers(), llvm::IsaPred<pipe::AllocOp>))
    for (auto barrier : llvm::make_early_inc_range(items.getAfterBody()->getOps<pipe::BarrierOp>()))
      barrier.erase();
  OpBuilder before(items);
  Value none = arith::ConstantIntOp::create(before, items.getLoc(), 0, 32);
  items = nvvm::carryMore(items, none);
  outermost.getInitArgsMutable()[count].assign(items.getAfterArguments().back());
  scf::YieldOp yield = items.getYieldOp();
  yield->setOperand(yield->getNumOperands() - 1, outermost.getResult(count));
}

/// Whether consumers add tiles to memory from their registers.
bool addsFromRegisters(tile::KernelOp kernel) {
  return kernel.walk([](tile::AccumulateOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Rewrites the loops of the consumers of `kernel`. Returns whether there was one to rewrite.
bool startProducts(tile::KernelOp kernel) {
  bool isInside = addsFromRegisters(kernel);
  SmallVector<scf::ForOp> loops;
  for (auto roles : kernel.getBodyBlock().getOps<pipe::RolesOp>())
    roles.getConsumers().walk([&](scf::ForOp loop) { loops.push_back(loop); });
  bool hasChanged = false;
  for (scf::ForOp loop : loops)
    if (std::optional<ProductChain> chain = findProductChain(loop)) {
      if (chain->exchange)
        openExchange(kernel, *chain);
      if (isInside)
        Rewriter(*chain).runInside();
      else
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

/// Gives the consumers more registers if that helps. Returns whether they can then hold the tiles.
bool makeRoomForTiles(tile::KernelOp kernel) {
  for (auto roles : kernel.getBodyBlock().getOps<pipe::RolesOp>()) {
    bool isWide = hasWideSums(kernel);
    int64_t needed = nvvm::tileRegisters(kernel.getBodyBlock()) +
                     (isWide ? otherRegistersBesideWide : otherRegisters);
    int64_t wanted = needed + (hasAdditions(kernel) ? registersOfAdditions : 0);
    if (wanted <= int64_t(roles.getConsumerRegisters()))
      return true;
    // Otherwise the driver tries smaller blocks (driver/Attempts.h), with which nothing is spilled.
    if (isWide && !roles.getFinder().empty())
      return needed <= int64_t(roles.getConsumerRegisters());
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
    if (makeRoomForTiles(*trial)) {
      getOperation()->getRegion(0).takeBody(trial->getOperation()->getRegion(0));
      if (Attribute bytes = trial->getOperation()->getAttr(sharedBytesAttr)) // incl. the exchange
        getOperation()->setAttr(sharedBytesAttr, bytes);
    } else {
      getOperation()->setAttr(productsWaitAttr, UnitAttr::get(&getContext()));
    }
  }
};

} // namespace
} // namespace tesela
