//===- LowerWarpgroupDot.cpp - Products by wgmma ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Each warpgroup multiplies its 64 rows with all columns, or, if all warpgroups have the same rows
// (ProductShares.h), with its part of the columns. Buffers have panels of 64 columns with rows of
// 128 bytes and the 128-byte swizzle (PTX ISA, "Shared Memory Matrix Layout"). Descriptors and
// steps were verified on the chip (sm_90).
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

// In units of 16 bytes, as in descriptors.
static constexpr int64_t eightRows = 1024 / 16, panelRow = 128 / 16, depthStep = 32 / 16;

/// A matrix descriptor (PTX ISA, "Matrix descriptor"): address, leading and stride byte offsets,
/// 128-byte swizzle. If `hasOnePanel` (i1) is true, the leading offset is 0: each panel is the
/// first.
static Value descriptor(OpBuilder &builder, Location loc, Value address, int64_t leading,
                        Value hasOnePanel = {}) {
  Value unit = arith::ShRUIOp::create(builder, loc, address,
                                      arith::ConstantIntOp::create(builder, loc, 4, 32));
  Value wide = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), unit);
  int64_t fields = eightRows << 32 | int64_t(1) << 62;
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  };
  Value field = constant(fields | leading << 16);
  if (hasOnePanel)
    field = arith::SelectOp::create(builder, loc, hasOnePanel, constant(fields), field);
  return arith::OrIOp::create(builder, loc, wide, field);
}

/// The offsets of steps of 16 along a row: within a panel, then in the next panel.
static SmallVector<int64_t> alongRows(int64_t steps, int64_t rows) {
  SmallVector<int64_t> offsets;
  for (int64_t step = 0; step < steps; ++step)
    offsets.push_back(step / 4 * rows * panelRow + step % 4 * depthStep);
  return offsets;
}

/// The offsets of steps of 16 rows, for an operand whose rows are the depth.
static SmallVector<int64_t> alongDepth(int64_t steps) {
  SmallVector<int64_t> offsets;
  for (int64_t step = 0; step < steps; ++step)
    offsets.push_back(step * 2 * eightRows);
  return offsets;
}

template <typename DotOp> LogicalResult KernelLowering::lowerWarpgroupDot(DotOp op, bool awaits) {
  auto left = cast<tile::TileType>(op.getA().getType());
  auto right = cast<tile::TileType>(op.getB().getType());
  auto result = cast<tile::TileType>(op.getResult().getType());
  if (!isa<pipe::SharedAttr>(right.getEncoding()))
    return op.emitOpError() << "expected the right operand in shared memory, got " << right;
  bool leftTransposed = op.getLeftTransposed();
  if (leftTransposed && !isa<pipe::SharedAttr>(left.getEncoding()))
    return op.emitOpError() << "expected the transposed operand in shared memory, got " << left;
  int64_t steps = left.getExtent(leftTransposed ? 0 : 1) / 16, rightRows = right.getExtent(0);
  int64_t rowWarps = cast<pipe::AccumulatorAttr>(result.getEncoding()).getWarps();
  int64_t columnParts = warps / rowWarps; // above 1 if all warpgroups have the same rows
  int64_t columns = pipe::columnsOfPart(result.getExtent(1), columnParts);

  Values a;
  SmallVector<int64_t> aOffsets;
  if (leftTransposed) { // the rows of a are the depth; a warpgroup's 64 columns are a panel
    Value first = valueOf(op.getA());
    if (columnParts == 1)
      first = add(first, multiply(warpgroup, constant(left.getExtent(0) * panelRow * 16)));
    a = {descriptor(builder, loc, first, /*leading=*/1)};
    aOffsets = alongDepth(steps);
  } else if (isa<pipe::SharedAttr>(left.getEncoding())) {
    Value first = valueOf(op.getA());
    if (columnParts == 1)
      first = add(first, multiply(warpgroup, constant(64 * 128)));
    a = {descriptor(builder, loc, first, /*leading=*/1)};
    aOffsets = alongRows(steps, left.getExtent(0));
  } else {
    a = valuesOf(op.getA());
  }

  Value b;
  SmallVector<int64_t> bOffsets;
  if (op.getTransposed()) { // the depth lies along the rows of b
    Value first = valueOf(op.getB());
    if (columnParts > 1) // rows of b are columns of the product
      first = add(first, multiply(warpgroup, constant(columns * panelRow * 16)));
    b = descriptor(builder, loc, first, /*leading=*/1);
    bOffsets = alongRows(steps, rightRows);
  } else { // the rows of b are the depth: 16 a step; panels are `leading` apart
    Value first = valueOf(op.getB());
    if (columnParts > 1) // whole panels of 64 columns
      first = add(first, multiply(warpgroup, constant(columns / 64 * rightRows * panelRow * 16)));
    Value isLast; // its second panel does not exist, and nobody uses what it computes for it
    if (pipe::lacksLastPanel(result.getExtent(1), columnParts))
      isLast = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, warpgroup,
                                     constant(columnParts - 1));
    b = descriptor(builder, loc, first, rightRows * panelRow, isLast);
    bOffsets = alongDepth(steps);
  }

  auto start = op.getC().template getDefiningOp<tile::ConstantOp>();
  bool fromZero = start && start.getValue().isZero();
  values[op] = ptx().multiplyWarpgroup(
      right.getElementType(), columns, a, aOffsets, leftTransposed, b, bOffsets,
      !op.getTransposed(), fromZero ? ValueRange() : ValueRange(valuesOf(op.getC())), awaits);
  return success();
}

template LogicalResult KernelLowering::lowerWarpgroupDot(tile::DotOp, bool);
template LogicalResult KernelLowering::lowerWarpgroupDot(pipe::DotStartOp, bool);

} // namespace tesela::nvvm
