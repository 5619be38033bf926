//===- RunRoles.cpp - pipe-run-roles ----------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RoleRun.h"
#include "targets/nvvm/RoleSteps.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPERUNROLES
#include "targets/nvvm/Passes.h.inc"

namespace {

using namespace nvvm;

//===----------------------------------------------------------------------===//
// One role: R1 to R4
//===----------------------------------------------------------------------===//

/// The buffer over which `buffer` lies, or `buffer` itself. It stands for a place in shared memory.
/// The stages of crossed buffers are kept apart by their acquires.
Value placeOf(Value buffer) {
  while (auto alloc = buffer.getDefiningOp<pipe::AllocOp>()) {
    if (!alloc.getOver() || alloc.getCrossed())
      break;
    buffer = alloc.getOver();
  }
  return buffer;
}

/// How the places in shared memory are used.
struct Places {
  llvm::DenseMap<Value, Value> filledBy; ///< the channel that fills the place
  llvm::DenseMap<Value, Value> handedBy; ///< the channel on which the consumers publish the place
  llvm::DenseSet<Value> exchanged;       ///< places that the consumers write and read themselves
  llvm::DenseSet<Value> outputs;         ///< places from which results are copied out

  LogicalResult find(pipe::RolesOp roles);
  /// Whether consumers publish a buffer on `channel`.
  bool isPublished(Value channel) const {
    return llvm::any_of(handedBy, [&](auto &each) { return each.second == channel; });
  }
  /// The channel whose uses say when the stages of a place may be read; null if there is none.
  Value channelOf(Value place) const {
    Value channel = filledBy.lookup(place);
    return channel ? channel : handedBy.lookup(place);
  }
};

/// R2: one channel fills a buffer.
LogicalResult Places::find(pipe::RolesOp roles) {
  WalkResult result = roles.walk([&](pipe::FillOp fill) {
    auto [known, isNew] = filledBy.insert({placeOf(fill.getBuffer()), fill.getChannel()});
    if (known->second == fill.getChannel())
      return WalkResult::advance();
    fill.emitOpError() << "expected one channel to fill a buffer, got a second one; the two would "
                          "write over each other";
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  result = roles.walk([&](pipe::PublishOp publish) {
    auto [known, isNew] = handedBy.insert({placeOf(publish.getBuffer()), publish.getChannel()});
    if (known->second == publish.getChannel() && !filledBy.contains(known->first))
      return WalkResult::advance();
    publish.emitOpError() << "expected one channel for what the consumers write to a buffer, got a "
                             "second one; the two would write over each other";
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  roles.walk([&](pipe::WriteOp write) {
    Value place = placeOf(write.getBuffer());
    bool isRead = llvm::any_of(write.getBuffer().getUsers(), llvm::IsaPred<pipe::SlotOp>);
    (isRead && !filledBy.contains(place) ? exchanged : outputs).insert(place);
  });
  return success();
}

/// The state of a role while it runs: what it holds, what is in flight, what is written.
class Holder {
public:
  explicit Holder(const Places &places) : places(places) {}

  LogicalResult follow(const Event &event);
  LogicalResult finish();

private:
  /// A product in flight and the stages that it reads until it is awaited.
  struct Product {
    Operation *start;
    SmallVector<std::pair<Value, Number>, 2> reads;
  };
  /// State of an output. `drained` is for outputs that lie over an exchange: the warpgroup's own
  /// rows have been copied out, but perhaps not yet those of the others.
  enum class Output { free, written, leaving, drained };
  /// A stage of a buffer that the consumers write and read themselves.
  struct Exchange {
    bool isWritten = false, isRead = false; ///< since the last barrier
  };

  /// A place, and the offset of a buffer that lies over it. The offset is `whole` for the buffer
  /// that owns the place.
  using OutputPlace = std::pair<Value, int64_t>;
  static constexpr int64_t whole = -1;
  static OutputPlace outputPlaceOf(Value buffer) {
    auto alloc = buffer.getDefiningOp<pipe::AllocOp>();
    return {placeOf(buffer), alloc.getOver() ? int64_t(alloc.getBehind()) : whole};
  }
  /// Whether the two share bytes. Outputs that lie beside each other do not.
  static bool meet(OutputPlace a, OutputPlace b) {
    return a.first == b.first && (a.second == b.second || a.second == whole || b.second == whole);
  }
  /// Whether an output lies at `place`, or in any part of it.
  bool hasOutput(Value place) const {
    return llvm::any_of(outputs, [&](auto &each) {
      return each.first.first == place && each.second.first != Output::free;
    });
  }

  LogicalResult countUse(const Event &event);
  LogicalResult publish(const Event &event);
  bool holds(Value channel, Number stage);
  LogicalResult read(const Event &event);
  LogicalResult release(const Event &event);
  Exchange *exchangeAt(Operation *op, Value place, Number stage);
  LogicalResult checkLeft(Operation *op, Value place);
  LogicalResult write(pipe::WriteOp op, Number stage);
  LogicalResult await(pipe::DotWaitOp op);

  const Places &places;
  /// Number of uses that were acquired, by channel and part; awaited uses count as part -1.
  llvm::DenseMap<std::pair<Value, int64_t>, int64_t> begun;
  llvm::DenseMap<Value, int64_t> open; ///< the use that was acquired and not yet published
  llvm::DenseMap<Value, SmallVector<int64_t>> held; ///< uses that are not released
  SmallVector<Product> products;
  llvm::MapVector<OutputPlace, std::pair<Output, Operation *>> outputs;
  llvm::MapVector<std::pair<Value, int64_t>, Exchange> exchanges; ///< by place and stage
};

/// R1.
LogicalResult Holder::countUse(const Event &event) {
  Value channel = useOf(event.op).first;
  bool isAcquired = isa<pipe::AcquireOp>(event.op);
  int64_t &count = begun[{channel, isAcquired ? partOf(event.op) : -1}];
  if (*event.use != count)
    return event.op->emitOpError() << "expected use " << count << " of the channel, got "
                                   << *event.use << "; a role's uses count up by one from 0";
  ++count;
  if (!isAcquired || !places.isPublished(channel))
    return success();
  if (!open.insert({channel, *event.use}).second)
    return event.op->emitOpError() << "expected the pipe.publish of use " << open[channel]
                                   << " before the next pipe.acquire, got none; the stage would "
                                      "never be full";
  return success();
}

/// R2.
LogicalResult Holder::publish(const Event &event) {
  auto acquired = open.find(useOf(event.op).first);
  if (acquired == open.end() || acquired->second != *event.use)
    return event.op->emitOpError() << "expected a pipe.acquire of use " << *event.use
                                   << " before its pipe.publish, got none";
  open.erase(acquired);
  return success();
}

/// Whether a use of `channel` with stage `stage` is between its await and its release.
bool Holder::holds(Value channel, Number stage) {
  return llvm::any_of(held[channel],
                      [&](int64_t use) { return stage && use % stagesOf(channel) == *stage; });
}

static InFlightDiagnostic reportNotHeld(Operation *op) {
  return op->emitOpError() << "expected to read a stage between its pipe.await and its "
                              "pipe.release; it may be written at any other time";
}

/// Whether `op` is a product whose right operand lies in `buffer`.
static bool isRightOperand(Operation *op, Value buffer) {
  if (!isa<tile::DotOp, pipe::DotStartOp>(op))
    return false;
  auto slot = op->getOperand(1).getDefiningOp<pipe::SlotOp>();
  return slot && slot.getBuffer() == buffer;
}

/// Returns null, with a diagnostic at `op`, if the stage is not known.
Holder::Exchange *Holder::exchangeAt(Operation *op, Value place, Number stage) {
  if (stage)
    return &exchanges[{place, *stage}];
  op->emitOpError() << "expected a stage whose number follows from those before it, got a value "
                       "that is not known";
  return nullptr;
}

/// Fails if an output still lies in the exchange at `place`.
LogicalResult Holder::checkLeft(Operation *op, Value place) {
  if (!hasOutput(place))
    return success();
  return op->emitOpError()
         << "expected a pipe.drain and a pipe.barrier behind it between the output "
            "over this buffer and the next use of it; the rows of all "
            "warpgroups must have left";
}

/// R2.
LogicalResult Holder::read(const Event &event) {
  for (auto [buffer, stage] : event.reads) {
    Value place = placeOf(buffer);
    if (places.exchanged.contains(place)) {
      Exchange *exchange = exchangeAt(event.op, place, stage);
      if (!exchange || failed(checkLeft(event.op, place)))
        return failure();
      if (Value channel = places.handedBy.lookup(place)) {
        if (!holds(channel, stage))
          return reportNotHeld(event.op);
      } else if (exchange->isWritten) {
        return event.op->emitOpError() << "expected a pipe.barrier between the pipe.write of this "
                                          "buffer and what reads it, got none; add it";
      }
      exchange->isRead = true;
      continue;
    }
    Value channel = places.filledBy.lookup(place);
    if (!channel)
      return event.op->emitOpError()
             << "expected a buffer that the producer fills, got one without "
                "a pipe.fill; fill it or do not read it";
    if (!holds(channel, stage))
      return reportNotHeld(event.op);
    bool isByRows = cast<pipe::ChannelType>(channel.getType()).getParts() > 1;
    if ((isByRows || places.outputs.contains(place)) && isRightOperand(event.op, buffer))
      return event.op->emitOpError()
             << "expected nothing but a left operand in a buffer that is filled in parts or where "
                "an output goes: of a right operand a warpgroup reads the other rows too; give it "
                "a buffer of its own";
    if (hasOutput(place))
      return event.op->emitOpError()
             << "expected nothing to read the buffer between the pipe.write "
                "over it and the pipe.drain; read it before";
  }
  return success();
}

LogicalResult Holder::release(const Event &event) {
  Value channel = useOf(event.op).first;
  SmallVector<int64_t> &uses = held[channel];
  auto *found = llvm::find(uses, *event.use);
  if (found == uses.end())
    return event.op->emitOpError()
           << "expected a pipe.await of use " << *event.use << " before its pipe.release, got none";
  int64_t stage = *event.use % stagesOf(channel);
  for (const Product &product : products)
    for (auto [buffer, readStage] : product.reads)
      if (places.channelOf(placeOf(buffer)) == channel && (!readStage || *readStage == stage)) {
        InFlightDiagnostic error = event.op->emitOpError()
                                   << "expected a pipe.dot_wait before the release of a stage that "
                                      "a product reads; it may be written from here on";
        error.attachNote(product.start->getLoc()) << "the product starts here";
        return failure();
      }
  for (auto &[place, output] : outputs)
    if (output.first != Output::free && places.filledBy.lookup(place.first) == channel)
      return event.op->emitOpError() << "expected a pipe.drain before it: the output that lies in "
                                        "this stage is still being copied";
  uses.erase(found);
  return success();
}

/// R3.
LogicalResult Holder::write(pipe::WriteOp op, Number stage) {
  Value place = placeOf(op.getBuffer());
  bool isOutput = llvm::none_of(op.getBuffer().getUsers(), llvm::IsaPred<pipe::SlotOp>);
  if (isOutput) {
    for (auto &[other, exchange] : exchanges)
      if (other.first == place && (exchange.isWritten || exchange.isRead))
        return op.emitOpError() << "expected a pipe.barrier between what reads this buffer and an "
                                   "output over it, got none; add it";
  } else if (places.exchanged.contains(place)) {
    Exchange *exchange = exchangeAt(op, place, stage);
    if (!exchange || failed(checkLeft(op, place)))
      return failure();
    if (Value channel = places.handedBy.lookup(place)) {
      auto acquired = open.find(channel);
      if (acquired == open.end() || acquired->second % stagesOf(channel) != *stage)
        return op.emitOpError() << "expected to write a stage between the pipe.acquire and the "
                                   "pipe.publish of its use; others may read it at any other time";
    } else if (exchange->isRead) {
      return op.emitOpError() << "expected a pipe.barrier between what reads this buffer and the "
                                 "next pipe.write, got none; add it";
    }
    exchange->isWritten = true;
    return success();
  }
  OutputPlace own = outputPlaceOf(op.getBuffer());
  bool isTaken = llvm::any_of(outputs, [&](auto &other) {
    return meet(other.first, own) && other.second.first != Output::free;
  });
  auto &[state, last] = outputs[own];
  if (isTaken)
    return op.emitOpError() << "expected the buffer's rows to have left before others are written; "
                               "put pipe.empty_out and pipe.drain before it";
  if (Value channel = places.filledBy.lookup(place); channel && held[channel].empty())
    return op.emitOpError() << "expected a stage that the consumers hold, got a buffer that the "
                               "producer may fill; write between its pipe.await and its "
                               "pipe.release";
  state = Output::written;
  last = op;
  return success();
}

/// The pipe.dot_start ops whose products `value` may be.
static void findStarts(Value value, llvm::SmallDenseSet<Operation *> &starts,
                       llvm::SmallDenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return;
  if (auto start = value.getDefiningOp<pipe::DotStartOp>()) {
    starts.insert(start);
  } else if (auto loop = value.getDefiningOp<scf::WhileOp>()) {
    unsigned index = cast<OpResult>(value).getResultNumber();
    findStarts(loop.getConditionOp().getArgs()[index], starts, seen);
  } else if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::WhileOp>(argument.getOwner()->getParentOp());
    unsigned index = argument.getArgNumber();
    if (loop && argument.getOwner() == loop.getAfterBody()) {
      findStarts(loop.getConditionOp().getArgs()[index], starts, seen);
    } else if (loop) {
      findStarts(loop.getInits()[index], starts, seen);
      findStarts(loop.getYieldOp().getOperand(index), starts, seen);
    }
  }
}

/// R6. Products end in the order in which they started: all but the last `pending` have ended.
LogicalResult Holder::await(pipe::DotWaitOp op) {
  if (op.getPending() < products.size())
    products.erase(products.begin(), products.end() - op.getPending());
  llvm::SmallDenseSet<Operation *> starts;
  llvm::SmallDenseSet<Value> seen;
  findStarts(op.getSource(), starts, seen);
  for (const Product &product : products)
    if (starts.contains(product.start))
      return op.emitOpError() << "expected a product that is not among the " << op.getPending()
                              << " last ones that started, got one of them; it could still be in "
                                 "flight";
  return success();
}

LogicalResult Holder::follow(const Event &event) {
  if (beginsUse(event.op) && failed(countUse(event)))
    return failure();
  if (failed(read(event)))
    return failure();
  return llvm::TypeSwitch<Operation *, LogicalResult>(event.op)
      .Case([&](pipe::AwaitOp await) {
        held[await.getChannel()].push_back(*event.use);
        return success();
      })
      .Case([&](pipe::ReleaseOp) { return release(event); })
      .Case([&](pipe::PublishOp) { return publish(event); })
      .Case([&](pipe::DotStartOp start) {
        products.push_back({start, SmallVector<std::pair<Value, Number>, 2>(event.reads)});
        return success();
      })
      .Case([&](pipe::DotWaitOp wait) { return await(wait); })
      .Case<pipe::BarrierOp, tile::AnyPositiveOp>([&](auto) { // all consumers meet
        for (auto &[place, output] : outputs)
          if (output.first == Output::drained)
            output.first = Output::free;
        for (auto &[stage, exchange] : exchanges) {
          bool isInFlight = llvm::any_of(products, [&, stage = stage](const Product &product) {
            return llvm::any_of(product.reads, [&](auto &read) {
              return placeOf(read.first) == stage.first && read.second == stage.second;
            });
          });
          exchange = {false, isInFlight};
        }
        return success();
      })
      .Case([&](pipe::WriteOp op) { return write(op, event.use); })
      .Case<pipe::EmptyOutOp, pipe::AddOutOp>([&](auto out) -> LogicalResult {
        auto &[state, last] = outputs[outputPlaceOf(out.getBuffer())];
        auto addition = dyn_cast<pipe::AddOutOp>(out.getOperation());
        if (addition && addition.getLate() && state != Output::written)
          return success(); // nothing was written before the first iteration
        if (state != Output::written)
          return out.emitOpError() << "expected a pipe.write to the buffer before it, got none "
                                      "since it left last; write it first";
        state = Output::leaving;
        last = out;
        return success();
      })
      .Case([&](pipe::DrainOp) {
        for (auto &[place, output] : outputs)
          if (output.first == Output::leaving)
            output.first = places.exchanged.contains(place.first) ? Output::drained : Output::free;
        return success();
      })
      .Default([](Operation *) { return success(); });
}

/// R4.
LogicalResult Holder::finish() {
  for (auto [channel, use] : open)
    return emitError(channel.getLoc())
           << "expected a pipe.publish of use " << use
           << ", which was acquired, before the role ends, got none; the stage would never be full";
  for (auto &[place, output] : outputs)
    if (output.first == Output::written)
      return output.second->emitOpError()
             << "expected a pipe.empty_out of the buffer behind it, got "
                "none; what is written would be lost";
    else if (output.first == Output::leaving)
      return output.second->emitOpError()
             << "expected a pipe.drain before the role ends, got none; "
                "shared memory would go while it is copied";
  return success();
}

//===----------------------------------------------------------------------===//
// All roles: R5
//===----------------------------------------------------------------------===//

struct RunningRole {
  StringRef name;
  std::vector<Event> events;
  size_t at = 0;
};

/// The state of a channel. Each role that reads it awaits and releases on its own.
struct Tokens {
  int64_t acquired = 0, filled = 0;
  llvm::SmallDenseMap<RunningRole *, int64_t, 2> awaited, released;
};

/// Whether `role` gets past its next event. Updates the channels.
bool advance(RunningRole &role, llvm::DenseMap<Value, Tokens> &channels) {
  Operation *op = role.events[role.at].op;
  Value channel = useOf(op).first;
  if (!channel)
    return true;
  Tokens &tokens = channels[channel];
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](pipe::AcquireOp acquire) {
        if (acquire.getPart() > 0)
          return true;
        for (auto [reader, count] : tokens.released)
          if (tokens.acquired - count >= stagesOf(channel))
            return false;
        if (Value crossed = crossedChannel(channel)) // its use before must be released, too
          for (auto [reader, count] : channels.find(crossed)->second.released)
            if (tokens.acquired > count)
              return false;
        return ++tokens.acquired > 0;
      })
      .Case([&](pipe::FillOp fill) { // the stage is full with the last part
        tokens.filled += int64_t(fill.getPart()) + 1 == fill.getChannel().getType().getParts();
        return true;
      })
      .Case<pipe::SendOp, pipe::PublishOp>([&](auto) { return ++tokens.filled; })
      .Case([&](pipe::AwaitOp) {
        return tokens.awaited[&role] < tokens.filled && ++tokens.awaited[&role];
      })
      .Case([&](pipe::ReleaseOp) { return ++tokens.released[&role]; })
      .Case([&](pipe::ReceiveOp) {
        return tokens.awaited[&role] < tokens.filled && ++tokens.awaited[&role] &&
               ++tokens.released[&role];
      })
      .Default([](Operation *) { return true; });
}

/// Runs the roles against each other, each as far as it gets. No role has a choice, so one order
/// shows every deadlock. The warpgroups of the consumers are one role here, since they run the same
/// program. That is enough: no warpgroup waits for a use that the others publish or release only
/// later in the program.
LogicalResult runTogether(MutableArrayRef<RunningRole> roles) {
  llvm::DenseMap<Value, Tokens> channels;
  for (RunningRole &role : roles)
    for (const Event &event : role.events)
      if (isa<pipe::AwaitOp, pipe::ReceiveOp>(event.op))
        channels[useOf(event.op).first].released[&role] = 0;
  for (bool hasMoved = true; hasMoved;) {
    hasMoved = false;
    for (RunningRole &role : roles)
      for (; role.at < role.events.size() && advance(role, channels); ++role.at)
        hasMoved = true;
  }
  std::optional<InFlightDiagnostic> error;
  for (RunningRole &role : llvm::reverse(roles)) {
    if (role.at == role.events.size())
      continue;
    Operation *op = role.events[role.at].op;
    if (error)
      error->attachNote(op->getLoc()) << role.name << " waits here";
    else
      error.emplace(op->emitOpError()
                    << "waits forever: the roles wait for each other; await in the order in which "
                       "the producer fills, release earlier, or give the channel more stages");
  }
  return failure(error.has_value());
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

LogicalResult run(pipe::RolesOp op, const Scenario &scenario) {
  Places places;
  if (failed(places.find(op)))
    return failure();
  Sent sent;
  SmallVector<RunningRole, 3> roles;
  for (auto [name, region] : {std::pair<StringRef, Region *>("the finder", &op.getFinder()),
                              {"the producer", &op.getProducer()},
                              {"the consumers", &op.getConsumers()}}) {
    if (region->empty())
      continue;
    FailureOr<std::vector<Event>> events = runRole(*region, scenario, sent);
    if (failed(events))
      return failure();
    Holder holder(places);
    for (const Event &event : *events)
      if (failed(holder.follow(event)))
        return failure();
    if (failed(holder.finish()))
      return failure();
    roles.push_back({name, std::move(*events)});
  }
  return runTogether(roles);
}

struct PipeRunRoles : impl::PipeRunRolesBase<PipeRunRoles> {
  void runOnOperation() override {
    int64_t stages = 1;
    getOperation().walk(
        [&](pipe::OpenOp open) { stages = std::max(stages, stagesOf(open.getChannel())); });
    // A single item; the step from one item to the next; all stages in use.
    const Scenario scenarios[] = {{1, 1}, {2, 1}, {3, stages + 1}};
    for (auto roles : getOperation().getBodyBlock().getOps<pipe::RolesOp>())
      for (const Scenario &scenario : scenarios)
        if (failed(run(roles, scenario)))
          return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace tesela
