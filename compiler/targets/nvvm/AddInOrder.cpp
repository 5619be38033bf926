//===- AddInOrder.cpp - Warps that add for the consumers --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// tile.order_additions. For each warpgroup of consumers, one thread of the producer's warpgroup is
// its adder. A consumer writes its sums to shared memory, hands them over, and goes on. The adder
// waits for the turn, lets the copy engine add the sums to the workspace, and passes the turn on.
// When consumers waited themselves, gradients took 1.3 times as long
// (docs/log/2026-11-29-gradients-tried.md).
//
// A consumer and its adder share a mailbox with two barriers. The consumer's first thread writes a
// message and arrives at the first barrier. The adder arrives at the second one when the consumer
// may write again. A message is one of
//
//   1 + row      the sums of a block of queries that begins at `row`
//   itemBegins   a work item begins, at another head or with other keys
//   itemsEnd     there is no other work item
//
// All threads of a consumer count its messages, because a wait needs the parity of its phase. A
// thread must not be two phases late: it would wait forever. So all of them wait only where they
// meet before the next message. Otherwise the first thread waits alone.
//
// A word in the workspace says how far the work item of a block of keys is:
//
//   1 + place    it has added to all its blocks of queries up to this place
//   -2 - n       it has ended. What it has passed, follows from the item of turn n of the same
//                head (turn -1: nothing is left to wait for)
//
// The place is the row, or, if the last blocks of queries run first, a number that grows while rows
// decrease. They run first where the first block of keys comes first (tile.work). The turn of a
// work item is the number of blocks of keys that come before its own in the order of the additions.
// A work item waits until the item of the turn before it is behind the place. If that item has
// ended, the item on which that one waited last decides. So items that end early leave no gap.
//
// The copy engine adds by the asynchronous proxy, and words are read and written by the generic
// one. So there are a release and an acquire, and a fence between the proxies beside each. (Without
// them, in 1 to 28 of 1,020 launches a few sums were added in another order.)
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/FragmentOrder.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/Passes.h"

#include "pipe/Shares.h"
#include "tile/Extents.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

static constexpr int64_t elementBytes = 4;

// The parts of a mailbox, in bytes.
static constexpr int64_t wordPart = 8, sumsPart = 16, turnPart = 24, stepPart = 28,
                         barrierPart = 32, freePart = 40;
static_assert(freePart + 8 <= bytesOfMailbox);

// Messages that are no row.
static constexpr int64_t itemsEnd = -1, itemBegins = -2;

/// Greater than all rows (pipe.add_out late: rows that do not exist begin at 2^30).
static constexpr int64_t behindRows = 0x3fffffff;

Value KernelLowering::mailboxOf(int64_t consumer) {
  int64_t offset = kernel->getAttrOfType<IntegerAttr>(mailboxOffsetAttr).getInt();
  return add(sharedBase, constant(offset + consumer * bytesOfMailbox));
}

Value KernelLowering::ownMailbox() {
  return add(mailboxOf(0), multiply(warpgroup, constant(bytesOfMailbox)));
}

void KernelLowering::initMailboxes() {
  for (int64_t consumer = 0; consumer < consumers; ++consumer) {
    ptx().initBarrier(mailboxOf(consumer), barrierPart, /*arrivals=*/1);
    ptx().initBarrier(mailboxOf(consumer), freePart, /*arrivals=*/1);
  }
}

void KernelLowering::startMessages() {
  Type word = builder.getI32Type();
  parityOfMessage = LLVM::AllocaOp::create(
      builder, loc, LLVM::LLVMPointerType::get(builder.getContext()), word, constant(1));
  // The phase before a barrier's first one counts as complete.
  LLVM::StoreOp::create(builder, loc, constant(1), parityOfMessage);
}

void KernelLowering::awaitAdder() {
  Value parity = LLVM::LoadOp::create(builder, loc, builder.getI32Type(), parityOfMessage);
  ptx().awaitBarrier(add(ownMailbox(), constant(freePart)), parity, trapWaits);
}

void KernelLowering::handOver(Value message) {
  Value parity = LLVM::LoadOp::create(builder, loc, builder.getI32Type(), parityOfMessage);
  LLVM::StoreOp::create(builder, loc, arith::XOrIOp::create(builder, loc, parity, constant(1)),
                        parityOfMessage);
  ptx().leaveMessage(ownMailbox(), message, barrierPart, isFirstOfWarpgroup());
}

/// An addition of the kernel. All of them add the same buffer to the same workspace.
static pipe::AddOutOp additionOf(tile::KernelOp kernel) {
  pipe::AddOutOp addition;
  kernel.walk([&](pipe::AddOutOp op) { addition = op; });
  return addition;
}

tile::OrderAdditionsOp KernelLowering::orderOfAdditions() {
  tile::OrderAdditionsOp order;
  kernel.walk([&](tile::OrderAdditionsOp op) { order = op; });
  return order;
}

