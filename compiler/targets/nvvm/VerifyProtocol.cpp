//===- VerifyProtocol.cpp - pipe-verify-protocol ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// C1 to C11 are the constraints that Passes.td lists. A role is read once into its steps, C1 to C3
// on the way; the rest compares the steps of the roles and looks at what lies between them.
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RolePair.h"

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
// All roles together: C5
//===----------------------------------------------------------------------===//

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

/// What was done to a channel so far. Each role that reads it awaits and releases for itself.
struct Tokens {
  int64_t acquired = 0, filled = 0;
  llvm::SmallDenseMap<Role *, int64_t, 2> awaited, released;

  /// Whether `role` gets past the step.
  bool advance(Role *role, const Step &step) {
    return llvm::TypeSwitch<Operation *, bool>(step.op)
        .Case([&](pipe::AcquireOp acquire) {
          if (acquire.getPart() > 0)
            return true;
          for (auto [reader, count] : released)
            if (acquired - count >= stagesOf(step.channel))
              return false;
          return ++acquired > 0;
        })
        .Case([&](pipe::FillOp fill) { // full with its last part
          filled += int64_t(fill.getPart()) + 1 == fill.getChannel().getType().getParts();
          return true;
        })
        .Case([&](pipe::SendOp) { return ++filled; })
        .Case([&](pipe::AwaitOp) { return awaited[role] < filled && ++awaited[role]; })
        .Case([&](pipe::ReleaseOp) { return ++released[role]; })
        .Case([&](pipe::ReceiveOp) {
          return awaited[role] < filled && ++awaited[role] && ++released[role];
        })
        .Default([](Operation *) { return true; });
  }
};

/// Runs the programs step by step, each as far as it gets. None has a choice, so one order shows
/// every circle. The loops run until all stages are in use.
LogicalResult simulate(ArrayRef<Role *> roles, ArrayRef<Value> channels) {
  int64_t stages = 0;
  for (Value channel : channels)
    stages = std::max(stages, stagesOf(channel));
  for (int64_t iterations : {int64_t(1), stages + 1}) {
    llvm::DenseMap<Value, Tokens> tokens;
    for (Value channel : channels)
      for (Role *role : roles)
        if (role->uses(channel, /*sends=*/false))
          tokens[channel].released[role] = 0;
    SmallVector<SmallVector<const Step *>> rest(roles.size());
    SmallVector<size_t> done(roles.size(), 0);
    for (auto [role, steps] : llvm::zip(roles, rest))
      unroll(role->steps, iterations, steps);
    for (bool hasMoved = true; hasMoved;) {
      hasMoved = false;
      for (auto [role, steps, at] : llvm::zip(roles, rest, done))
        for (; at < steps.size(); ++at, hasMoved = true)
          if (!tokens[steps[at]->channel].advance(role, *steps[at]))
            break;
    }
    std::optional<InFlightDiagnostic> error;
    for (size_t role : llvm::reverse(llvm::seq(roles.size()))) {
      if (done[role] == rest[role].size())
        continue;
      Operation *op = rest[role][done[role]]->op;
      if (error)
        error->attachNote(op->getLoc()) << roles[role]->name << " waits here";
      else
        error.emplace(op->emitOpError()
                      << "waits for ever: the roles wait for each other; await in the order in "
                         "which the producer fills, release earlier, or give the channel more "
                         "stages");
    }
    if (error)
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

/// C4: who sends, against each who reads.
LogicalResult compare(ArrayRef<Role *> roles, ArrayRef<Value> channels) {
  for (Value channel : channels) {
    Role *sender = nullptr, *reader = nullptr;
    for (Role *role : roles) {
      bool sends = role->uses(channel, /*sends=*/true);
      if (role->uses(channel, /*sends=*/false))
        reader = role;
      if (sends && sender)
        return role->holdsOf(channel).front().begin->emitOpError()
               << "expected one role to fill a channel or to send through it, got " << sender->name
               << " and " << role->name << "; give each a channel of its own";
      if (sends)
        sender = role;
    }
    if (Role *alone = !sender ? reader : !reader ? sender : nullptr)
      return differ(alone->holdsOf(channel).front().begin, nullptr);
  }
  Messages messages;
  std::vector<Pair> pairs;
  for (auto sender = roles.begin(); sender != roles.end(); ++sender)
    for (auto reader = sender + 1; reader != roles.end(); ++reader) {
      Pair &pair = pairs.emplace_back(**sender, **reader, messages);
      for (Value channel : channels)
        if ((*sender)->uses(channel, /*sends=*/true) && (*reader)->uses(channel, /*sends=*/false) &&
            failed(pair.compare(channel)))
          return failure();
    }
  for (Pair &pair : pairs) // once all messages are known
    if (failed(pair.compareLoops()))
      return failure();
  return success();
}

LogicalResult verify(pipe::RolesOp op) {
  if (failed(op.verify())) // C10
    return failure();
  Role finder("the finder"), producer("the producer"), consumers("the consumers");
  SmallVector<Role *> roles;
  for (auto [role, region] : {std::pair(&finder, &op.getFinder()),
                              {&producer, &op.getProducer()},
                              {&consumers, &op.getConsumers()}})
    if (!region->empty()) {
      if (failed(role->read(*region)))
        return failure();
      roles.push_back(role);
    }
  SmallVector<Value> channels;
  for (auto open : op->getBlock()->getOps<pipe::OpenOp>())
    channels.push_back(open.getChannel());
  if (failed(compare(roles, channels)) || failed(simulate(roles, channels)))
    return failure();
  Buffers buffers(op, consumers);
  bool turnsAreOpen = false;
  return success(
      succeeded(buffers.findPlaces()) && succeeded(buffers.checkProducts()) &&
      succeeded(buffers.checkReads()) && succeeded(buffers.checkOutputs()) &&
      succeeded(checkTurns(op.getConsumers().front(), /*isInLoop=*/false, turnsAreOpen)));
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
