//===- RoleRun.cpp - Executes a role in the compiler ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RoleRun.h"

#include "targets/nvvm/ColumnsInPlace.h"
#include "targets/nvvm/ProductShares.h"
#include "targets/nvvm/RoleSteps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tesela::nvvm {

namespace {

/// A run with more events than this is taken for one that does not end.
constexpr size_t mostEvents = 1 << 16;

/// Whether other roles depend on `op`, or it touches a buffer.
bool isEvent(Operation *op) {
  return useOf(op).first ||
         isa<pipe::AddOutOp, pipe::BarrierOp, pipe::BeginTurnOp, pipe::DotStartOp, pipe::DotWaitOp,
             pipe::DrainOp, pipe::EmptyOutOp, pipe::EndItemsOp, pipe::EndTurnOp, pipe::NextItemOp,
             pipe::OpenTurnsOp, pipe::WriteOp>(op) ||
         isVoteOfAll(op);
}

class Run {
public:
  Run(const Scenario &scenario, Sent &sent) : scenario(scenario), sent(sent) {}

  LogicalResult run(Block &block);

  std::vector<Event> events;

private:
  LogicalResult run(Operation &op);
  LogicalResult run(scf::ForOp loop);
  LogicalResult run(scf::WhileOp loop);
  LogicalResult run(scf::IfOp branch);
  LogicalResult note(Operation &op);
  int64_t iterationsOf(Operation *loop);
  Number compute(Operation &op);
  Number valueOf(Value value) {
    APInt constant;
    if (value.getType().isIntOrIndex() && matchPattern(value, m_ConstantInt(&constant)))
      return constant.getBitWidth() == 1 ? int64_t(constant.getZExtValue())
                                         : constant.getSExtValue();
    return values.lookup(value);
  }
  Numbers valuesOf(ValueRange range) {
    return Numbers(llvm::map_range(range, [&](Value value) { return valueOf(value); }));
  }
  void set(ValueRange to, ArrayRef<Number> from) {
    for (auto [value, number] : llvm::zip_equal(to, from))
      values[value] = number;
  }

  const Scenario &scenario;
  Sent &sent;
  llvm::DenseMap<Value, Number> values;
  llvm::DenseMap<Operation *, int64_t> executions; ///< how often each loop has been run
  int64_t taken = 0;                               ///< work items taken so far
};

LogicalResult Run::run(Block &block) {
  for (Operation &op : block)
    if (failed(run(op)))
      return failure();
  return success();
}

LogicalResult Run::run(Operation &op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return run(loop);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return run(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return run(branch);
  if (failed(note(op)))
    return failure();
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](pipe::FirstItemOp first) {
        taken = 1;
        values[first.getItem()] = 0;
        return success();
      })
      .Case([&](pipe::NextItemOp next) {
        values[next.getItem()] = taken++;
        return success();
      })
      .Case([&](tile::WorkItemsOp items) {
        values[items->getResult(0)] = scenario.items;
        return success();
      })
      .Case([&](tile::WorkPartOp part) {
        values[part->getResult(0)] = 0;
        return success();
      })
      .Case([&](pipe::SendOp send) {
        sent[send.getChannel()].push_back(valuesOf(send.getValues()));
        return success();
      })
      .Case([&](pipe::PublishOp publish) {
        sent[publish.getChannel()].emplace_back();
        return success();
      })
      .Case([&](pipe::FillOp fill) {
        if (int64_t(fill.getPart()) + 1 == fill.getChannel().getType().getParts())
          sent[fill.getChannel()].push_back(valuesOf(fill.getValues()));
        return success();
      })
      .Case<pipe::AwaitOp, pipe::ReceiveOp>([&](auto wait) -> LogicalResult {
        std::vector<Numbers> &known = sent[wait.getChannel()];
        Number use = valueOf(wait.getUse());
        if (!use || size_t(*use) >= known.size())
          return wait.emitOpError() << "waits forever: nobody fills or sends use "
                                    << use.value_or(-1) << " of the channel";
        set(wait.getValues(), known[*use]);
        return success();
      })
      .Default([&](Operation *op) {
        if (op->getNumResults() == 1)
          values[op->getResult(0)] = compute(*op);
        return success();
      });
}

LogicalResult Run::note(Operation &op) {
  Event event{&op, {}, {}};
  if (Value use = useOf(&op).second)
    event.use = valueOf(use);
  else if (auto write = dyn_cast<pipe::WriteOp>(op))
    event.use = valueOf(write.getStage());
  for (Value operand : op.getOperands()) {
    if (Value inPlace = readInPlace(operand))
      operand = inPlace;
    if (auto slot = operand.getDefiningOp<pipe::SlotOp>())
      event.reads.push_back({slot.getBuffer(), valueOf(slot.getStage())});
  }
  if (!isEvent(&op) && event.reads.empty())
    return success();
  if (useOf(&op).first && !event.use)
    return op.emitOpError() << "expected a use whose number follows from those before it, got a "
                               "value that is not known";
  events.push_back(std::move(event));
  return events.size() <= mostEvents
             ? success()
             : op.emitOpError() << "expected a role that ends, got one that still runs after "
                                << mostEvents << " operations";
}

