//===- LowerDot.cpp - Products by mma.sync ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A warp multiplies its strips with all columns, 16 of the depth in each step. In each step it
// reads the right operand once for all of its strips: two groups of 8 columns with each ldmatrix.
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/ColumnsInPlace.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/MatrixAddress.h"
#include "targets/nvvm/NarrowProducts.h"
#include "targets/nvvm/ProductShares.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

Value laneAddress(OpBuilder &builder, Location loc, Value lane, Value firstRow, int64_t rowBytes,
                  int64_t rowBit, int64_t halfBit) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  };
  auto bit = [&](int64_t index) -> Value {
    Value shifted = arith::ShRUIOp::create(builder, loc, lane, constant(index));
    return arith::AndIOp::create(builder, loc, shifted, constant(1));
  };
  Value inEight = arith::AndIOp::create(builder, loc, lane, constant(7));
  Value row = arith::AddIOp::create(builder, loc, inEight,
                                    arith::ShLIOp::create(builder, loc, bit(rowBit), constant(3)));
  if (firstRow)
    row = arith::AddIOp::create(builder, loc, row, firstRow);
  Value chunk = arith::XOrIOp::create(builder, loc, bit(halfBit), inEight);
  return arith::AddIOp::create(builder, loc,
                               arith::MulIOp::create(builder, loc, row, constant(rowBytes)),
                               arith::ShLIOp::create(builder, loc, chunk, constant(4)));
}

/// The buffer in which `tile` lies, if it has panels; otherwise null.
static pipe::BufferType panelsOf(Value tile) {
  auto slot = tile.getDefiningOp<pipe::SlotOp>();
  return slot && slot.getBuffer().getType().getPanels() ? slot.getBuffer().getType()
                                                        : pipe::BufferType();
}

/// Bytes from one row of `tile` to the next in shared memory.
static int64_t rowBytesOf(Value tile) {
  if (panelsOf(tile))
    return panelRowBytes;
  if (auto slot = tile.getDefiningOp<pipe::SlotOp>()) // the tile may be only its first columns
    return slot.getBuffer().getType().getRowBytes();
  auto type = cast<tile::TileType>(tile.getType());
  return rowBytesOf(type, type.getElementType());
}

/// Bytes from 64 columns of a row to the next 64 columns.
static int64_t panelBytesOf(Value tile) {
  pipe::BufferType buffer = panelsOf(tile);
  return buffer ? buffer.getPanelBytes() : panelRowBytes;
}

/// For a tile whose rows are the depth: the strip's 16 columns are two adjacent chunks, and the
/// matrices are transposed on the way. They are chunks 0 and 1 of rows 0-7, then of rows 8-15.
Values KernelLowering::leftTransposed(Value tile, int64_t strip, int64_t step) {
  auto type = cast<tile::TileType>(tile.getType());
  int64_t rowBytes = rowBytesOf(tile);
  Value lanePart = add(valueOf(tile), laneAddress(builder, loc, lane, Value(), rowBytes,
                                                  /*rowBit=*/4, /*halfBit=*/3));
  int64_t own = rowWarps(type.getExtent(1), kernel.getScheduleAttr().getChoices());
  Value warpInRows =
      own == warps ? warp : arith::RemUIOp::create(builder, loc, warp, constant(own)).getResult();
  // As stepAddress and stepOffset do, for a step along the row that depends on the warp.
  Value along = add(warpInRows, constant(strip * own));
  Value bits = multiply(arith::AndIOp::create(builder, loc, along, constant(3)), constant(32));
  Value address = arith::XOrIOp::create(builder, loc, lanePart, bits);
  Value panel = arith::ShRUIOp::create(builder, loc, along, constant(2));
  address = add(address, multiply(panel, constant(128)));
  return ptx().loadMatrices(address, step * 16 * rowBytes, /*transposed=*/true);
}

Values KernelLowering::leftOperand(Value tile, int64_t strip, int64_t step) {
  auto type = cast<tile::TileType>(tile.getType());
  FragmentShape shape(type, warps);
  if (isa<pipe::OperandAttr>(type.getEncoding())) {
    auto first = valuesOf(tile).begin() + (strip * shape.groups() + 2 * step) * 2;
    return Values(first, first + 4);
  }
  // The matrices: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15.
  int64_t own = rowWarps(type, kernel.getScheduleAttr().getChoices()); // warps that share the rows
  Value warpInRows =
      own == warps ? warp : arith::RemUIOp::create(builder, loc, warp, constant(own)).getResult();
  Value warpRow = multiply(warpInRows, constant(16));
  int64_t rowBytes = rowBytesOf(tile), nextPanel = panelBytesOf(tile);
  Value lanePart = add(valueOf(tile), laneAddress(builder, loc, lane, warpRow, rowBytes,
                                                  /*rowBit=*/3, /*halfBit=*/4));
  return ptx().loadMatrices(stepAddress(builder, loc, lanePart, step),
                            strip * own * 16 * rowBytes + step / 4 * nextPanel,
                            /*transposed=*/false);
}

