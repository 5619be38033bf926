//===- MapDeposits.cpp - tile.deposit in maps -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Four lanes have the eight columns of a row, two columns each. So one instruction would add to
// every other column: to half of 32 bytes in each of eight rows, and the L2 takes these sectors one
// after the other. Therefore lanes with neighbouring rows exchange one of their two columns. Then
// an instruction adds to 32 bytes in each of four rows.
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/MapElements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

/// Whether the last index counts columns, and the others are linear in the row and do not depend on
/// the column.
bool KernelLowering::MapElements::addsByColumns(tile::DepositOp deposit) {
  ValueRange indices = deposit.getIndices();
  auto hasColumns = [&](Value index, int64_t count) {
    const LanePosition *place = positions.find(index);
    return place ? place->column == count : count == 0 && index.getParentBlock() != &body;
  };
  return heads == 1 && !indices.empty() && hasColumns(indices.back(), 1) &&
         llvm::all_of(indices.drop_back(), [&](Value index) { return hasColumns(index, 0); });
}

/// `elements` has the two columns of one row after the other.
void KernelLowering::MapElements::depositPairs(tile::DepositOp deposit,
                                               MutableArrayRef<Element> elements) {
  const ViewSlots &view = lowering.viewOf(deposit.getView());
  Type f32 = builder.getF32Type();
  auto select = [&](Value condition, Value a, Value b) -> Value {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  };
  auto strideOf = [&](size_t axis) { return lowering.slots[view.strides[axis]]; };
  auto add = [&](Value address, Value value) {
    Value changes =
        arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, value, lowering.number(0));
    auto branch = scf::IfOp::create(builder, loc, changes, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    // A lane's additions to one element stay in order, and no other order is needed.
    LLVM::AtomicRMWOp::create(builder, loc, LLVM::AtomicBinOp::fadd, address, value,
                              LLVM::AtomicOrdering::monotonic, "device", /*alignment=*/4);
  };

  // Distances in elements: from a row to the next, and from the lane's own first element to the
  // first element to which it adds.
  Value rowStep = lowering.constant(0, 64), none = rowStep;
  for (auto [axis, index] : llvm::enumerate(deposit.getIndices()))
    if (const LanePosition *place = positions.find(index); place && place->row != 0)
      rowStep = arith::AddIOp::create(
          builder, loc, rowStep,
          arith::MulIOp::create(builder, loc, strideOf(axis), lowering.constant(place->row, 64)));
  Value parity = arith::AndIOp::create(builder, loc, lowering.lane, lowering.constant(4));
  Value isSecond =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, parity, lowering.constant(0));
  Value columnStep = strideOf(deposit.getIndices().size() - 1);
  Value shift = select(isSecond, arith::SubIOp::create(builder, loc, columnStep, rowStep), none);

  for (size_t first = 0; first < elements.size(); first += 2) {
    Values own;
    for (Element &at : elements.slice(first, 2)) {
      own.push_back(at.scalars.lookup(deposit.getValue()));
      at.scalars.map(deposit.getResult(), own.back());
    }
    Value received = lowering.ptx().shuffleXor(select(isSecond, own[0], own[1]), 4);
    Value offset = shift;
    for (auto [axis, index] : llvm::enumerate(deposit.getIndices())) {
      Value number = lowering.wide(elements[first].scalars.lookup(index));
      offset = arith::AddIOp::create(builder, loc, offset,
                                     arith::MulIOp::create(builder, loc, number, strideOf(axis)));
    }
    Value upper = lowering.advance(lowering.slots[view.data], f32, offset);
    add(upper, select(isSecond, received, own[0]));
    add(lowering.advance(upper, f32, rowStep), select(isSecond, own[1], received));
  }
}

} // namespace tesela::nvvm
