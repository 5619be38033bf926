//===- RoleSteps.cpp - A role's ops on channels -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RoleSteps.h"

#include "targets/nvvm/ProductChain.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tesela::nvvm {

std::pair<Value, Value> useOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::pair<Value, Value>>(op)
      .Case<pipe::AcquireOp, pipe::FillOp, pipe::SendOp, pipe::PublishOp, pipe::AwaitOp,
            pipe::ReleaseOp, pipe::ReceiveOp>(
          [](auto use) { return std::pair<Value, Value>(use.getChannel(), use.getUse()); })
      .Default([](Operation *) { return std::pair<Value, Value>(); });
}

Value crossedChannel(Value channel) {
  for (Operation *user : channel.getUsers())
    if (auto fill = dyn_cast<pipe::FillOp>(user)) {
      auto alloc = fill.getBuffer().getDefiningOp<pipe::AllocOp>();
      Value other = alloc ? alloc.getCrossedBuffer() : Value();
      return other ? channelThatFills(other) : Value();
    }
  return {};
}

int64_t partOf(Operation *op) {
  if (auto acquire = dyn_cast<pipe::AcquireOp>(op))
    return acquire.getPart();
  auto fill = dyn_cast<pipe::FillOp>(op);
  return fill ? fill.getPart() : 0;
}

SmallVector<Block *> blocksOf(Operation *loop) {
  SmallVector<Block *> blocks;
  for (Region &region : loop->getRegions())
    blocks.push_back(&region.front());
  return blocks;
}

/// Fails if `op`, a branch, contains ops for which other roles or copies wait: these must run on
/// every path.
static LogicalResult checkBranch(Operation *op) {
  WalkResult found = op->walk([](Operation *inner) {
    if (!useOf(inner).first &&
        !isa<pipe::WriteOp, pipe::EmptyOutOp, pipe::AddOutOp, pipe::DrainOp, pipe::BarrierOp,
             pipe::OpenTurnsOp, pipe::BeginTurnOp, pipe::EndTurnOp>(inner))
      return WalkResult::advance();
    inner->emitOpError() << "expected an op outside of branches, got one inside; other roles "
                            "count on it, so move it out";
    return WalkResult::interrupt();
  });
  return failure(found.wasInterrupted());
}

LogicalResult Role::read(Block &block, Steps &into) {
  SmallVector<Operation *> open;
  for (Operation &op : block) {
    if (Value channel = useOf(&op).first) {
      into.push_back({&op, channel, {}, {}});
      if (failed(readUse(&op, open)))
        return failure();
    } else if (isLoop(&op)) {
      if (failed(readLoop(&op, into)))
        return failure();
    } else if (op.getNumRegions() > 0 && failed(checkBranch(&op))) {
      return failure();
    }
  }
  for (Operation *begin : open) {
    Value channel = useOf(begin).first;
    if (isa<pipe::AcquireOp>(begin))
      return begin->emitOpError() << "expected one pipe.fill or pipe.send of this use behind it in "
                                     "its block, got none; the consumers would wait forever";
    // A channel that is used no more often than it has stages is never acquired again.
    auto isOfChannel = [&](const Step &step) { return step.isOf(channel); };
    auto isInLoop = [&](const Step &step) { return !step.channel && step.isOf(channel); };
    if (scopes.size() > 1 || llvm::any_of(steps, isInLoop) ||
        llvm::count_if(steps, isOfChannel) > stagesOf(channel))
      return begin->emitOpError() << "expected one pipe.release of this use behind it in its "
                                     "block, got none; the producer would wait forever";
    holds[channel].push_back({begin, nullptr});
  }
  return success();
}