LogicalResult KernelLowering::lowerConvertEncoding(pipe::ConvertOp op) {
  auto source = cast<tile::TileType>(op.getSource().getType());
  if (op->hasAttr(narrowAttr)) {
    NarrowProductWriter writer(builder, loc, lane);
    values[op] = isa<pipe::SharedAttr>(source.getEncoding())
                     ? writer.leftOperand(source, valueOf(op.getSource()))
                     : writer.ordered(valuesOf(op.getSource()));
    return success();
  }
  if (isa<pipe::AccumulatorAttr>(source.getEncoding())) {
    Values registers = valuesOf(op.getSource()); // both encodings have the same registers
    values[op] = registers;
    return success();
  }
  Values registers;
  if (source.isSingleRow()) {
    if (readInPlace(op.getResult())) { // maps read the values where they are
      // Pinned: otherwise the loop around it holds an address for each of several rows.
      Value ofLane = multiply(ptx().pinned(firstColumn), constant(4));
      values[op] = {add(valueOf(op.getSource()), ofLane)};
      return success();
    }
    Value address = add(valueOf(op.getSource()), multiply(firstColumn, constant(4)));
    for (int64_t column = 0; column < source.getExtent(1); column += 8)
      llvm::append_range(registers, ptx().loadSharedPair(address, 4 * column));
    values[op] = registers;
    return success();
  }
  FragmentShape shape = shapeOf(op.getResult());
  for (int64_t strip = 0; strip < shape.strips; ++strip)
    for (int64_t step = 0; step < shape.columns / 16; ++step)
      llvm::append_range(registers, leftOperand(op.getSource(), strip, step));
  values[op] = registers;
  return success();
}

LogicalResult KernelLowering::lowerDot(tile::DotOp op) {
  auto right = cast<tile::TileType>(op.getB().getType());
  auto left = cast<tile::TileType>(op.getA().getType());
  if (isNarrowProduct(op)) {
    values[op] = NarrowProductWriter(builder, loc, lane)
                     .product(op, valuesOf(op.getA()), valueOf(op.getB()), valuesOf(op.getC()));
    return success();
  }
  if (!isa<pipe::SharedAttr>(right.getEncoding()))
    return op.emitOpError() << "expected the right operand in shared memory, got " << right;
  if (op.getLeftTransposed() && !isa<pipe::SharedAttr>(left.getEncoding()))
    return op.emitOpError() << "expected the transposed operand in shared memory, got " << left;
  FragmentShape shape = shapeOf(op.getResult());
  int64_t steps = left.getExtent(op.getLeftTransposed() ? 0 : 1) / 16, pairs = shape.groups() / 2;
  int64_t rowBytes = rowBytesOf(op.getB());
  bool transposed = op.getTransposed();
  // Where the warp's part of the columns begins in the right operand: at a row, or at a multiple of
  // 16 among a panel's 64 columns.
  Value firstRow, start = valueOf(op.getB()), bits;
  if (partsOf(shape) > 1 && transposed)
    firstRow = multiply(partOf(shape), constant(shape.columns));
  else if (partsOf(shape) > 1) {
    Value begin = multiply(partOf(shape), constant(2 * shape.columns));
    start = add(start, arith::AndIOp::create(builder, loc, begin, constant(-128)));
    if (shape.columns % 64 != 0)
      bits = arith::AndIOp::create(builder, loc, begin, constant(127));
  }
  // If b is transposed, its rows are columns of the product (two groups of 8) and the depth lies
  // along them. The matrices are (columns 0-7, depth 0-7), (0-7, 8-15), (8-15, 0-7), (8-15, 8-15).
  // Otherwise its rows are the depth, and ldmatrix transposes: (depth 0-7, columns 0-7),
  // (8-15, 0-7), ...
  Value lanePart = add(start, laneAddress(builder, loc, lane, firstRow, rowBytes,
                                          /*rowBit=*/transposed ? 4 : 3,
                                          /*halfBit=*/transposed ? 3 : 4));
  if (bits)
    lanePart = arith::XOrIOp::create(builder, loc, lanePart, bits);
  Values sums = valuesOf(op.getC());
  for (int64_t step = 0; step < steps; ++step) {
    SmallVector<Values> leftRegisters;
    for (int64_t strip = 0; strip < shape.strips; ++strip)
      leftRegisters.push_back(op.getLeftTransposed() ? leftTransposed(op.getA(), strip, step)
                                                     : leftOperand(op.getA(), strip, step));
    for (int64_t pair = 0; pair < pairs; ++pair) {
      int64_t along = transposed ? step : pair, across = transposed ? pair : step;
      Values b = ptx().loadMatrices(stepAddress(builder, loc, lanePart, along),
                                    across * 16 * rowBytes + stepOffset(along), !transposed);
      for (int64_t strip = 0; strip < shape.strips; ++strip)
        for (int64_t half = 0; half < 2; ++half) {
          auto first = sums.begin() + (strip * shape.groups() + 2 * pair + half) * 4;
          Values product =
              ptx().mma(right.getElementType(), leftRegisters[strip],
                        ArrayRef(b).slice(2 * half, 2), ValueRange(ArrayRef(first, 4)));
          std::copy(product.begin(), product.end(), first);
        }
    }
  }
  values[op] = sums;
  return success();
}

} // namespace tesela::nvvm
