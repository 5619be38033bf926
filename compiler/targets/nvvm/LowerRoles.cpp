//===- LowerRoles.cpp - Roles, channels, tensor copies ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/RowMap.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/MatrixAddress.h"
#include "targets/nvvm/RoleOutputs.h"
#include "targets/nvvm/RoleSteps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

// The layout of a channel: for each part its full barriers, then its empty ones; at last the
// numbers.
static constexpr int64_t barrierBytes = 8;

/// Writes `body` for the threads where `number` is 0.
static void whereZero(OpBuilder &builder, Location loc, Value number,
                      llvm::function_ref<void()> body) {
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  Value isZero = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, number, zero);
  auto branch = scf::IfOp::create(builder, loc, isZero, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

void KernelLowering::onLaneZero(llvm::function_ref<void()> body) {
  whereZero(builder, loc, lane, body);
}

void KernelLowering::onRoleThread(llvm::function_ref<void()> body) {
  if (role == Role::Warp)
    onLaneZero(body);
  else
    body();
}

/// Whether lanes load what comes through the channel: numbers, or a row of them. Otherwise products
/// read it. Where lanes load, each lane arrives on the empty barrier, instead of one for its warp.
static bool isReadByLanes(TypedValue<pipe::ChannelType> channel) {
  return channel.getType().getWords() > 0 || llvm::any_of(channel.getUsers(), [](Operation *user) {
           auto fill = dyn_cast<pipe::FillOp>(user);
           return fill && fill.getView().getType().getRank() == 3;
         });
}

/// How many arrivals an empty barrier of the channel expects.
static int64_t readersOf(pipe::OpenOp open, pipe::RolesOp roles) {
  auto channel = open.getChannel().getType();
  int64_t warps = 0;
  auto isRead = [&](Region &region) {
    return llvm::any_of(open.getChannel().getUsers(), [&](Operation *user) {
      return isa<pipe::AwaitOp, pipe::ReceiveOp>(user) &&
             region.isAncestor(user->getParentRegion());
    });
  };
  if (isRead(roles.getConsumers()))
    warps += channel.getParts() > 1 ? 4 : 4 * roles.getCount();
  // The producer is one thread and arrives once.
  int64_t readers = isReadByLanes(open.getChannel()) ? 32 * warps : warps;
  return readers + (isRead(roles.getProducer()) ? 1 : 0);
}

void KernelLowering::initChannels(pipe::RolesOp roles) {
  kernel.walk([&](pipe::OpenOp open) {
    Value base = valueOf(open);
    auto channel = open.getChannel().getType();
    int64_t stages = channel.getStages();
    int64_t readers = readersOf(open, roles);
    // Arrivals on a full barrier: one from the thread that fills (the bytes are counted as well) or
    // sends, or one from each warp of the consumers, which publish.
    bool isPublished = llvm::any_of(open.getChannel().getUsers(), llvm::IsaPred<pipe::PublishOp>);
    int64_t writers = isPublished ? 4 * roles.getCount() : 1;
    for (int64_t part = 0; part < channel.getParts(); ++part)
      for (int64_t stage = 0; stage < stages; ++stage) {
        int64_t full = (part * 2 * stages + stage) * barrierBytes;
        ptx().initBarrier(base, full, writers);
        ptx().initBarrier(base, full + stages * barrierBytes, readers);
      }
  });
  if (hasAdders())
    initMailboxes();
  ptx().fenceBarrierInit();
}

LogicalResult KernelLowering::lowerRoles(pipe::RolesOp op) {
  Location outer = loc;
  if (hasAdders())
    startMessages(); // LLVM puts only variables of the function's first block into registers
  whereZero(builder, loc, thread, [&] { initChannels(op); });
  ptx().barrier();
  // All lanes of a warp have the same number; the shuffle tells the compiler so.
  Value all = ptx().uniform(arith::ShRUIOp::create(builder, loc, thread, constant(7)));
  warpgroup = arith::SubIOp::create(builder, loc, all, constant(1));
  Value isProducer =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, all, constant(0));
  auto branch = scf::IfOp::create(builder, loc, isProducer, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);

  builder.setInsertionPointToStart(branch.thenBlock());
  ptx().setRegisters(op.getProducerRegisters(), /*increase=*/false);
  // The finder is the second warp, and adders are those behind it.
  for (int64_t consumer = 0; hasAdders() && consumer < consumers; ++consumer) {
    Value isAdder = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, thread,
                                          constant(32 * (2 + consumer)));
    auto adder = scf::IfOp::create(builder, loc, isAdder, /*withElseRegion=*/true);
    builder.setInsertionPointToStart(adder.thenBlock());
    lowerAdder(consumer);
    builder.setInsertionPointToStart(adder.elseBlock());
  }
  // The producer is one thread, and ptxas sees that it is one. For a whole warp ptxas would keep
  // the received numbers in each lane and copy in a loop over the lanes. The finder is the next
  // warp.
  for (auto [region, kind, first] : {std::tuple(&op.getProducer(), Role::Thread, 0),
                                     std::tuple(&op.getFinder(), Role::Warp, 32)}) {
    if (region->empty())
      continue;
    Value inRole = arith::SubIOp::create(builder, loc, thread, constant(first));
    Value isIn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, inRole,
                                       constant(kind == Role::Thread ? 1 : 32));
    auto one = scf::IfOp::create(builder, loc, isIn, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard inner(builder);
    builder.setInsertionPointToStart(one.thenBlock());
    role = kind;
    if (failed(lowerBlock(region->front())))
      return failure();
    loc = outer;
  }
  role = Role::Warpgroup;

  loc = outer;
  builder.setInsertionPointToStart(branch.elseBlock());
  ptx().setRegisters(op.getConsumerRegisters(), /*increase=*/true);
  numberThreads(arith::SubIOp::create(builder, loc, thread, constant(128)));
  if (failed(lowerBlock(op.getConsumers().front())))
    return failure();
  loc = outer;
  if (hasAdders())
    stopAdders();
  return success();
}

