//===- VerifyProtocol.cpp - pipe-verify-protocol ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Checks C1 to C7 of Passes.td. Each role is read once into its steps; C1 to C3 are checked while
// it is read. The other checks compare the steps of the roles. The rules hold for any number of
// work items and iterations. Passes that run later change roles, and pipe-run-roles checks their
// result.
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RolePair.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPEVERIFYPROTOCOL
#include "targets/nvvm/Passes.h.inc"

namespace {

using namespace nvvm;

/// C5.
LogicalResult checkProducts(pipe::RolesOp roles) {
  WalkResult result = roles.getConsumers().walk([&](Operation *op) {
    if (auto wait = dyn_cast<pipe::DotWaitOp>(op))
      return WalkResult(wait.verify());
    auto start = dyn_cast<pipe::DotStartOp>(op);
    if (!start)
      return WalkResult::advance();
    if (failed(start.verify()))
      return WalkResult::interrupt();
    if (start.getC().getDefiningOp<tile::ConstantOp>()) // each product makes its own constant
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

/// C7.
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
                  "the warpgroups would wait forever";
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
                                 "next warpgroup would wait forever";
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// C4: compares the role that sends with each role that reads.
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
  for (Pair &pair : pairs) // not before all messages are known
    if (failed(pair.compareLoops()))
      return failure();
  return success();
}

LogicalResult verify(pipe::RolesOp op) {
  if (failed(op.verify())) // C6
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
  bool turnsAreOpen = false;
  return success(
      succeeded(compare(roles, channels)) && succeeded(checkProducts(op)) &&
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