Number Run::compute(Operation &op) {
  Numbers operands = valuesOf(op.getOperands());
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return operands[0] ? operands[*operands[0] ? 1 : 2] : Number();
  if (!llvm::all_of(operands, [](const Number &each) { return each.has_value(); }))
    return {};
  auto binary = [&](auto function) -> Number { return function(*operands[0], *operands[1]); };
  return llvm::TypeSwitch<Operation *, Number>(&op)
      .Case([&](arith::AddIOp) { return binary([](int64_t a, int64_t b) { return a + b; }); })
      .Case([&](arith::SubIOp) { return binary([](int64_t a, int64_t b) { return a - b; }); })
      .Case([&](arith::MulIOp) { return binary([](int64_t a, int64_t b) { return a * b; }); })
      .Case([&](arith::AndIOp) { return binary([](int64_t a, int64_t b) { return a & b; }); })
      .Case([&](arith::OrIOp) { return binary([](int64_t a, int64_t b) { return a | b; }); })
      .Case([&](arith::XOrIOp) { return binary([](int64_t a, int64_t b) { return a ^ b; }); })
      .Case([&](arith::RemUIOp) -> Number {
        if (*operands[1] == 0)
          return {};
        return binary([](int64_t a, int64_t b) { return a % b; });
      })
      .Case([&](arith::CmpIOp test) -> Number {
        unsigned width = test.getLhs().getType().getIntOrFloatBitWidth();
        return arith::applyCmpPredicate(test.getPredicate(), APInt(width, *operands[0], true, true),
                                        APInt(width, *operands[1], true, true));
      })
      .Case<arith::ExtUIOp, arith::ExtSIOp, arith::TruncIOp>([&](auto) { return operands[0]; })
      .Default([](Operation *) { return Number(); });
}

/// Whether a loop inside of `loop` uses a channel.
static bool usesChannelsInLoops(Operation *loop) {
  auto loopOf = [](Operation *op) {
    do
      op = op->getParentOp();
    while (op && !isLoop(op));
    return op;
  };
  WalkResult found = loop->walk([&](Operation *op) {
    bool isInLoop = useOf(op).first && loopOf(op) != loop;
    return isInLoop ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found.wasInterrupted();
}

/// How often a loop of unknown bounds runs this time.
int64_t Run::iterationsOf(Operation *loop) {
  // The innermost loops over uses run often enough to use all stages. The loops around them run two
  // or three times.
  int64_t count =
      usesChannelsInLoops(loop) ? std::min<int64_t>(scenario.iterations, 2) : scenario.iterations;
  return count + executions[loop]++ % 2;
}

LogicalResult Run::run(scf::ForOp loop) {
  Number low = valueOf(loop.getLowerBound()), high = valueOf(loop.getUpperBound()),
         step = valueOf(loop.getStep());
  // An item that does not exist (pipe-overlap-items) has a loop from `low` to `low`.
  auto bound = loop.getUpperBound().getDefiningOp<arith::SelectOp>();
  bool isNone =
      bound && bound.getFalseValue() == loop.getLowerBound() && valueOf(bound.getCondition()) == 0;
  int64_t count;
  if (isNone)
    count = 0;
  else if (low && high && step && *step > 0)
    count = *low < *high ? (*high - *low + *step - 1) / *step : 0;
  else
    count = iterationsOf(loop);
  Numbers carried = valuesOf(loop.getInitArgs());
  for (int64_t i = 0; i < count; ++i) {
    values[loop.getInductionVar()] = low && step ? Number(*low + i * *step) : Number();
    set(loop.getRegionIterArgs(), carried);
    if (failed(run(*loop.getBody())))
      return failure();
    carried = valuesOf(loop.getYieldedValues());
  }
  set(loop.getResults(), carried);
  return success();
}

LogicalResult Run::run(scf::WhileOp loop) {
  set(loop.getBeforeArguments(), valuesOf(loop.getInits()));
  Number count;
  if (loop->hasAttr(countedAttr))
    count = iterationsOf(loop);
  for (int64_t iteration = 1;; ++iteration) {
    if (failed(run(*loop.getBeforeBody())))
      return failure();
    scf::ConditionOp condition = loop.getConditionOp();
    Number goesOn = valueOf(condition.getCondition());
    if (!goesOn && count)
      goesOn = iteration < *count;
    if (!goesOn)
      return loop.emitOpError() << "expected a condition that follows from the work items, got one "
                                   "that is not known";
    Numbers passed = valuesOf(condition.getArgs());
    if (!*goesOn) {
      set(loop.getResults(), passed);
      return success();
    }
    set(loop.getAfterArguments(), passed);
    if (failed(run(*loop.getAfterBody())))
      return failure();
    set(loop.getBeforeArguments(), valuesOf(loop.getYieldOp().getOperands()));
  }
}

LogicalResult Run::run(scf::IfOp branch) {
  Number condition = valueOf(branch.getCondition());
  if (!condition && branch->hasAttr(countedAttr))
    condition = 1;
  if (condition) {
    Region &region = *condition ? branch.getThenRegion() : branch.getElseRegion();
    if (region.empty())
      return success();
    if (failed(run(region.front())))
      return failure();
    set(branch.getResults(), valuesOf(region.front().getTerminator()->getOperands()));
    return success();
  }
  // The run cannot follow a branch on unknown values. Such a branch may only read.
  Operation *found = nullptr;
  branch.walk([&](Operation *op) {
    if (isEvent(op) && !isa<pipe::DotStartOp, pipe::DotWaitOp>(op))
      found = op;
  });
  if (found)
    return found->emitOpError()
           << "expected an op outside of branches on values that are not known, "
              "got one inside; other roles count on it, so move it out";
  for (Region *region : {&branch.getThenRegion(), &branch.getElseRegion()})
    if (!region->empty() && failed(run(region->front())))
      return failure();
  set(branch.getResults(), Numbers(branch.getNumResults()));
  return success();
}

} // namespace

FailureOr<std::vector<Event>> runRole(Region &role, const Scenario &scenario, Sent &sent) {
  Run run(scenario, sent);
  if (failed(run.run(role.front())))
    return failure();
  return std::move(run.events);
}

} // namespace tesela::nvvm
