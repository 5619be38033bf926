//===- Additions.cpp - Adding to elements of views --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/Additions.h"

#include "targets/common/ExactSums.h"
#include "tile/GradientOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tesela {

namespace {
struct Element {
  Value exists;  ///< i1: false if an extent is 0
  Value address; ///< of the element, with clamped indices
};
} // namespace

/// Word 0 of the element's exact sum.
static Element sumAt(OpBuilder &builder, Location loc, ValueRange indices, const Addressing &at) {
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  auto integer = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, i32, value);
  };
  Value exists = arith::ConstantIntOp::create(builder, loc, 1, 1);
  Value offset = arith::ConstantIntOp::create(builder, loc, i64, 0);
  for (auto [axis, index] : llvm::enumerate(indices)) {
    Value extent = at.slots[at.view.extents[1 + axis]];
    Value some = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, extent, integer(0));
    exists = arith::AndIOp::create(builder, loc, exists, some);
    Value last = arith::SubIOp::create(builder, loc, extent, integer(1));
    Value clamped = arith::MinSIOp::create(builder, loc, index, last);
    clamped = arith::MaxSIOp::create(builder, loc, clamped, integer(0));
    Value step =
        arith::MulIOp::create(builder, loc, arith::ExtSIOp::create(builder, loc, i64, clamped),
                              at.slots[at.view.strides[1 + axis]]);
    offset = arith::AddIOp::create(builder, loc, offset, step);
  }
  Value data = at.slots[at.view.data];
  return {exists, LLVM::GEPOp::create(builder, loc, data.getType(), i32, data, offset)};
}

/// The address of an element. No index may be outside of its axis.
static Value addressOf(OpBuilder &builder, Location loc, Type element, ValueRange indices,
                       const Addressing &at) {
  Type i64 = builder.getI64Type();
  Value offset = arith::ConstantIntOp::create(builder, loc, i64, 0);
  for (auto [axis, index] : llvm::enumerate(indices)) {
    Value wide = arith::ExtSIOp::create(builder, loc, i64, index);
    Value step = arith::MulIOp::create(builder, loc, wide, at.slots[at.view.strides[axis]]);
    offset = arith::AddIOp::create(builder, loc, offset, step);
  }
  Value data = at.slots[at.view.data];
  return LLVM::GEPOp::create(builder, loc, data.getType(), element, data, offset);
}

void emitAddition(OpBuilder &builder, Location loc, Operation *op, Value value, ValueRange indices,
                  Value adds, const Addressing &at) {
  if (isa<tile::CollectOp>(op)) {
    Element sum = sumAt(builder, loc, indices, at);
    adds = arith::AndIOp::create(builder, loc, adds, sum.exists);
    return emitExactAddition(builder, loc, adds, value, sum.address,
                             at.slots[at.view.strides.front()], at.scope);
  }
  Type f32 = builder.getF32Type();
  Value zero = arith::ConstantFloatOp::create(builder, loc, cast<FloatType>(f32), APFloat(0.0f));
  Value changes = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, value, zero);
  adds = arith::AndIOp::create(builder, loc, adds, changes);
  auto branch = scf::IfOp::create(builder, loc, adds, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value address = addressOf(builder, loc, f32, indices, at);
  if (!at.scope
           .empty()) { // relaxed is enough: a thread's additions to one element stay in their order
    LLVM::AtomicRMWOp::create(builder, loc, LLVM::AtomicBinOp::fadd, address, value,
                              LLVM::AtomicOrdering::monotonic, at.scope, /*alignment=*/4);
    return;
  }
  Value before = LLVM::LoadOp::create(builder, loc, f32, address);
  Value sum = arith::AddFOp::create(builder, loc, before, value);
  LLVM::StoreOp::create(builder, loc, sum, address);
}

Value emitSumAddress(OpBuilder &builder, Location loc, ValueRange indices, const Addressing &at) {
  Element sum = sumAt(builder, loc, indices, at);
  Type i64 = builder.getI64Type();
  Value address = LLVM::PtrToIntOp::create(builder, loc, i64, sum.address);
  return arith::SelectOp::create(builder, loc, sum.exists, address,
                                 arith::ConstantIntOp::create(builder, loc, i64, 0));
}

void emitPut(OpBuilder &builder, Location loc, Value value, ValueRange indices,
             const Addressing &at) {
  Value isInside = arith::ConstantIntOp::create(builder, loc, 1, 1);
  for (auto [axis, index] : llvm::enumerate(indices)) {
    Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index,
                                         at.slots[at.view.extents[axis]]);
    isInside = arith::AndIOp::create(builder, loc, isInside, exists);
  }
  auto branch = scf::IfOp::create(builder, loc, isInside, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  LLVM::StoreOp::create(builder, loc, value, addressOf(builder, loc, value.getType(), indices, at));
}

Value emitExactSumAt(OpBuilder &builder, Location loc, ValueRange indices, const Addressing &at) {
  Element sum = sumAt(builder, loc, indices, at);
  auto branch = scf::IfOp::create(builder, loc, builder.getF32Type(), sum.exists,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value total = emitExactSum(builder, loc, sum.address, at.slots[at.view.strides.front()]);
  scf::YieldOp::create(builder, loc, total);
  builder.setInsertionPointToStart(branch.elseBlock());
  Value zero = arith::ConstantFloatOp::create(builder, loc, builder.getF32Type(), APFloat(0.0f));
  scf::YieldOp::create(builder, loc, zero);
  return branch.getResult(0);
}

} // namespace tesela
