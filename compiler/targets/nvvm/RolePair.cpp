//===- RolePair.cpp - Two roles that share channels -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RolePair.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela::nvvm {

LogicalResult differ(Operation *here, Operation *there) {
  InFlightDiagnostic error = here->emitOpError()
                             << "expected both roles to make the same uses of a channel in the "
                                "same loops, got what the other role does not match; give each "
                                "fill its await, each send its receive and each loop its own";
  if (there)
    error.attachNote(there->getLoc()) << "the other role stands here";
  return failure();
}

LogicalResult Pair::compare(Value channel, const Steps &fills, const Steps &reads) {
  auto isOfChannel = [&](const Step &step) { return step.isOf(channel); };
  auto first = llvm::make_filter_range(fills, isOfChannel);
  auto second = llvm::make_filter_range(reads, isOfChannel);
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
    auto send = dyn_cast<pipe::SendOp>(sender.endOf(fill->op));
    auto receive = dyn_cast<pipe::ReceiveOp>(read->op);
    if (bool(send) != bool(receive))
      return differ(read->op, fill->op);
    ValueRange sent, received;
    if (receive) {
      sent = send.getValues();
      received = receive.getValues();
    } else if (auto await = dyn_cast<pipe::AwaitOp>(read->op)) {
      auto copied = dyn_cast<pipe::FillOp>(sender.endOf(fill->op));
      if (!copied)
        return differ(read->op, fill->op);
      sent = copied.getValues();
      received = await.getValues();
    }
    for (auto [value, source] : llvm::zip(received, sent))
      messages[value] = source;
  }
  if (fill != first.end())
    return differ(fill->op, nullptr);
  if (read != second.end())
    return differ(read->op, nullptr);
  return success();
}

/// A condition, and a number that is sent if it holds: `condition ? number + 1 : 0`. Returns nulls
/// if `value` is something else.
static std::pair<Value, Value> sentOrNone(Value value) {
  auto choice = value.getDefiningOp<arith::SelectOp>();
  auto next = choice ? choice.getTrueValue().getDefiningOp<arith::AddIOp>() : arith::AddIOp();
  if (!next || !matchPattern(next.getRhs(), m_One()) ||
      !matchPattern(choice.getFalseValue(), m_Zero()))
    return {};
  return {choice.getCondition(), next.getLhs()};
}

/// The value that `value` is known to equal: what a while loop's head passes on, or what was sent.
Value Pair::resolve(Value value) {
  while (true) {
    auto argument = dyn_cast<BlockArgument>(value);
    auto loop = argument ? dyn_cast<scf::WhileOp>(argument.getOwner()->getParentOp()) : nullptr;
    if (loop && argument.getOwner() == loop.getAfterBody()) {
      value = loop.getConditionOp().getArgs()[argument.getArgNumber()];
      continue;
    }
    if (Value sent = messages.lookup(value)) {
      value = sent;
      continue;
    }
    // A block that is made of coordinates that were sent.
    if (auto block = value.getDefiningOp<tile::BlockOp>()) {
      auto place = resolve(block.getFirst()).getDefiningOp<tile::CoordinatesOp>();
      if (place && !block.getOf() && resolve(block.getFirst()) == place.getFirst() &&
          resolve(block.getBatch()) == place.getBatch() &&
          resolve(block.getHead()) == place.getHead())
        return place.getBlock();
    }
    // An i1 that was sent as a number, or that says whether a number was sent.
    if (auto test = value.getDefiningOp<arith::CmpIOp>();
        test && test.getPredicate() == arith::CmpIPredicate::ne &&
        matchPattern(test.getRhs(), m_Zero())) {
      Value sent = resolve(test.getLhs());
      if (auto flag = sent.getDefiningOp<arith::ExtUIOp>();
          flag && flag.getIn().getType().isInteger(1))
        return flag.getIn();
      if (auto [condition, number] = sentOrNone(sent); condition)
        return condition;
    }
    // That number.
    if (auto less = value.getDefiningOp<arith::SubIOp>();
        less && matchPattern(less.getRhs(), m_One()))
      if (auto [condition, number] = sentOrNone(resolve(less.getLhs())); number) {
        value = number;
        continue;
      }
    return value;
  }
}

/// Whether a value of one role equals a value of the other. Carried values are assumed to be equal
/// while their starting values and what is yielded for them are compared.
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
                    : isSameResult(first, second);
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

bool Pair::isSameResult(Value first, Value second) {
  Operation *op = first.getDefiningOp(), *other = second.getDefiningOp();
  if (!op || !other)
    return false;
  if (cast<OpResult>(first).getResultNumber() != cast<OpResult>(second).getResultNumber() ||
      !isMemoryEffectFree(op))
    return false;
  llvm::DenseMap<Value, Value> inside; // values inside of regions
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

LogicalResult Pair::compareLoops() {
  for (auto [loop, otherLoop] : loops)
    if (!isSameLoop(loop, otherLoop)) {
      InFlightDiagnostic error = otherLoop->emitOpError()
                                 << "expected to run as often as " << sender.name
                                 << "'s loop, which cannot be seen; compute the bounds alike in "
                                    "both roles, or send them";
      error.attachNote(loop->getLoc()) << sender.name << "'s loop stands here";
      return failure();
    }
  return success();
}

} // namespace tesela::nvvm