/// The work map of the kernel. After pipe-split-roles the producer has it.
static tile::WorkOp workOf(tile::KernelOp kernel) {
  tile::WorkOp work;
  kernel.walk([&](tile::WorkOp op) { work = op; });
  return work;
}

Value KernelLowering::keysAscend(TypedValue<tile::BlockType> keys, Value kvHead, Value part,
                                 tile::ItemOrder order) {
  ExtentValues heads = extents();
  Value head = add(multiply(blockOf(keys).batch, heads.Hkv), kvHead);
  if (part) {
    Value parts = emitHeadParts(builder, loc, heads, keys.getType(),
                                *tile::staticExtent(workOf(kernel).getDealt()));
    head = add(multiply(head, parts), valueOf(part));
    heads = emitDealt(builder, loc, heads, parts);
  }
  return emitFirstKeysFirst(builder, loc, head, heads, kernel.getScheduleAttr()->groupKeys, order);
}

void KernelLowering::lowerAtEnd(tile::AtEndOp op) {
  values[op.getAtEnd()] = {keysAscend(op.getKeys(), blockOf(op.getKeys()).head, op.getPart(),
                                      tile::ItemOrder::LastKeysFirstButAtEnd)};
}

/// A block of keys has a word for each key, and its adders use the first ones. Without queries
/// nothing has cleared the words, and nothing is added. Without keys there are no words.
ItemTicket KernelLowering::itemTicket() {
  tile::OrderAdditionsOp order = orderOfAdditions();
  if (!order)
    return {};
  return {slots[viewOf(order.getTurns()).data],
          (order.getKeys().getType().getRows() - 1) * elementBytes,
          arith::MinUIOp::create(builder, loc, extents().Sq, extents().Sk)};
}

void KernelLowering::lowerOrderAdditions(tile::OrderAdditionsOp op) {
  BlockCoordinates own = blockOf(op.getKeys());
  Type f32 = builder.getF32Type();
  int64_t rows = op.getKeys().getType().getRows();
  Value kvHead = emitKvHead(builder, loc, own.head, extents()); // `own` has a query head
  Value isForward = keysAscend(op.getKeys(), kvHead, op.getPart(), workOf(kernel).getOrder());
  auto choose = [&](Value forward, Value backward) -> Value {
    return arith::SelectOp::create(builder, loc, isForward, forward, backward);
  };
  Value behind = arith::SubIOp::create(builder, loc, own.limit, add(own.first, constant(1)));
  Value turn = arith::DivUIOp::create(builder, loc, choose(own.first, behind), constant(rows));
  Value step = choose(constant(-rows * elementBytes), constant(rows * elementBytes));
  Value word = rowAddress(op.getTurns(), own, constant(0));
  own.first = constant(0);
  Value sums = blockAddress(additionOf(kernel).getView(), own, f32);
  onFirstOfWarpgroup([&] {
    awaitAdder();
    ptx().storeSharedAddress(ownMailbox(), wordPart, word);
    ptx().storeSharedAddress(ownMailbox(), sumsPart, sums);
    ptx().storeShared(ownMailbox(), turnPart, turn);
    ptx().storeShared(ownMailbox(), stepPart, step);
  });
  handOver(constant(itemBegins));
  // The first addition of the item does not wait (pipe.add_out late). Before the next message all
  // threads meet: in that addition, or before the item's results are stored.
  awaitAdder();
}

void KernelLowering::stopAdders() {
  onFirstOfWarpgroup([&] { awaitAdder(); });
  handOver(constant(itemsEnd));
}

void KernelLowering::lowerAdder(int64_t consumer) {
  pipe::AddOutOp addition = additionOf(kernel);
  auto buffer = addition.getBuffer().getType();
  int64_t columns = *addition.getView().getType().getStaticExtent(3);
  // As in lowerAddOut: a consumer has its own rows, or its own columns of the same rows.
  bool isCut = pipe::isSharedByColumns(buffer, consumers);
  int64_t ownColumns = pipe::columnsOfShare(buffer, consumers);
  int64_t firstColumn = isCut ? consumer * ownColumns : 0;
  int64_t count = std::clamp<int64_t>(columns - firstColumn, 0, ownColumns);
  AdderPlace place;
  place.source = add(valueOf(addition.getBuffer()),
                     constant(consumer * pipe::rowsOfShare * ownColumns * elementBytes));
  place.limit = extents().Sq;
  place.bytes = count * pipe::rowsOfShare * elementBytes;
  place.rowBytes = columns * elementBytes;
  place.sumsOffset = firstColumn * pipe::rowsOfShare * elementBytes;
  place.rowOffset = isCut ? 0 : consumer * pipe::rowsOfShare;
  place.wordOffset = consumer * elementBytes;
  ptx().serveMailbox(mailboxOf(consumer), place);
}

