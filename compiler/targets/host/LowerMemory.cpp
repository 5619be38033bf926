//===- LowerMemory.cpp - Loads, stores and reads ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/KernelLowering.h"
#include "targets/host/SmallFloats.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {

Value KernelLowering::existingRows(const BlockCoordinates &block, int64_t rows) {
  Type i64 = builder_.getI64Type();
  Value limit = arith::ExtSIOp::create(builder_, i64, block.limit);
  Value first = arith::ExtSIOp::create(builder_, i64, block.first);
  Value left = arith::SubIOp::create(builder_, limit, first);
  left = arith::MinSIOp::create(builder_, left, builder_.i64(rows));
  return arith::MaxSIOp::create(builder_, left, builder_.i64(0));
}

Value KernelLowering::rowAddress(Value view, const BlockCoordinates &block, Value row) {
  auto argument = cast<BlockArgument>(view);
  const ViewSlots &slots = signature_.view(argument.getArgNumber());
  Type element = storageType(cast<tile::ViewType>(view.getType()).getElementType());
  auto wide = [&](Value value) -> Value {
    return arith::ExtSIOp::create(builder_, builder_.getI64Type(), value);
  };
  Value position = builder_.add(wide(block.first), row);
  Value index;
  if (slots.strides.empty()) { // contiguous [B, H, Sq]
    index = builder_.add(builder_.multiply(wide(block.batch), wide(extents_.H)), wide(block.head));
    index = builder_.add(builder_.multiply(index, wide(extents_.Sq)), position);
  } else {
    index = builder_.multiply(wide(block.batch), slots_[slots.strides[0]]);
    index = builder_.add(index, builder_.multiply(wide(block.head), slots_[slots.strides[1]]));
    index = builder_.add(index, builder_.multiply(position, slots_[slots.strides[2]]));
  }
  return builder_.address(slots_[slots.data], element, index);
}

void KernelLowering::forEachRow(Value view, Value blockValue, int64_t rows,
                                llvm::function_ref<void(Value row, Value address)> body) {
  BlockCoordinates block = blocks_.lookup(blockValue);
  int64_t heads = cast<tile::BlockType>(blockValue.getType()).getHeadCount();
  Value none = builder_.i64(0);
  if (heads == 1)
    return builder_.loop(none, existingRows(block, rows), 1,
                         [&](Value row) { body(row, rowAddress(view, block, row)); });
  // The heads from the block's first to the last of its key/value head.
  Value sharing = arith::DivUIOp::create(builder_, extents_.H, extents_.Hkv);
  Value inSharing = arith::RemUIOp::create(builder_, block.head, sharing);
  Value left = arith::SubIOp::create(builder_, sharing, inSharing);
  left = arith::MinUIOp::create(builder_, left, builder_.i32(heads));
  Value existing = arith::ExtUIOp::create(builder_, builder_.getI64Type(), left);
  builder_.loop(none, existingRows(block, rows / heads), 1, [&](Value position) {
    builder_.loop(none, existing, 1, [&](Value head) {
      BlockCoordinates ofHead = block;
      Value offset = arith::TruncIOp::create(builder_, builder_.getI32Type(), head);
      ofHead.head = builder_.add(block.head, offset);
      body(builder_.multiplyAdd(position, heads, head), rowAddress(view, ofHead, position));
    });
  });
}

void KernelLowering::lowerLoad(tile::LoadOp op) {
  TileStorage tile = allocate(shapeOf(op.getTile().getType()));
  tiles_[op.getTile()] = tile;
  Type element = op.getView().getType().getElementType();
  bool rowValues = op.getView().getType().getRank() == 3;
  int64_t rows = rowValues ? tile.columns : tile.rows;
  int64_t columns = rowValues ? 1 : tile.columns;
  int64_t width = unit_.widthFor(columns);
  Value none = builder_.i64(0), all = builder_.i64(columns);
  bool isPacked = op.getBlock().getType().getHeadCount() > 1;

  auto load = [&](Value row, Value address, Value low, Value high, int64_t lanes) {
    Type bits = CodeBuilder::vectorOf(storageType(element), lanes);
    builder_.loop(low, high, lanes, [&](Value column) {
      Value loaded = builder_.load(bits, builder_.address(address, storageType(element), column));
      storeTile(toFloat(builder_, unit_, element, loaded), tile,
                builder_.multiplyAdd(row, columns, column));
    });
  };
  auto clear = [&](Value row, Value low, int64_t lanes) {
    Value zero = builder_.real(CodeBuilder::vectorOf(builder_.getF32Type(), lanes), 0.0f);
    builder_.loop(low, all, lanes, [&](Value column) {
      storeTile(zero, tile, builder_.multiplyAdd(row, columns, column));
    });
  };
  if (isPacked) // rows that do not exist lie between those that do
    builder_.loop(rows, 1, [&](Value row) { clear(row, none, width); });
  forEachRow(op.getView(), op.getBlock(), rows, [&](Value row, Value address) {
    if (!op.getColumns())
      return load(row, address, none, all, width);
    // Whole vectors of the columns that exist, then the last ones one by one.
    BlockCoordinates of = blocks_.lookup(op.getColumns());
    Value first = arith::ExtSIOp::create(builder_, builder_.getI64Type(), of.first);
    address = builder_.address(address, storageType(element), first);
    Value left = existingRows(of, columns);
    Value rest = arith::RemUIOp::create(builder_, left, builder_.i64(width));
    Value whole = arith::SubIOp::create(builder_, left, rest);
    load(row, address, none, whole, width);
    load(row, address, whole, left, 1);
    clear(row, left, 1);
  });
  if (!isPacked)
    builder_.loop(existingRows(blocks_.lookup(op.getBlock()), rows), builder_.i64(rows), 1,
                  [&](Value row) { clear(row, none, width); });
}