std::pair<Value, Value> KernelLowering::channelUse(Value channel, Value use, bool isFull,
                                                   Value part) {
  return barrierOf(channel, valueOf(use), isFull, part);
}

std::pair<Value, Value> KernelLowering::barrierOf(Value channel, Value number, bool isFull,
                                                  Value part) {
  int64_t stages = cast<pipe::ChannelType>(channel.getType()).getStages();
  Value count = constant(stages);
  Value stage = arith::RemUIOp::create(builder, loc, number, count);
  Value phase = arith::DivUIOp::create(builder, loc, number, count);
  Value address = add(valueOf(channel), multiply(stage, constant(barrierBytes)));
  if (!isFull)
    address = add(address, constant(stages * barrierBytes));
  if (part)
    address = add(address, multiply(part, constant(2 * stages * barrierBytes)));
  return {address, arith::AndIOp::create(builder, loc, phase, constant(1))};
}

Value KernelLowering::ownPart(Value channel) {
  return cast<pipe::ChannelType>(channel.getType()).getParts() > 1 ? warpgroup : Value();
}

std::pair<Value, Value> KernelLowering::channelWords(Value channel, Value use) {
  auto type = cast<pipe::ChannelType>(channel.getType());
  Value stage = arith::RemUIOp::create(builder, loc, valueOf(use), constant(type.getStages()));
  Value words = add(valueOf(channel), constant(type.getBarrierBytes()));
  return {add(valueOf(channel), multiply(stage, constant(barrierBytes))),
          add(words, multiply(stage, constant(16)))};
}