void PtxInstructions::storeSharedAddress(Value base, int64_t offset, Value pointer) {
  emit({}, {base, pointer}, ("st.shared.b64 [$0+" + Twine(offset) + "], $1;").str(),
       "r,l,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::leaveMessage(Value mailbox, Value message, int64_t barrier, Value leaves) {
  emit({}, {mailbox, message, leaves},
       ("{\n @$2 st.shared.b32 [$0], $1;\n @$2 mbarrier.arrive.shared::cta.b64 _, [$0+" +
        Twine(barrier) + "];\n}")
           .str(),
       "r,r,b,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::serveMailbox(Value mailbox, const AdderPlace &to) {
  auto at = [](int64_t offset) { return ("[$0+" + Twine(offset) + "]").str(); };
  auto text = [](int64_t value) { return std::to_string(value); };
  std::string place = " setp.lt.s32 is, step, 0;\n mov.s32 place, row;\n @is sub.s32 place, " +
                      text(behindRows) + ", row;\n";
  // `next` is the turn on whose word the item waits, and `passed` what that word said last. After
  // an addition the word is read again, because the adder has time then.
  std::string readWord = " sub.s32 apart, turn, next;\n mad.wide.s32 other, apart, step, "
                         "word;\n ld.acquire.gpu.global.s32 passed, [other];\n";
  emit({}, {mailbox, to.source, to.limit},
       "{\n .reg .pred is;\n .reg .b32 parity;\n"
       " .reg .s32 message, row, place, turn, step, next, passed, apart;\n"
       " .reg .b64 word, other, sums, target;\n"
       " mov.b32 parity, 0;\n mov.b64 word, 0;\n"
       "NEXT:\n mbarrier.try_wait.parity.shared::cta.b64 is, " +
           at(barrierPart) +
           ", parity;\n @!is bra NEXT;\n xor.b32 parity, parity, 1;\n"
           " ld.shared.s32 message, [$0];\n setp.lt.s32 is, message, 0;\n @is bra ITEM;\n"
           " add.s32 row, message, " +
           text(to.rowOffset - 1) + ";\n setp.ge.s32 is, row, $2;\n setp.eq.or.s32 is, " +
           text(to.bytes) + ", 0, is;\n @is bra FREE;\n" + place +
           "TURN:\n setp.lt.s32 is, next, 0;\n setp.gt.or.s32 is, passed, place, is;\n"
           " @is bra ADD;\n" +
           readWord +
           " setp.ge.s32 is, passed, 0;\n @is bra TURN;\n sub.s32 next, -2, passed;\n"
           " bra TURN;\n"
           "ADD:\n mad.wide.s32 target, row, " +
           text(to.rowBytes) +
           ", sums;\n fence.proxy.async.global;\n "
           "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [target], [$1], " +
           text(to.bytes) +
           ";\n cp.async.bulk.commit_group;\n cp.async.bulk.wait_group.read 0;\n"
           " mbarrier.arrive.shared::cta.b64 _, " +
           at(freePart) +
           ";\n cp.async.bulk.wait_group 0;\n"
           " fence.proxy.async.global;\n add.s32 apart, place, 1;\n st.release.gpu.global.s32 "
           "[word], apart;\n"
           " setp.lt.s32 is, next, 0;\n setp.gt.or.s32 is, passed, apart, is;\n @is bra NEXT;\n" +
           readWord +
           " setp.lt.s32 is, passed, 0;\n @is sub.s32 next, -2, passed;\n @is mov.s32 passed, 0;\n"
           " bra NEXT;\n"
           "ITEM:\n setp.eq.b64 is, word, 0;\n @is bra BEGIN;\n sub.s32 apart, -2, next;\n"
           " st.release.gpu.global.s32 [word], apart;\n"
           "BEGIN:\n setp.eq.s32 is, message, " +
           text(itemsEnd) +
           ";\n"
           " ld.shared.b64 word, " +
           at(wordPart) + ";\n add.s64 word, word, " + text(to.wordOffset) +
           ";\n ld.shared.b64 sums, " + at(sumsPart) + ";\n add.s64 sums, sums, " +
           text(to.sumsOffset) + ";\n ld.shared.s32 turn, " + at(turnPart) +
           ";\n ld.shared.s32 step, " + at(stepPart) +
           ";\n sub.s32 next, turn, 1;\n mov.s32 passed, 0;\n"
           " mbarrier.arrive.shared::cta.b64 _, " +
           at(freePart) +
           ";\n @!is bra NEXT;\n bra DONE;\n"
           "FREE:\n mbarrier.arrive.shared::cta.b64 _, " +
           at(freePart) + ";\n bra NEXT;\nDONE:\n}",
       "r,r,r,~{memory}", /*hasSideEffects=*/true);
}

} // namespace tesela::nvvm