void KernelLowering::lowerStore(tile::StoreOp op) {
  const TileStorage &tile = storageOf(op.getTile());
  Type element = op.getView().getType().getElementType();
  bool rowValues = op.getView().getType().getRank() == 3;
  int64_t rows = rowValues ? tile.columns : tile.rows;
  int64_t columns = rowValues ? 1 : tile.columns;
  int64_t width = unit_.widthFor(columns);

  forEachRow(op.getView(), op.getBlock(), rows, [&](Value row, Value address) {
    builder_.loop(columns, width, [&](Value column) {
      Value value = loadTile(tile, builder_.multiplyAdd(row, columns, column), width);
      builder_.store(toBits(builder_, unit_, element, value),
                     builder_.address(address, storageType(element), column));
    });
  });
}

// All lanes of a gather are read where no extent is 0, and none where one is.
Value KernelLowering::lowerRead(tile::ReadOp op, ValueRange indices) {
  const ViewSlots &slots = signature_.view(cast<BlockArgument>(Value(op.getView())).getArgNumber());
  Type element = op.getView().getType().getElementType(), stored = storageType(element);
  auto vector = dyn_cast<VectorType>(indices.front().getType());
  int64_t width = vector ? vector.getDimSize(0) : 1;
  Type i32 = CodeBuilder::vectorOf(builder_.getI32Type(), width);
  Type i64 = CodeBuilder::vectorOf(builder_.getI64Type(), width);
  Type result = CodeBuilder::vectorOf(stored, width);

  Value exists = arith::ConstantIntOp::create(builder_, 1, 1);
  Value offset = builder_.integer(i64, 0);
  for (auto [axis, index] : llvm::enumerate(indices)) {
    Value extent = slots_[slots.extents[axis]], stride = slots_[slots.strides[axis]];
    Value some =
        arith::CmpIOp::create(builder_, arith::CmpIPredicate::sgt, extent, builder_.i32(0));
    exists = arith::AndIOp::create(builder_, exists, some);
    Value last = arith::SubIOp::create(builder_, extent, builder_.i32(1));
    Value clamped = vector ? index : builder_.splat(index, width);
    clamped = arith::MinSIOp::create(builder_, clamped, builder_.splat(last, width));
    clamped = arith::MaxSIOp::create(builder_, clamped, builder_.integer(i32, 0));
    Value step = builder_.multiply(arith::ExtSIOp::create(builder_, i64, clamped),
                                   builder_.splat(stride, width));
    offset = builder_.add(offset, step);
  }
  Value addresses = builder_.address(slots_[slots.data], stored, offset);
  Value zero = isa<FloatType>(stored) ? builder_.real(result, 0.0f) : builder_.integer(result, 0);
  Value gathered = LLVM::masked_gather::create(
      builder_, result, addresses, builder_.splat(exists, width), ValueRange(zero),
      builder_.getI32IntegerAttr(stored.getIntOrFloatBitWidth() / 8));
  Value read = isa<FloatType>(element) ? toFloat(builder_, unit_, element, gathered) : gathered;
  if (stored.isInteger(8))
    read = arith::ExtUIOp::create(builder_, i32, read);
  if (isa<FloatType>(element) && op.getElement().getType().isInteger(32))
    read = arith::BitcastOp::create(builder_, i32, read);
  if (vector)
    return read;
  return LLVM::ExtractElementOp::create(builder_, read, builder_.i64(0));
}

} // namespace tesela