/// Waits for the end of the phase before. At the start every stage is empty: the phase before the
/// first one counts as complete, and its parity is 1.
void KernelLowering::lowerAcquire(pipe::AcquireOp op) {
  Value channel = op.getChannel(), use = valueOf(op.getUse());
  // Use n comes to the stage that held use n - 1 of the crossed buffer. A channel of two stages
  // waits for the release of that use where it acquires use n + 1.
  if (Value crossed = crossedChannel(channel)) {
    channel = crossed;
    use = add(use, constant(1));
  }
  auto [address, parity] = barrierOf(channel, use, /*isFull=*/false, constant(op.getPart()));
  ptx().awaitBarrier(address, arith::XOrIOp::create(builder, loc, parity, constant(1)), trapWaits);
}

void KernelLowering::lowerAwait(pipe::AwaitOp op) {
  auto [address, parity] =
      channelUse(op.getChannel(), op.getUse(), /*isFull=*/true, ownPart(op.getChannel()));
  ptx().awaitBarrier(address, parity, trapWaits);
  takeNumbers(op.getValues(), op.getChannel(), op.getUse());
}

void KernelLowering::takeNumbers(ValueRange results, Value channel, Value use) {
  if (results.empty())
    return;
  Values words = ptx().loadShared16Bytes(channelWords(channel, use).second, /*offset=*/0);
  for (auto [result, word] : llvm::zip_first(results, words))
    values[result] = {role == Role::Thread ? word : ptx().uniform(word)};
}

void KernelLowering::lowerRelease(pipe::ReleaseOp op) {
  Value part = ownPart(op.getChannel());
  ptx().arrive(channelUse(op.getChannel(), op.getUse(), /*isFull=*/false, part).first,
               isReadByLanes(op.getChannel()) ? constant(0) : lane);
}

Values KernelLowering::tensorCoordinates(Value view, Value blockValue, Value column, Value row) {
  unsigned map = viewOf(view).tensorMap;
  BlockCoordinates block = blockOf(blockValue);
  int64_t heads = cast<tile::BlockType>(blockValue.getType()).getHeadCount();
  Value position = add(block.first, emitRowPlace(builder, loc, row, heads).position);
  if (tile::RaggedOp ragged = placeOf(view).ragged) {
    block.batch = constant(0);
    position = add(position, valueOf(ragged.getShift()));
  }
  if (heads == 1)
    return {column, position, multiply(block.head, slots[map + 2]),
            multiply(block.batch, slots[map + 1])};
  Value kvHead = emitKvHead(builder, loc, block.head, extents());
  Value sharing = arith::DivUIOp::create(builder, loc, extents().H, extents().Hkv);
  Value inSharing = arith::SubIOp::create(builder, loc, block.head, multiply(kvHead, sharing));
  return {column, inSharing, position, multiply(kvHead, slots[map + 2]),
          multiply(block.batch, slots[map + 1])};
}

void KernelLowering::lowerFill(pipe::FillOp op) {
  auto buffer = op.getBuffer().getType();
  Value barrier =
      channelUse(op.getChannel(), op.getUse(), /*isFull=*/true, constant(op.getPart())).first;
  int64_t parts = op.getChannel().getType().getParts();
  int64_t firstRow = op.getPart() * (buffer.getRows() / parts);
  Value stage =
      arith::RemUIOp::create(builder, loc, valueOf(op.getUse()), constant(buffer.getStages()));
  Value target = stageAddress(op.getBuffer(), stage);
  onRoleThread([&] {
    putNumbers(op.getValues(), op.getChannel(), op.getUse());
    if (op.getView().getType().getRank() == 3) { // a number for each row, in one piece
      int64_t bytes = buffer.getColumns() * 4;
      ptx().arriveExpecting(barrier, bytes);
      ptx().copyBulkIn(target, rowAddress(op.getView(), blockOf(op.getBlock()), constant(0)), bytes,
                       barrier);
      return;
    }
    ptx().arriveExpecting(barrier, buffer.getStageBytes() / parts);
    if (endsInside(op.getView(), op.getBlock().getType()))
      return fillToTheEnd(op, target, barrier);
    Value map = slots[viewOf(op.getView()).tensorMap];
    int64_t panelColumns = buffer.getPanelColumns();
    for (int64_t column = 0; column < buffer.getColumns(); column += panelColumns) {
      int64_t offset = (column / panelColumns * buffer.getRows() + firstRow) * panelRowBytes;
      Value first = constant(column);
      if (op.getColumns())
        first = add(first, blockOf(op.getColumns()).first);
      ptx().copyTensorIn(add(target, constant(offset)), map,
                         tensorCoordinates(op.getView(), op.getBlock(), first, constant(firstRow)),
                         barrier);
    }
  });
}

