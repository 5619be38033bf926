//===- LowerReads.cpp - Reads of single elements ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/Float8.h"
#include "targets/nvvm/EarlierLaunch.h"
#include "targets/nvvm/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

/// Loads the element at `address` and widens it to 32 bits. bf16 is loaded as bits, so that no chip
/// needs to support it.
Value KernelLowering::emitElement(tile::ReadOp op, Value address) {
  Type element = op.getView().getType().getElementType();
  Type i32 = builder.getI32Type(), f32 = builder.getF32Type();
  bool isFloat8 = isa<Float8E4M3FNType>(element);
  Type loaded = element.isBF16() ? builder.getI16Type() : isFloat8 ? builder.getI8Type() : element;
  auto load = LLVM::LoadOp::create(builder, loc, loaded, address);
  load.setInvariant(!readsEarlierLaunch(op.getView())); // no kernel writes a captured tensor
  Value value = load;
  if (element.isBF16()) {
    Value bits = arith::ExtUIOp::create(builder, loc, i32, value);
    bits = arith::ShLIOp::create(builder, loc, bits, constant(16));
    value = arith::BitcastOp::create(builder, loc, f32, bits);
  } else if (element.isF16()) {
    value = arith::ExtFOp::create(builder, loc, f32, value);
  } else if (isFloat8) {
    value = float8ToFloat(builder, loc, arith::ExtUIOp::create(builder, loc, i32, value));
  } else if (element.isInteger(8)) {
    value = arith::ExtUIOp::create(builder, loc, i32, value);
  }
  if (value.getType() != op.getElement().getType()) // the op wants the bits
    value = arith::BitcastOp::create(builder, loc, i32, value);
  return value;
}

/// Indices are clamped, as the language says. A view without elements has strides 0 and the address
/// of a zero (Artifact.h), so no case needs a branch.
Value KernelLowering::emitRead(tile::ReadOp op, ValueRange indices) {
  const ViewSlots &parts = viewOf(op.getView());
  Value zero = constant(0), offset = constant(0, 64);
  if (op.getCovered()) { // adjacent reads differ in the last index only
    for (auto [axis, index] : llvm::enumerate(indices.drop_back()))
      offset = add(offset, multiply(wide(index), slots[parts.strides[axis]]));
    Type type = op.getView().getType().getElementType();
    Value column = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), indices.back());
    Value line = advance(slots[parts.data], type, offset);
    return emitElement(op, advance(line, type, column));
  }
  for (auto [axis, index] : llvm::enumerate(indices)) {
    Value last = arith::SubIOp::create(builder, loc, slots[parts.extents[axis]], constant(1));
    Value clamped = arith::MaxSIOp::create(builder, loc,
                                           arith::MinSIOp::create(builder, loc, index, last), zero);
    offset = add(offset, multiply(wide(clamped), slots[parts.strides[axis]]));
  }
  Type type = op.getView().getType().getElementType();
  return emitElement(op, advance(slots[parts.data], type, offset));
}

/// No overflow: extents and the ends of a tile are far from the ends of i32.
void KernelLowering::lowerCovers(tile::CoversOp op) {
  const ViewSlots &parts = viewOf(op.getView());
  auto compare = [&](arith::CmpIPredicate predicate, Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  };
  Value covered = compare(arith::CmpIPredicate::eq, slots[parts.strides.back()], constant(1, 64));
  for (auto [axis, index] : llvm::enumerate(op.getIndices())) {
    Value first = valueOf(index),
          end = add(slots[parts.extents[axis]], constant(-op.getHigh()[axis]));
    Value above = compare(arith::CmpIPredicate::sge, first, constant(-op.getLow()[axis]));
    Value below = compare(arith::CmpIPredicate::slt, first, end);
    covered = arith::AndIOp::create(builder, loc, covered, above);
    covered = arith::AndIOp::create(builder, loc, covered, below);
  }
  if (op.getChunks()) {
    int64_t size = op.getView().getType().getElementType().getIntOrFloatBitWidth() / 8;
    auto remainder = [&](Value number, int64_t divisor) -> Value {
      Value low = arith::ConstantIntOp::create(builder, loc, number.getType(), divisor - 1);
      return arith::AndIOp::create(builder, loc, number, low);
    };
    Value address = LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), slots[parts.data]);
    Value left = remainder(address, 8 * size);
    for (unsigned stride : ArrayRef(parts.strides).drop_back())
      left = arith::OrIOp::create(builder, loc, left, remainder(slots[stride], 8));
    Value last = remainder(valueOf(op.getIndices().back()), 8);
    left = arith::OrIOp::create(builder, loc, left, wide(last));
    Value areAligned = compare(arith::CmpIPredicate::eq, left, constant(0, 64));
    covered = arith::AndIOp::create(builder, loc, covered, areAligned);
  }
  values[op] = {covered};
}

/// The lane's part of the address is the same for all elements of a map. The offset along the last
/// axis is a constant in the load instruction.
Value KernelLowering::coveredAddress(tile::ReadOp op, ValueRange lane, ArrayRef<int64_t> offset) {
  const ViewSlots &parts = viewOf(op.getView());
  Value start = constant(0, 64), rows = constant(0, 64);
  for (auto [axis, index] : llvm::enumerate(lane.drop_back())) {
    Value stride = slots[parts.strides[axis]];
    start = add(start, multiply(wide(index), stride));
    if (offset[axis] != 0)
      rows = add(rows, multiply(constant(offset[axis], 64), stride));
  }
  start = add(start, wide(lane.back()));
  Type type = op.getView().getType().getElementType();
  Value address = advance(advance(slots[parts.data], type, start), type, rows);
  return advance(address, type, constant(offset.back(), 64));
}

/// A lane's accumulator has columns 2c and 2c + 1 of each eight, where c is its number among the
/// four lanes of a row. The four lanes load eight columns each, 8c to 8c + 7, and exchange them:
/// then lane c has pair c of what each lane has loaded. The number of a pair is the number of the
/// lane that has loaded it.
Values KernelLowering::emitCoveredChunk(tile::ReadOp op, ValueRange lane,
                                        ArrayRef<int64_t> offset) {
  Values start(lane);
  start.back() = add(start.back(), multiply(firstColumn, constant(3)));
  auto four = VectorType::get(4, builder.getI32Type());
  auto load = LLVM::LoadOp::create(builder, loc, four, coveredAddress(op, start, offset),
                                   /*alignment=*/16);
  load.setInvariant(!readsEarlierLaunch(op.getView())); // no kernel writes a captured tensor
  Values pairs;
  for (int64_t number = 0; number < 4; ++number)
    pairs.push_back(LLVM::ExtractElementOp::create(builder, loc, load, constant(number)));
  for (int64_t bit : {1, 2}) {
    Value place = arith::AndIOp::create(builder, loc, this->lane, constant(bit));
    Value isUpper =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, place, constant(0));
    for (int64_t number = 0; number < 4; ++number)
      if ((number & bit) == 0)
        exchange(pairs[number], pairs[number + bit], isUpper, bit);
  }
  Values elements;
  for (Value pair : pairs)
    for (Value element : unpackPair(op.getView().getType().getElementType(), pair))
      elements.push_back(
          op.getElement().getType().isF32() // otherwise the op wants the bits
              ? element
              : arith::BitcastOp::create(builder, loc, builder.getI32Type(), element));
  return elements;
}

} // namespace tesela::nvvm
