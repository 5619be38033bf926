//===- VerifyProtocol.cpp - pipe-verify-protocol ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// C1 to C11 are the constraints that Passes.td lists. A role is read once into its steps, C1 to C3
// on the way; the rest compares the steps of the two roles and looks at what lies between them.
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RoleSteps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPEVERIFYPROTOCOL
#include "targets/nvvm/Passes.h.inc"

namespace {

using namespace nvvm;

//===----------------------------------------------------------------------===//
// Both roles: C4 and C5
//===----------------------------------------------------------------------===//

/// Holds the steps of the producer against those of the consumers.
class Pair {
public:
  Pair(Role &producer, Role &consumers) : producer(producer), consumers(consumers) {}

  LogicalResult compare(Value channel, const Steps &fills, const Steps &reads);
  LogicalResult simulate(ArrayRef<Value> channels);

private:
  Value resolve(Value value);
  bool isSame(Value first, Value second);
  bool isSameArgument(BlockArgument first, BlockArgument second);
  bool isSameResult(Operation *op, Operation *other, Value first, Value second);
  bool isSameLoop(Operation *first, Operation *second);

  Role &producer, &consumers;
  llvm::MapVector<Operation *, Operation *> loops; ///< the producer's to the consumers'
  llvm::DenseMap<Value, Value> received;           ///< by the consumers, to what was sent
  llvm::DenseMap<std::pair<Value, Value>, bool> same;
};

/// C4 for one channel.
LogicalResult Pair::compare(Value channel, const Steps &fills, const Steps &reads) {
  auto isOfChannel = [&](const Step &step) { return step.isOf(channel); };
  auto first = llvm::make_filter_range(fills, isOfChannel);
  auto second = llvm::make_filter_range(reads, isOfChannel);
  auto differ = [&](Operation *here, Operation *there) {
    InFlightDiagnostic error = here->emitOpError()
                               << "expected both roles to make the same uses of a channel in the "
                                  "same loops, got what the other role does not match; give each "
                                  "fill its await, each send its receive and each loop its own";
    if (there)
      error.attachNote(there->getLoc()) << "the other role stands here";
    return failure();
  };
  auto fill = first.begin();
  auto read = second.begin();
  for (; fill != first.end() && read != second.end(); ++fill, ++read) {
    bool isEither = isLoop(fill->op) || isLoop(read->op);
    if (isEither && fill->op->getName() != read->op->getName())
      return differ(read->op, fill->op);
    if (isLoop(fill->op)) {
      auto [known, isNew] = loops.insert({fill->op, read->op});
      if (known->second != read->op)
        return differ(read->op, fill->op);
      if (failed(compare(channel, fill->head, read->head)) ||
          failed(compare(channel, fill->body, read->body)))
        return failure();
      continue;
    }
    auto send = dyn_cast<pipe::SendOp>(producer.endOf(fill->op));
    auto receive = dyn_cast<pipe::ReceiveOp>(read->op);
    if (bool(send) != bool(receive))
      return differ(read->op, fill->op);
    if (receive)
      for (auto [value, sent] : llvm::zip(receive.getValues(), send.getValues()))
        received[value] = sent;
  }
  if (fill != first.end())
    return differ(fill->op, nullptr);
  if (read != second.end())
    return differ(read->op, nullptr);
  return success();
}

/// `value`, or what it is known to be: what a while loop's head passes on, or what was sent.
Value Pair::resolve(Value value) {
  while (true) {
    auto argument = dyn_cast<BlockArgument>(value);
    auto loop = argument ? dyn_cast<scf::WhileOp>(argument.getOwner()->getParentOp()) : nullptr;
    if (loop && argument.getOwner() == loop.getAfterBody())
      value = loop.getConditionOp().getArgs()[argument.getArgNumber()];
    else if (Value sent = received.lookup(value))
      value = sent;
    else
      return value;
  }
}

/// Whether a value of the producer's program is that of the consumers'. Carried values are taken to
/// be the same while their starts and what is yielded for them are compared.
bool Pair::isSame(Value first, Value second) {
  first = resolve(first);
  second = resolve(second);
  if (first == second)
    return true;
  auto [known, isNew] = same.insert({{first, second}, true});
  if (!isNew)
    return known->second;
  bool result = isa<BlockArgument>(first) && isa<BlockArgument>(second)
                    ? isSameArgument(cast<BlockArgument>(first), cast<BlockArgument>(second))
                    : isSameResult(first.getDefiningOp(), second.getDefiningOp(), first, second);
  same[{first, second}] = result;
  return result;
}

bool Pair::isSameArgument(BlockArgument first, BlockArgument second) {
  Operation *loop = first.getOwner()->getParentOp(), *other = second.getOwner()->getParentOp();
  if (loops.lookup(loop) != other)
    return false;
  if (auto counted = dyn_cast<scf::ForOp>(loop)) {
    auto otherCounted = cast<scf::ForOp>(other);
    unsigned index = first.getArgNumber(), otherIndex = second.getArgNumber();
    if (index == 0 || otherIndex == 0) // the induction variables
      return index == otherIndex;
    return isSame(counted.getInitArgs()[index - 1], otherCounted.getInitArgs()[otherIndex - 1]) &&
           isSame(counted.getYieldedValues()[index - 1],
                  otherCounted.getYieldedValues()[otherIndex - 1]);
  }
  auto conditional = cast<scf::WhileOp>(loop), otherConditional = cast<scf::WhileOp>(other);
  return isSame(conditional.getInits()[first.getArgNumber()],
                otherConditional.getInits()[second.getArgNumber()]) &&
         isSame(conditional.getYieldOp().getOperand(first.getArgNumber()),
                otherConditional.getYieldOp().getOperand(second.getArgNumber()));
}

bool Pair::isSameResult(Operation *op, Operation *other, Value first, Value second) {
  if (!op || !other)
    return false;
  // A block of which the coordinates were sent.
  if (auto block = dyn_cast<tile::QueryBlockOp>(other)) {
    auto place = resolve(block.getFirst()).getDefiningOp<tile::CoordinatesOp>();
    if (place && resolve(block.getFirst()) == place.getFirst() &&
        resolve(block.getBatch()) == place.getBatch() &&
        resolve(block.getHead()) == place.getHead())
      return isSame(first, place.getBlock());
  }
  // A truth that was sent as a number.
  if (auto test = dyn_cast<arith::CmpIOp>(other); test &&
                                                  test.getPredicate() == arith::CmpIPredicate::ne &&
                                                  matchPattern(test.getRhs(), m_Zero()))
    if (auto flag = resolve(test.getLhs()).getDefiningOp<arith::ExtUIOp>();
        flag && flag.getIn().getType().isInteger(1))
      return isSame(first, flag.getIn());
  if (cast<OpResult>(first).getResultNumber() != cast<OpResult>(second).getResultNumber() ||
      !isMemoryEffectFree(op))
    return false;
  llvm::DenseMap<Value, Value> inside; // of regions
  auto check = [&](Value a, Value b) { return success(inside.lookup(a) == b || isSame(a, b)); };
  auto mark = [&](Value a, Value b) { inside[a] = b; };
  return OperationEquivalence::isEquivalentTo(op, other, check, mark,
                                              OperationEquivalence::IgnoreLocations);
}

bool Pair::isSameLoop(Operation *first, Operation *second) {
  if (auto counted = dyn_cast<scf::ForOp>(first)) {
    auto other = cast<scf::ForOp>(second);
    return isSame(counted.getLowerBound(), other.getLowerBound()) &&
           isSame(counted.getUpperBound(), other.getUpperBound()) &&
           isSame(counted.getStep(), other.getStep());
  }
  return isSame(cast<scf::WhileOp>(first).getConditionOp().getCondition(),
                cast<scf::WhileOp>(second).getConditionOp().getCondition());
}

/// `steps` with each loop run `iterations` times.
void unroll(const Steps &steps, int64_t iterations, SmallVectorImpl<const Step *> &into) {
  for (const Step &step : steps) {
    if (step.channel)
      into.push_back(&step);
    for (int64_t iteration = 0; !step.channel && iteration < iterations; ++iteration) {
      unroll(step.head, iterations, into);
      unroll(step.body, iterations, into);
    }
    unroll(step.head, iterations, into);
  }
}

/// The rest of C4, and C5: runs both programs step by step, each as far as it gets. Neither has a
/// choice, so one order shows every circle. The loops run until all stages are in use.
LogicalResult Pair::simulate(ArrayRef<Value> channels) {
  for (auto [loop, otherLoop] : loops)
    if (!isSameLoop(loop, otherLoop)) {
      InFlightDiagnostic error = otherLoop->emitOpError()
                                 << "expected to run as often as the producer's loop, which cannot "
                                    "be seen; compute the bounds alike in both roles, or send them";
      error.attachNote(loop->getLoc()) << "the producer's loop stands here";
      return failure();
    }
  struct Tokens {
    int64_t acquired = 0, filled = 0, awaited = 0, released = 0;
  };
  auto advance = [](const Step &step, Tokens &tokens) {
    return llvm::TypeSwitch<Operation *, bool>(step.op)
        .Case([&](pipe::AcquireOp acquire) {
          if (acquire.getPart() > 0)
            return true;
          return tokens.acquired - tokens.released < stagesOf(step.channel) && ++tokens.acquired;
        })
        .Case([&](pipe::FillOp fill) { // full with its last part
          tokens.filled += int64_t(fill.getPart()) + 1 == fill.getChannel().getType().getParts();
          return true;
        })
        .Case([&](pipe::SendOp) { return ++tokens.filled; })
        .Case([&](pipe::AwaitOp) { return tokens.awaited < tokens.filled && ++tokens.awaited; })
        .Case([&](pipe::ReleaseOp) { return ++tokens.released; })
        .Case([&](pipe::ReceiveOp) {
          return tokens.awaited < tokens.filled && ++tokens.awaited && ++tokens.released;
        })
        .Default([](Operation *) { return true; });
  };
  int64_t stages = 0;
  for (Value channel : channels)
    stages = std::max(stages, stagesOf(channel));
  for (int64_t iterations : {int64_t(1), stages + 1}) {
    llvm::DenseMap<Value, Tokens> tokens;
    SmallVector<const Step *> rest[2];
    unroll(producer.steps, iterations, rest[0]);
    unroll(consumers.steps, iterations, rest[1]);
    size_t done[2] = {0, 0};
    for (bool hasMoved = true; hasMoved;) {
      hasMoved = false;
      for (unsigned role : {0, 1})
        for (; done[role] < rest[role].size(); ++done[role], hasMoved = true) {
          const Step &step = *rest[role][done[role]];
          if (!advance(step, tokens[step.channel]))
            break;
        }
    }
    if (done[0] == rest[0].size() && done[1] == rest[1].size())
      continue;
    unsigned role = done[1] < rest[1].size() ? 1 : 0;
    InFlightDiagnostic error =
        rest[role][done[role]]->op->emitOpError()
        << "waits for ever: the roles wait for each other; await in the order in which the "
           "producer fills, release earlier, or give the channel more stages";
    if (role == 1 && done[0] < rest[0].size())
      error.attachNote(rest[0][done[0]]->op->getLoc()) << "the producer waits here";
    return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// What the consumers do with buffers and products: C6 to C9
//===----------------------------------------------------------------------===//

/// The buffer whose place `buffer` takes, or itself.
Value placeOf(Value buffer) {
  while (auto alloc = buffer.getDefiningOp<pipe::AllocOp>()) {
    if (!alloc.getOver())
      break;
    buffer = alloc.getOver();
  }
  return buffer;
}

/// Whether `stage` is that of use `number`.
bool isStageOf(Value stage, Value number, int64_t stages) {
  if (stages == 1 && matchPattern(stage, m_Zero()))
    return true;
  auto rest = stage.getDefiningOp<arith::RemUIOp>();
  llvm::APInt divisor;
  return rest && rest.getLhs() == number && matchPattern(rest.getRhs(), m_ConstantInt(&divisor)) &&
         divisor == uint64_t(stages);
}

/// Whether all from `first` to `last` stands inside the hold.
bool covers(const Hold &hold, Operation *first, Operation *last) {
  Block *block = hold.begin->getBlock();
  first = block->findAncestorOpInBlock(*first);
  last = block->findAncestorOpInBlock(*last);
  return first && last && hold.begin->isBeforeInBlock(first) &&
         (!hold.end || last->isBeforeInBlock(hold.end));
}

class Buffers {
public:
  Buffers(pipe::RolesOp roles, Role &consumers) : roles(roles), consumers(consumers) {}

  LogicalResult findPlaces();
  LogicalResult checkProducts();
  LogicalResult checkReads();
  LogicalResult checkOutputs();

private:
  LogicalResult follow(Block &block);

  /// Of a place that leaves: what was done to it last; null where it is free.
  struct Output {
    pipe::WriteOp written;
    pipe::EmptyOutOp leaving;
    bool isFree() const { return !written && !leaving; }
  };

  pipe::RolesOp roles;
  Role &consumers;
  llvm::DenseMap<Value, Value> channels;  ///< by the place that they fill
  llvm::MapVector<Value, Output> outputs; ///< by place
};

LogicalResult Buffers::findPlaces() {
  WalkResult result = roles.walk([&](Operation *op) {
    if (auto fill = dyn_cast<pipe::FillOp>(op)) {
      auto [known, isNew] = channels.insert({placeOf(fill.getBuffer()), fill.getChannel()});
      if (known->second != fill.getChannel()) {
        fill.emitOpError() << "expected one channel to fill a buffer, got a second one; the two "
                              "would write over each other";
        return WalkResult::interrupt();
      }
    } else if (auto write = dyn_cast<pipe::WriteOp>(op)) {
      outputs.insert({placeOf(write.getBuffer()), {}});
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// C7.
LogicalResult Buffers::checkProducts() {
  WalkResult result = roles.getConsumers().walk([&](Operation *op) {
    if (auto wait = dyn_cast<pipe::DotWaitOp>(op))
      return WalkResult(wait.verify());
    auto start = dyn_cast<pipe::DotStartOp>(op);
    if (!start)
      return WalkResult::advance();
    if (failed(start.verify()))
      return WalkResult::interrupt();
    if (start.getC().getDefiningOp<tile::ConstantOp>()) // made anew for each product
      return WalkResult::advance();
    Operation *wait = *start.getResult().user_begin();
    for (Operation *user : start.getC().getUsers()) {
      Operation *ancestor = start->getBlock()->findAncestorOpInBlock(*user);
      if (user == start || !ancestor || ancestor->isBeforeInBlock(start) ||
          wait->isBeforeInBlock(ancestor))
        continue;
      InFlightDiagnostic error = user->emitOpError()
                                 << "expected not to use an accumulator to which a product in "
                                    "flight adds; use it before, or what pipe.dot_wait gives";
      error.attachNote(start.getLoc()) << "the product starts here";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// C6, and of C9 that nothing but a left operand is read where an output goes.
LogicalResult Buffers::checkReads() {
  WalkResult result = roles.getConsumers().walk([&](pipe::SlotOp slot) {
    Value place = placeOf(slot.getBuffer()), channel = channels.lookup(place);
    if (!channel) {
      slot.emitOpError() << "expected a buffer that the producer fills, got one without a "
                            "pipe.fill; fill it or do not read it";
      return WalkResult::interrupt();
    }
    auto holds = llvm::make_filter_range(consumers.holdsOf(channel), [&](const Hold &hold) {
      return isStageOf(slot.getStage(), useOf(hold.begin).second, stagesOf(channel));
    });
    if (holds.empty()) {
      slot.emitOpError() << "expected the stage of a use that is awaited, its number mod "
                         << stagesOf(channel) << ", got another value";
      return WalkResult::interrupt();
    }
    for (Operation *user : slot.getTile().getUsers()) {
      auto start = dyn_cast<pipe::DotStartOp>(user);
      Operation *last = start ? *start.getResult().user_begin() : user;
      if (llvm::none_of(holds, [&](const Hold &hold) { return covers(hold, user, last); })) {
        user->emitOpError() << "expected to read a stage between its pipe.await and its "
                               "pipe.release"
                            << (start ? ", until the product's pipe.dot_wait" : "")
                            << "; the producer may write it at any other time";
        return WalkResult::interrupt();
      }
      auto isRight = [&](auto dot) { return dot && dot.getB() == slot.getTile(); };
      bool isByRows = cast<pipe::ChannelType>(channel.getType()).getParts() > 1;
      if ((isByRows || outputs.contains(place)) &&
          (isRight(start) || isRight(dyn_cast<tile::DotOp>(user)))) {
        user->emitOpError() << "expected nothing but a left operand in a buffer that is filled in "
                               "parts or where an output goes: of a right operand a warpgroup "
                               "reads the other rows too; give it a buffer of its own";
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// C8, and the rest of C9.
LogicalResult Buffers::checkOutputs() {
  if (failed(follow(roles.getConsumers().front())))
    return failure();
  for (auto [place, output] : outputs)
    if (output.written)
      return output.written.emitOpError() << "expected a pipe.empty_out of the buffer behind it, "
                                             "got none; what is written would be lost";
    else if (output.leaving)
      return output.leaving.emitOpError() << "expected a pipe.drain before the role ends, got "
                                             "none; shared memory would go while it is copied";
  return success();
}

/// In the order of the program; a loop twice, so that its end meets its beginning.
LogicalResult Buffers::follow(Block &block) {
  for (Operation &op : block) {
    if (isLoop(&op)) {
      for (int repeat = 0; repeat < 2; ++repeat)
        for (Block *inner : blocksOf(&op))
          if (failed(follow(*inner)))
            return failure();
      continue;
    }
    if (auto write = dyn_cast<pipe::WriteOp>(op)) {
      Value place = placeOf(write.getBuffer());
      if (!outputs[place].isFree())
        return write.emitOpError() << "expected the buffer's rows to have left before others are "
                                      "written; put pipe.empty_out and pipe.drain before it";
      Value channel = channels.lookup(place);
      auto isHeld = [&](const Hold &hold) { return covers(hold, write, write); };
      if (channel && llvm::none_of(consumers.holdsOf(channel), isHeld))
        return write.emitOpError() << "expected a stage that the consumers hold, got a buffer that "
                                      "the producer may fill; write between its pipe.await and "
                                      "its pipe.release";
      outputs[place] = {write, {}};
      continue;
    }
    if (auto out = dyn_cast<pipe::EmptyOutOp>(op)) {
      Output &output = outputs[placeOf(out.getBuffer())];
      if (!output.written)
        return out.emitOpError() << "expected a pipe.write to the buffer before it, got none since "
                                    "it left last; write it first";
      output = {{}, out};
      continue;
    }
    for (auto &[place, output] : outputs) {
      if (isa<pipe::DrainOp>(op) && output.leaving)
        output = {};
      if (output.isFree())
        continue;
      if (auto release = dyn_cast<pipe::ReleaseOp>(op);
          release && channels.lookup(place) == release.getChannel())
        return release.emitOpError() << "expected a pipe.drain before it: the output that lies in "
                                        "this stage is still being copied";
      WalkResult result = op.walk([&, place = place](Operation *reader) {
        for (Value operand : reader->getOperands())
          if (auto slot = operand.getDefiningOp<pipe::SlotOp>();
              slot && placeOf(slot.getBuffer()) == place) {
            reader->emitOpError() << "expected nothing to read the buffer between the pipe.write "
                                     "over it and the pipe.drain; read it before";
            return WalkResult::interrupt();
          }
        return WalkResult::advance();
      });
      if (result.wasInterrupted())
        return failure();
    }
  }
  return success();
}

/// C11.
LogicalResult checkTurns(Block &block, bool isInLoop, bool &areOpen) {
  pipe::BeginTurnOp turn;
  for (Operation &op : block) {
    if (isLoop(&op)) {
      for (Block *inner : blocksOf(&op))
        if (failed(checkTurns(*inner, /*isInLoop=*/true, areOpen)))
          return failure();
    } else if (isa<pipe::OpenTurnsOp>(op)) {
      if (isInLoop || areOpen)
        return op.emitOpError() << "expected to stand once, outside loops; a second first turn "
                                   "would let two warpgroups in";
      areOpen = true;
    } else if (auto begin = dyn_cast<pipe::BeginTurnOp>(op)) {
      if (!areOpen || turn)
        return begin.emitOpError()
               << "expected a pipe.open_turns before it and no turn that lasts; "
                  "the warpgroups would wait for ever";
      turn = begin;
    } else if (isa<pipe::EndTurnOp>(op)) {
      if (!turn)
        return op.emitOpError() << "expected a pipe.begin_turn before it in its block; the next "
                                   "warpgroup would come in too early";
      turn = {};
    }
  }
  if (turn)
    return turn.emitOpError() << "expected a pipe.end_turn behind it in its block, got none; the "
                                 "next warpgroup would wait for ever";
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

LogicalResult verify(pipe::RolesOp roles) {
  Role producer(/*isProducer=*/true), consumers(/*isProducer=*/false);
  if (failed(roles.verify()) || // C10
      failed(producer.read(roles.getProducer().front(), producer.steps)) ||
      failed(consumers.read(roles.getConsumers().front(), consumers.steps)))
    return failure();
  SmallVector<Value> channels;
  for (auto open : roles->getBlock()->getOps<pipe::OpenOp>())
    channels.push_back(open.getChannel());
  Pair pair(producer, consumers);
  for (Value channel : channels)
    if (failed(pair.compare(channel, producer.steps, consumers.steps)))
      return failure();
  Buffers buffers(roles, consumers);
  bool turnsAreOpen = false;
  return success(
      succeeded(pair.simulate(channels)) && succeeded(buffers.findPlaces()) &&
      succeeded(buffers.checkProducts()) && succeeded(buffers.checkReads()) &&
      succeeded(buffers.checkOutputs()) &&
      succeeded(checkTurns(roles.getConsumers().front(), /*isInLoop=*/false, turnsAreOpen)));
}

struct PipeVerifyProtocol : impl::PipeVerifyProtocolBase<PipeVerifyProtocol> {
  void runOnOperation() override {
    for (auto roles : getOperation().getBodyBlock().getOps<pipe::RolesOp>())
      if (failed(verify(roles)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace tesela