/// Rows that are adjacent in memory come in one copy if all of them exist. At the end of a sequence
/// rows come eight at a time, and the last ones one by one. For a row that does not exist, the copy
/// reads in front of the tensor, where the copy engine finds zeros.
void KernelLowering::fillToTheEnd(pipe::FillOp op, Value target, Value barrier) {
  auto buffer = op.getBuffer().getType();
  Value view = op.getView();
  BlockCoordinates block = blockOf(op.getBlock());
  const ViewSlots &parts = viewOf(view);
  ViewPlace place = placeOf(view);
  int64_t panelColumns = buffer.getPanelColumns();
  auto copy = [&](Value map, Value row, Value exists) {
    BlockCoordinates at = block;
    at.first = add(block.first, row);
    Value outer = constant(0), position;
    if (place.paged)
      std::tie(outer, position) = placeInPage(place.paged, at);
    else
      position = add(at.first, valueOf(place.ragged.getShift()));
    position = arith::SelectOp::create(builder, loc, exists, position, constant(-512));
    for (int64_t column = 0; column < buffer.getColumns(); column += panelColumns) {
      Value address = add(target, multiply(row, constant(panelRowBytes)));
      address = add(address, constant(column / panelColumns * buffer.getPanelBytes()));
      ptx().copyTensorIn(address, map,
                         {constant(column), position,
                          multiply(block.head, slots[parts.tensorMap + 2]),
                          multiply(outer, slots[parts.tensorMap + 1])},
                         barrier);
    }
  };
  auto forRows = [&](Value low, Value high, int64_t step, llvm::function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(builder, loc, low, high, constant(step));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  };
  Value existing = arith::SubIOp::create(builder, loc, block.limit, block.first);
  int64_t together = rowsTogether(view, op.getBlock().getType());
  auto compare = [&](arith::CmpIPredicate predicate, Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  };
  // Copies `count` rows from `row` on by `map` if all of them or none of them exist. Otherwise
  // `rest` copies them.
  auto forAlike = [&](Value row, int64_t count, Value map,
                      llvm::function_ref<void(Value end)> rest) {
    Value end = add(row, constant(count));
    Value isInside = compare(arith::CmpIPredicate::sle, end, existing);
    Value isBehind = compare(arith::CmpIPredicate::sge, row, existing);
    Value isAlike = arith::OrIOp::create(builder, loc, isInside, isBehind);
    auto branch = scf::IfOp::create(builder, loc, isAlike, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    copy(map, row, isInside);
    builder.setInsertionPointToStart(branch.elseBlock());
    rest(end);
  };
  auto oneByOne = [&](Value row, Value end) {
    forRows(row, end, 1, [&](Value each) {
      copy(slots[parts.rowMap], each, compare(arith::CmpIPredicate::slt, each, existing));
    });
  };
  forRows(constant(0), constant(buffer.getRows()), together, [&](Value row) {
    forAlike(row, together, slots[parts.tensorMap], [&](Value end) {
      if (!comeInEights(together))
        return oneByOne(row, end);
      forRows(row, end, 8, [&](Value first) {
        forAlike(first, 8, slots[parts.rowMap + 1], [&](Value last) { oneByOne(first, last); });
      });
    });
  });
}

/// The numbers are visible to threads that await the barrier on which this thread arrives next.
void KernelLowering::putNumbers(ValueRange numbers, Value channel, Value use) {
  if (numbers.empty())
    return;
  Value words = channelWords(channel, use).second;
  for (auto [index, number] : llvm::enumerate(numbers))
    ptx().storeShared(words, 4 * index, valueOf(number));
}

/// The warp's first lane publishes what all lanes have written.
void KernelLowering::lowerPublish(pipe::PublishOp op) {
  ptx().fenceAsyncProxy();
  NVVM::SyncWarpOp::create(builder, loc, constant(-1));
  ptx().arrive(channelUse(op.getChannel(), op.getUse(), /*isFull=*/true).first, lane);
}

void KernelLowering::lowerSend(pipe::SendOp op) {
  Value barrier = channelWords(op.getChannel(), op.getUse()).first;
  onRoleThread([&] {
    putNumbers(op.getValues(), op.getChannel(), op.getUse());
    ptx().arrive(barrier, constant(0)); // `arrive` takes a lane's number: this thread arrives
  });
}

void KernelLowering::lowerReceive(pipe::ReceiveOp op) {
  auto [address, parity] = channelUse(op.getChannel(), op.getUse(), /*isFull=*/true);
  ptx().awaitBarrier(address, parity, trapWaits);
  // The first number says whether there is another item, and which part of the query heads it has.
  // Only this number is broadcast. With a
  // second broadcast, ptxas 13.0 keeps the counters of channels and the descriptors of the inner
  // loop in registers of the threads, and spills (docs/log/2026-11-27-backward.md, "Items of
  // gradients").
  Values words =
      ptx().loadShared16Bytes(channelWords(op.getChannel(), op.getUse()).second, /*offset=*/0);
  for (auto [index, result] : llvm::enumerate(op.getValues()))
    values[result] = {index == 0 && role != Role::Thread ? ptx().uniform(words[0]) : words[index]};
  ptx().arrive(channelUse(op.getChannel(), op.getUse(), /*isFull=*/false).first, constant(0));
}

/// Without a counter, each next item adds the number of thread blocks to a number in shared memory.
/// That number starts as the thread block's own number less the number of thread blocks.
void KernelLowering::lowerFirstItem(pipe::FirstItemOp op) {
  Value item = NVVM::BlockIdXOp::create(builder, loc, builder.getI32Type());
  Value blocks = NVVM::GridDimXOp::create(builder, loc, builder.getI32Type());
  Value before = arith::SubIOp::create(builder, loc, item, blocks);
  Value address = add(sharedBase, constant(*op.getOffset()));
  onRoleThread([&] { ptx().storeShared(address, 0, before); });
  // If items wait for those with lower numbers, these must run already. A thread block may start
  // late, when another launch has the multiprocessors. So the first items are counted, too; in the
  // workspace, if the launch has no counter.
  values[op] = {hasAdders() ? takeItem(address) : item};
}

void KernelLowering::lowerNextItem(pipe::NextItemOp op) {
  Value taken = takeItem(add(sharedBase, constant(*op.getOffset())));
  if (!hasAdders()) { // the first items went to the thread blocks by their numbers
    Value blocks = NVVM::GridDimXOp::create(builder, loc, builder.getI32Type());
    taken = add(taken, blocks);
  }
  values[op] = {taken};
}

Value KernelLowering::takeItem(Value address) {
  Value counter = slots[signature.counter()];
  ItemTicket ticket = itemTicket();
  Value taken;
  if (role == Role::Warp) {
    Value isFirst =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, lane, constant(0));
    auto one = scf::IfOp::create(builder, loc, builder.getI32Type(), isFirst,
                                 /*withElseRegion=*/true);
    OpBuilder inner = one.getThenBodyBuilder();
    scf::YieldOp::create(inner, loc, PtxInstructions(inner, loc).countUp(counter, address, ticket));
    OpBuilder other = one.getElseBodyBuilder();
    scf::YieldOp::create(other, loc, arith::ConstantIntOp::create(other, loc, 0, 32).getResult());
    taken = ptx().uniform(one.getResult(0));
  } else {
    taken = ptx().countUp(counter, address, ticket);
  }
  return taken;
}