LogicalResult Role::readUse(Operation *op, SmallVectorImpl<Operation *> &open) {
  auto [channel, number] = useOf(op);
  if (beginsUse(op)) {
    Scope &scope = scopes.back();
    int64_t part = partOf(op);
    Count count = scope.counts.lookup(channel);
    bool isDue = part == 0 ? isNext(number, channel, scopes.size() - 1)
                           : count.value == number && count.parts == part;
    if (!isDue)
      return op->emitOpError()
             << "expected the channel's uses to count up by one from 0, each with "
                "its parts in their order, got another number or part; carry the "
                "count through every loop and add one after each use";
    // A consumer awaits only its own part.
    bool isByParts = isa<pipe::AcquireOp>(op);
    int64_t parts = isByParts ? part + 1 : cast<pipe::ChannelType>(channel.getType()).getParts();
    scope.counts.insert_or_assign(channel, Count{number, parts});
    if (isa<pipe::ReceiveOp>(op))
      holds[channel].push_back({op, op});
    else
      open.push_back(op);
    return success();
  }
  auto begin = llvm::find_if(open, [&](Operation *other) {
    return useOf(other) == useOf(op) && partOf(other) == partOf(op);
  });
  bool isReleased = isa<pipe::ReleaseOp>(op);
  if (begin == open.end())
    return op->emitOpError() << "expected a " << (isReleased ? "pipe.await" : "pipe.acquire")
                             << " of this use before it in its block, for itself alone; "
                             << (isReleased ? "await the stage, then release it once"
                                            : "acquire the stage, then fill it once");
  holds[channel].push_back({*begin, op});
  open.erase(begin);
  return success();
}

LogicalResult Role::readLoop(Operation *op, Steps &into) {
  Step step{op, Value(), {}, {}};
  unsigned outer = scopes.size();
  ValueRange yielded;
  if (auto counted = dyn_cast<scf::ForOp>(op)) {
    scopes.emplace_back(counted.getInitArgs(), counted.getRegionIterArgs());
    yielded = counted.getYieldedValues();
    if (failed(read(*counted.getBody(), step.body)))
      return failure();
  } else {
    auto conditional = cast<scf::WhileOp>(op);
    scopes.emplace_back(conditional.getInits(), conditional.getBeforeArguments());
    if (failed(read(*conditional.getBeforeBody(), step.head)))
      return failure();
    scopes.emplace_back(conditional.getConditionOp().getArgs(), conditional.getAfterArguments());
    yielded = conditional.getYieldOp().getOperands();
    if (failed(read(*conditional.getAfterBody(), step.body)))
      return failure();
  }

  SmallVector<Value> used;
  for (Scope &scope : MutableArrayRef(scopes).drop_front(outer))
    for (auto [channel, count] : scope.counts)
      if (!llvm::is_contained(used, channel))
        used.push_back(channel);
  SmallVector<Count> after;
  for (Value channel : used) {
    if (!isNext(yielded[scopes[outer].counters.lookup(channel)], channel, scopes.size() - 1))
      return op->emitOpError() << "expected to carry on the count of its uses of a channel of "
                               << stagesOf(channel)
                               << " stages, got another number; yield the last use plus one";
    // A while loop ends behind its head, and its results are what the head passes on.
    ValueRange given = isa<scf::ForOp>(op) ? yielded : scopes.back().starts;
    unsigned depth = isa<scf::ForOp>(op) ? scopes.size() - 1 : outer;
    Count next{Value(), 0};
    for (auto [result, value] : llvm::zip(op->getResults(), given))
      if (!next.value && isNext(value, channel, depth))
        next.value = result;
    after.push_back(next);
  }
  scopes.truncate(outer);
  for (auto [channel, count] : llvm::zip(used, after))
    scopes.back().counts.insert_or_assign(channel, count);
  if (!used.empty())
    into.push_back(std::move(step));
  return success();
}

/// Whether `number` is the number of the channel's next use in the scope at `depth`. Before the
/// scope's first use that is one of its arguments, which then counts the channel's uses.
bool Role::isNext(Value number, Value channel, unsigned depth) {
  Scope &scope = scopes[depth];
  auto known = scope.counts.find(channel);
  if (known != scope.counts.end()) {
    Count count = known->second;
    if (count.parts == 0)
      return number == count.value;
    auto sum = number.getDefiningOp<arith::AddIOp>();
    return count.parts == cast<pipe::ChannelType>(channel.getType()).getParts() && sum &&
           sum.getLhs() == count.value && matchPattern(sum.getRhs(), m_One());
  }
  if (depth == 0)
    return matchPattern(number, m_Zero());
  auto bound = scope.counters.find(channel);
  if (bound != scope.counters.end())
    return number == scope.arguments[bound->second];
  for (auto [index, argument] : llvm::enumerate(scope.arguments))
    if (argument == number && isNext(scope.starts[index], channel, depth - 1)) {
      scope.counters[channel] = index;
      return true;
    }
  return false;
}

} // namespace tesela::nvvm
