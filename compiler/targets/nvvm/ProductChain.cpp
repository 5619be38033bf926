//===- ProductChain.cpp - Loops whose products overlap ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/ProductChain.h"

#include "analysis/UsedValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {

Value channelThatFills(Value buffer) {
  for (Operation *user : buffer.getUsers())
    if (auto fill = dyn_cast<pipe::FillOp>(user); fill && fill.getBuffer() == buffer)
      return fill.getChannel();
  return {};
}

pipe::SlotOp stageOf(Value tile) { return tile.getDefiningOp<pipe::SlotOp>(); }

namespace {

/// The least number of products. Loops with two products and no loop around them belong to another
/// pass, pipe-overlap-products, unless both products read only stages.
constexpr size_t fewestProducts = 3, fewestInside = 2;

/// The pipe.await in the body that `slot` depends on; null if there is none or more than one.
pipe::AwaitOp awaitOf(ProductChain &chain, pipe::SlotOp slot) {
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

/// Whether `tile` is in shared memory or registers before the iteration computes anything.
bool isOfStages(ProductChain &chain, Value tile) {
  return !chain.isInside(tile) || (stageOf(tile) && awaitOf(chain, stageOf(tile)));
}

bool isOfStages(ProductChain &chain, tile::DotOp dot) {
  return isOfStages(chain, dot.getA()) && isOfStages(chain, dot.getB()) &&
         !chain.isInside(dot.getC());
}

/// Adds `op` and the ops that it needs to the head. Returns false if one of these does more than
/// compute scalars or await a stage.
bool addToHead(ProductChain &chain, Operation *op) {
  if (!op || op->getBlock() != &chain.body() || chain.head.contains(op))
    return true; // values that the loop carries need no op
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

bool hasSameHead(ProductChain &chain, Value block);

/// Whether `value`, a batch or a head, is the same in each iteration.
bool isSame(ProductChain &chain, Value value) {
  Operation *op = value.getDefiningOp();
  if (!chain.isInside(value))
    return true;
  if (auto coordinates = dyn_cast_or_null<tile::CoordinatesOp>(op))
    return value != coordinates.getFirst() && hasSameHead(chain, coordinates.getBlock());
  return isa_and_nonnull<arith::AddIOp, arith::MulIOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value each) { return isSame(chain, each); });
}

/// Whether `block` is in the same batch and head in each iteration.
bool hasSameHead(ProductChain &chain, Value block) {
  if (!chain.isInside(block))
    return true;
  auto op = block.getDefiningOp<tile::BlockOp>();
  return op && op.getOf() && hasSameHead(chain, op.getOf()) &&
         (!op.getBatch() || isSame(chain, op.getBatch())) &&
         (!op.getHead() || isSame(chain, op.getHead()));
}

/// Finds additions that can start late. An addition that starts right behind the writes to its
/// buffer waits for them. If it starts beside the next iteration's first products, the writes are
/// done by then. The consumers meet once more before the last product; there they also learn that
/// the copy engine has read the buffer.
void findLateAdditions(ProductChain &chain) {
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

/// Finds out whether the last product can run one iteration late. It must read stages that the
/// consumers write and operands that stay the same, and its result must go to a late addition and
/// to nothing else.
void findExchange(ProductChain &chain) {
  if (chain.late.size() != 1 || chain.isInside(chain.last.getB()) ||
      chain.isInside(chain.last.getC()) || !chain.last->hasOneUse())
    return;
  auto out = dyn_cast<pipe::WriteOp>(*chain.last->user_begin());
  pipe::SlotOp slot = stageOf(chain.last.getA());
  auto stage = slot ? slot.getStage().getDefiningOp<arith::RemUIOp>() : arith::RemUIOp();
  auto count = stage ? dyn_cast<BlockArgument>(stage.getLhs()) : BlockArgument();
  if (!out || out.getBuffer() != chain.late.front().getBuffer() || !count ||
      count.getOwner() != &chain.body() || !slot->hasOneUse() ||
      slot.getBuffer().getType().getStages() < 2 ||
      llvm::count_if(slot.getBuffer().getUsers(), llvm::IsaPred<pipe::SlotOp>) != 1)
    return;
  for (pipe::WriteOp write : chain.body().getOps<pipe::WriteOp>())
    if (write.getBuffer() == slot.getBuffer() && write.getStage() == slot.getStage())
      chain.exchange = {write, slot, count.getArgNumber() - 1, {}};
}

/// Whether `op` uses the result of a product, and so waits for it.
bool usesProduct(Operation &op) {
  return llvm::any_of(valuesUsedBy(op),
                      [](Value used) { return bool(used.getDefiningOp<tile::DotOp>()); });
}

/// The first of the last products of `dots`: between them no op waits for a product.
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

/// The first op that uses a result of `dots`.
Operation *firstUser(ArrayRef<tile::DotOp> dots) {
  Block &body = *dots.front()->getBlock();
  for (Operation &op : body)
    if (llvm::any_of(valuesUsedBy(op), [&](Value used) {
          return llvm::is_contained(dots, used.getDefiningOp<tile::DotOp>());
        }))
      return &op;
  return body.getTerminator();
}

} // namespace

std::optional<ProductChain> findProductChain(scf::ForOp loop) {
  ProductChain chain{loop, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
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

  // With a single stage the head would wait for a stage that is still being read.
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
  // A slot cannot be passed through the loop's exit. The tail computes it again.
  llvm::SetVector<Operation *> slots;
  for (Operation *op : chain.tail)
    for (Value used : valuesUsedBy(*op))
      if (pipe::SlotOp slot = stageOf(used); slot && llvm::is_contained(chain.main, slot))
        slots.insert(slot);
  chain.tail.insert(chain.tail.begin(), slots.begin(), slots.end());
  // The next head stands right behind the last product or at the start of the tail.
  Operation *ahead = chain.last ? chain.last.getOperation() : firstOfTail;
  for (auto [argument, yielded] : llvm::zip(loop.getRegionIterArgs(), loop.getYieldedValues()))
    if (Operation *op = yielded.getDefiningOp(); chain.isOfHead(argument) && op &&
                                                 op->getBlock() == &chain.body() &&
                                                 (op == firstOfTail || ahead->isBeforeInBlock(op)))
      return std::nullopt;
  findLateAdditions(chain);
  findExchange(chain);
  return chain;
}

} // namespace tesela