void KernelLowering::lowerEndItems() {
  Value blocks = NVVM::GridDimXOp::create(builder, loc, builder.getI32Type());
  Value last = arith::SubIOp::create(builder, loc, blocks, constant(1));
  onRoleThread([&] { ptx().endCount(slots[signature.counter()], last); });
}

Value KernelLowering::warpgroupBarrierId() {
  return add(warpgroup, constant(1)); // barrier 0 is the thread block's
}

Value KernelLowering::turnBarrierId(Value group) {
  return add(group, constant(1 + consumers)); // behind the warpgroups' own
}

void KernelLowering::passTurn(Value next) {
  Value wraps =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, next, constant(consumers));
  next = arith::SelectOp::create(builder, loc, wraps, constant(0), next);
  ptx().arriveAtBarrier(turnBarrierId(next), turnThreads);
}

/// The first warpgroup gives itself the first turn.
void KernelLowering::lowerOpenTurns() {
  whereZero(builder, loc, warpgroup,
            [&] { ptx().arriveAtBarrier(turnBarrierId(warpgroup), turnThreads); });
}

Value KernelLowering::isFirstOfWarpgroup() {
  Value threadOfGroup = arith::AndIOp::create(builder, loc, thread, constant(127));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, threadOfGroup, constant(0));
}

