//===- TokenOrder.cpp - Work items of sequences in a row --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The work map of sequences that lie one after the other in a tensor of tokens. Sequence b begins
// at token start(b). Its row blocks, of n positions each, have the numbers from
//
//     base(b) = floor(start(b) / n) + b
//
// on. base(b + 1) - base(b) is at least ceil((start(b + 1) - start(b)) / n), so a sequence has
// enough numbers, and at most one of them is unused. The host knows the count of numbers from the
// number of tokens. base ascends, so a binary search finds the sequence of a row block.
//
// The last row blocks come first, with all heads of a row block next to each other. Under a causal
// mask the last ones take longest, and what the heads of one key/value head read stays in the L2.
//
//===----------------------------------------------------------------------===//
#include "tile/TokenOrder.h"
#include "targets/nvvm/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

/// Only persistent kernels have this order. Other kernels run one thread block for each item of the
/// host's count, which does not know the tokens.
std::pair<BlockArgument, BlockArgument> KernelLowering::tokenOrder() {
  std::pair<BlockArgument, BlockArgument> found;
  if (!kernel.getScheduleAttr()->persistent)
    return found;
  kernel.walk([&](tile::SequenceOp sequence) {
    if (auto order = sequence->getAttrOfType<DenseI64ArrayAttr>(tile::tokenOrderAttr)) {
      Block &body = kernel.getBodyBlock();
      found = {body.getArgument(order[0]), body.getArgument(order[1])};
    }
  });
  return found;
}

namespace {

/// Short names for integer ops.
struct Numbers {
  OpBuilder &builder;
  Location loc;

  Value constant(int64_t value) const {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  }
  Value add(Value a, Value b) const { return arith::AddIOp::create(builder, loc, a, b); }
  Value subtract(Value a, Value b) const { return arith::SubIOp::create(builder, loc, a, b); }
  Value multiply(Value a, Value b) const { return arith::MulIOp::create(builder, loc, a, b); }
  Value divide(Value a, Value b) const { return arith::DivUIOp::create(builder, loc, a, b); }
  Value min(Value a, Value b) const { return arith::MinSIOp::create(builder, loc, a, b); }
  Value max(Value a, Value b) const { return arith::MaxSIOp::create(builder, loc, a, b); }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) const {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  }
  Value select(Value condition, Value a, Value b) const {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }
};

} // namespace

/// The number of row blocks, and of work items in each: packs of heads.
static std::pair<Value, Value> rowsAndPacks(const Numbers &at, const ExtentValues &extents,
                                            tile::BlockType rows, Value tokens) {
  ExtentValues one = extents;
  one.B = at.constant(1);
  one.Sq = at.constant(1);
  Value packs = emitWorkItems(at.builder, at.loc, one, rows);
  return {at.add(at.divide(tokens, at.constant(rows.getPositions())), extents.B), packs};
}

Value KernelLowering::tokenItems(tile::BlockType rows) {
  Value tokens = slots[viewOf(tokenOrder().second).extents[2]];
  auto [blocks, packs] = rowsAndPacks({builder, loc}, extents(), rows, tokens);
  return multiply(blocks, packs);
}

BlockCoordinates KernelLowering::tokenWork(Value item, tile::BlockType rows) {
  Numbers at{builder, loc};
  auto [starts, tokensView] = tokenOrder();
  Value tokens = slots[viewOf(tokensView).extents[2]];
  ExtentValues extents = this->extents();
  auto [blocks, packs] = rowsAndPacks(at, extents, rows, tokens);
  Value positions = at.constant(rows.getPositions()), one = at.constant(1), none = at.constant(0);
  Value fromEnd = at.divide(item, packs);
  Value row = at.subtract(at.subtract(blocks, one), fromEnd);
  Value pack = at.subtract(item, at.multiply(fromEnd, packs));

  const ViewSlots &parts = viewOf(starts);
  Type i32 = builder.getI32Type();
  auto baseOf = [&](OpBuilder &inside, Value batch) {
    Numbers in{inside, loc};
    Value index = arith::ExtSIOp::create(inside, loc, inside.getI64Type(), batch);
    index = arith::MulIOp::create(inside, loc, index, slots[parts.strides[0]]);
    Value address = LLVM::GEPOp::create(inside, loc, slots[parts.data].getType(), i32,
                                        slots[parts.data], LLVM::GEPArg(index));
    auto start = LLVM::LoadOp::create(inside, loc, i32, address);
    start.setInvariant(true);
    Value token = in.max(in.min(start, tokens), none);
    return in.add(in.divide(token, positions), batch);
  };
  // Find the last sequence that begins no later, one bit of its number after the other, from the
  // highest bit that a number can have.
  Value last = at.subtract(extents.B, one);
  Value zeros = LLVM::CountLeadingZerosOp::create(builder, loc, builder.getI32Type(), last,
                                                  /*is_zero_poison=*/false);
  Value highest = at.subtract(at.constant(31), zeros);
  auto search = scf::ForOp::create(builder, loc, none, at.add(highest, one), one, ValueRange(none));
  {
    OpBuilder inside = OpBuilder::atBlockBegin(search.getBody());
    Numbers in{inside, loc};
    Value found = search.getRegionIterArg(0);
    Value bit = arith::ShLIOp::create(inside, loc, in.constant(1),
                                      in.subtract(highest, search.getInductionVar()));
    Value next = in.add(found, bit);
    Value exists = in.compare(arith::CmpIPredicate::sle, next, last);
    Value isBefore = in.compare(arith::CmpIPredicate::sle, baseOf(inside, in.min(next, last)), row);
    Value takes = arith::AndIOp::create(inside, loc, exists, isBefore);
    scf::YieldOp::create(inside, loc, in.select(takes, next, found));
  }
  Value batch = search.getResult(0);
  Value block = at.subtract(row, baseOf(builder, batch));
  // A block in front of the first sequence belongs to none: it goes behind every end.
  Value exists = at.compare(arith::CmpIPredicate::sge, block, none);
  Value first = at.select(exists, at.multiply(block, positions), at.constant(int64_t(1) << 30));

  Value head = pack;
  if (rows.getHeadCount() > 1) { // `pack` counts packs of heads
    Value sharing = at.divide(extents.H, extents.Hkv);
    Value heads = at.constant(rows.getHeadCount());
    Value ofOne = at.divide(at.add(sharing, at.constant(rows.getHeadCount() - 1)), heads);
    Value kvHead = at.divide(pack, ofOne);
    Value inSharing = at.subtract(pack, at.multiply(kvHead, ofOne));
    head = at.add(at.multiply(kvHead, sharing), at.multiply(inSharing, heads));
  }
  return {batch, head, first, extents.Sq, extents.Sk};
}

} // namespace tesela::nvvm
