//===- LowerWarpgroupDot.cpp - Products by wgmma ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Each warpgroup multiplies its 64 rows with all columns. Descriptors and steps are HOPPER's,
// verified on the chip: buffers in panels of 64 columns, rows of 128 bytes, swizzled by 128 bytes.
//
// With row_sums the right operand's second panel is one of ones. Each step finds the same 16 rows
// of it: the distance between the panels shrinks by what the step goes ahead.
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

// In the descriptors' unit of 16 bytes.
static constexpr int64_t eightRows = 1024 / 16, panelRow = 128 / 16, depthStep = 32 / 16;
/// From a descriptor's address to its leading byte offset.
static constexpr int64_t leadingBits = 16;

/// PTX ISA, "Matrix descriptor": address, leading and stride byte offsets, 128-byte swizzle.
static Value descriptor(OpBuilder &builder, Location loc, Value address, int64_t leading) {
  Value unit = arith::ShRUIOp::create(builder, loc, address,
                                      arith::ConstantIntOp::create(builder, loc, 4, 32));
  Value wide = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), unit);
  int64_t fields = leading << leadingBits | eightRows << 32 | int64_t(1) << 62;
  return arith::OrIOp::create(builder, loc, wide,
                              arith::ConstantIntOp::create(builder, loc, fields, 64));
}

/// Offsets of the steps of 16 along a row: within a panel, then to the next.
static SmallVector<int64_t> alongRows(int64_t steps, int64_t rows) {
  SmallVector<int64_t> offsets;
  for (int64_t step = 0; step < steps; ++step)
    offsets.push_back(step / 4 * rows * panelRow + step % 4 * depthStep);
  return offsets;
}

/// With the panel of ones at `ones`, wherever that is behind `address`.
static Value descriptorWithOnes(OpBuilder &builder, Location loc, Value address, Value ones) {
  Value distance = arith::SubIOp::create(builder, loc, ones, address);
  Value shift = arith::ConstantIntOp::create(builder, loc, leadingBits - 4, 32);
  Value leading = arith::ExtUIOp::create(builder, loc, builder.getI64Type(),
                                         arith::ShLIOp::create(builder, loc, distance, shift));
  return arith::OrIOp::create(builder, loc, descriptor(builder, loc, address, /*leading=*/0),
                              leading);
}

void KernelLowering::writeOnes() {
  llvm::MapVector<int64_t, Type> elements; // by offset
  kernel.walk([&](Operation *op) {
    if (auto offset = op->getAttrOfType<IntegerAttr>(onesOffsetAttr))
      elements[offset.getInt()] =
          cast<tile::TileType>(op->getOperand(1).getType()).getElementType();
  });
  if (elements.empty())
    return;
  // A warpgroup writes them, a warp 128 bytes at once.
  constexpr int64_t writers = 128;
  Value writes =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, thread, constant(writers));
  auto branch = scf::IfOp::create(builder, loc, writes, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value address = add(sharedBase, multiply(thread, constant(4)));
  for (auto [offset, element] : elements) {
    Value pair = constant(element.isBF16() ? 0x3F803F80 : 0x3C003C00);
    for (int64_t byte = 0; byte < onesBytes; byte += 4 * writers)
      ptx().storeShared(address, offset + byte, pair);
  }
  ptx().fenceAsyncProxy(); // products read by the asynchronous proxy
}

template <typename DotOp> LogicalResult KernelLowering::lowerWarpgroupDot(DotOp op, bool awaits) {
  auto left = cast<tile::TileType>(op.getA().getType());
  auto right = cast<tile::TileType>(op.getB().getType());
  auto result = cast<tile::TileType>(op.getResult().getType());
  if (!isa<pipe::SharedAttr>(right.getEncoding()))
    return op.emitOpError() << "expected the right operand in shared memory, got " << right;
  if (op.getRowSums() && (op.getTransposed() || right.getExtent(1) != 64))
    return op.emitOpError() << "row_sums: expected a right operand of one panel of 64 columns that "
                               "is not transposed, got "
                            << right << "; behind more panels the ones are not found";
  auto onesOffset = op->template getAttrOfType<IntegerAttr>(onesOffsetAttr);
  if (op.getRowSums() && !onesOffset)
    return op.emitOpError() << "row_sums: expected the attribute '" << onesOffsetAttr
                            << "'; run pipe-place-buffers first";
  int64_t steps = left.getExtent(1) / 16, rightRows = right.getExtent(0);

  Values a;
  SmallVector<int64_t> aOffsets;
  if (isa<pipe::SharedAttr>(left.getEncoding())) {
    Value rows = multiply(warpgroup, constant(64 * 128));
    a = {descriptor(builder, loc, add(valueOf(op.getA()), rows), /*leading=*/1)};
    aOffsets = alongRows(steps, left.getExtent(0));
  } else {
    a = valuesOf(op.getA());
  }

  Value b;
  SmallVector<int64_t> bOffsets;
  if (op.getTransposed()) { // the depth lies along the rows of b
    b = descriptor(builder, loc, valueOf(op.getB()), /*leading=*/1);
    bOffsets = alongRows(steps, rightRows);
  } else if (op.getRowSums()) {
    Value ones = add(sharedBase, constant(onesOffset.getInt()));
    b = descriptorWithOnes(builder, loc, valueOf(op.getB()), ones);
    for (int64_t step = 0; step < steps; ++step)
      bOffsets.push_back(step * 2 * eightRows - (step * 2 * eightRows << leadingBits));
  } else { // the rows of b are the depth: 16 a step; panels are `leading` apart
    b = descriptor(builder, loc, valueOf(op.getB()), rightRows * panelRow);
    for (int64_t step = 0; step < steps; ++step)
      bOffsets.push_back(step * 2 * eightRows);
  }

  auto start = op.getC().template getDefiningOp<tile::ConstantOp>();
  bool fromZero = start && start.getValue().isZero();
  values[op] = ptx().multiplyWarpgroup(
      right.getElementType(), result.getExtent(1), a, aOffsets, b, bOffsets, !op.getTransposed(),
      fromZero ? ValueRange() : ValueRange(valuesOf(op.getC())), awaits);
  return success();
}

template LogicalResult KernelLowering::lowerWarpgroupDot(tile::DotOp, bool);
template LogicalResult KernelLowering::lowerWarpgroupDot(pipe::DotStartOp, bool);

} // namespace tesela::nvvm