void KernelLowering::onFirstOfWarpgroup(llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(builder, loc, isFirstOfWarpgroup(), /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

/// If the block has an end of its own, nothing is stored where it is empty. Such a block has all
/// rows of the work item or none.
void KernelLowering::lowerEmptyOut(pipe::EmptyOutOp op) {
  auto buffer = op.getBuffer().getType();
  ptx().fenceAsyncProxy();
  ptx().barrier(warpgroupBarrierId(), 128);
  auto named = op.getBlock().getDefiningOp<tile::BlockOp>();
  onFirstOfWarpgroup([&] {
    OpBuilder::InsertionGuard guard(builder);
    if (named && named.getEnd()) {
      BlockCoordinates block = blockOf(op.getBlock());
      Value hasRows =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, block.first, block.limit);
      auto branch = scf::IfOp::create(builder, loc, hasRows, /*withElseRegion=*/false);
      builder.setInsertionPointToStart(branch.thenBlock());
    }
    Value row = multiply(warpgroup, constant(64));
    int64_t bytesBetween =
        buffer.getStages() > 1 ? nvvm::bytesBetweenShares(op.getBuffer()) : 64 * panelRowBytes;
    Value source = add(valueOf(op.getBuffer()), multiply(warpgroup, constant(bytesBetween)));
    Value map = slots[viewOf(op.getView()).tensorMap];
    int64_t panelColumns = buffer.getPanelColumns();
    for (int64_t column = 0; column < buffer.getColumns(); column += panelColumns) {
      int64_t offset = column / panelColumns * buffer.getPanelBytes();
      ptx().copyTensorOut(map,
                          tensorCoordinates(op.getView(), op.getBlock(), constant(column), row),
                          add(source, constant(offset)));
    }
    ptx().commitTensorCopies();
  });
}

void KernelLowering::lowerDrain(pipe::DrainOp op) {
  // One thread has started all copies; for the others this wait ends at once. There is no test,
  // because no branch may stand between products in flight.
  ptx().awaitTensorReads();
  if (hasAdders())
    awaitAdder();
  // If all consumers meet right behind it, they wait there.
  if (!isa_and_nonnull<pipe::BarrierOp>(op->getNextNode()))
    ptx().barrier(warpgroupBarrierId(), 128);
}

void KernelLowering::lowerBarrier() {
  if (consumers == 0)
    return ptx().barrier();
  ptx().fenceAsyncProxy();
  ptx().barrier(barrierOfAll(), 128 * consumers);
}

} // namespace tesela::nvvm
