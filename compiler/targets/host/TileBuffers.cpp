//===- TileBuffers.cpp - Tiles in the worker's scratch ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/KernelLowering.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tesela {

TileStorage KernelLowering::shapeOf(Type type) {
  auto tile = cast<tile::TileType>(type);
  TileStorage shape;
  shape.rows = tile.getRank() == 2 ? tile.getExtent(0) : 1;
  shape.columns = tile.getExtent(tile.getRank() - 1);
  bool isInteger = tile.getElementType().isInteger();
  shape.element = isInteger ? Type(IntegerType::get(type.getContext(), 32))
                            : Type(Float32Type::get(type.getContext()));
  return shape;
}

TileStorage KernelLowering::allocate(const TileStorage &shape) {
  TileStorage storage = shape;
  storage.constant.reset();
  storage.offset = workspaceBytes_;
  workspaceBytes_ += llvm::alignTo(storage.elements() * sizeof(float), 64);
  return storage;
}

TileStorage KernelLowering::placeOver(Value operand, Operation *op, Type result) {
  TileStorage shape = shapeOf(result);
  const TileStorage &storage = storageOf(operand);
  bool fits = !storage.constant && storage.rows == shape.rows && storage.columns == shape.columns &&
              storage.element == shape.element;
  return fits && diesAt(operand, op) ? storage : allocate(shape);
}

bool KernelLowering::diesAt(Value value, Operation *op) {
  if (llvm::count(op->getOperands(), value) > 1)
    return false;
  // If a loop stands around `op` inside of the value's scope, its next iteration reads the value.
  for (Operation *around = op->getParentOp(); around != value.getParentRegion()->getParentOp();
       around = around->getParentOp())
    if (isa<scf::ForOp>(around))
      return false;
  for (Operation *user : value.getUsers()) {
    if (user == op)
      continue;
    for (Operation *around = op;; around = around->getParentOp()) {
      Operation *other = around->getBlock()->findAncestorOpInBlock(*user);
      if (!other)
        continue;
      // The other side of a branch does not run after this side. A body of `op` itself does.
      if (other == around ? around == op : around->isBeforeInBlock(other))
        return false;
      break;
    }
  }
  return true;
}

void KernelLowering::copy(const TileStorage &from, const TileStorage &to) {
  if (to.constant || (!from.constant && from.offset == to.offset))
    return;
  int64_t width = unit_.widthFor(to.elements());
  builder_.loop(to.elements(), width,
                [&](Value index) { storeTile(loadTile(from, index, width), to, index); });
}

TileStorage KernelLowering::inMemory(const TileStorage &storage) {
  if (!storage.constant)
    return storage;
  TileStorage buffer = allocate(storage);
  copy(storage, buffer);
  return buffer;
}

Value KernelLowering::loadTile(const TileStorage &storage, Value index, int64_t width) {
  Type type = width ? Type(CodeBuilder::vectorOf(storage.element, width)) : storage.element;
  if (storage.constant)
    return builder_.real(type, *storage.constant);
  Value base = builder_.address(scratch_, builder_.getI8Type(), builder_.i64(storage.offset));
  return builder_.load(type, builder_.address(base, storage.element, index));
}

void KernelLowering::storeTile(Value value, const TileStorage &storage, Value index) {
  Value base = builder_.address(scratch_, builder_.getI8Type(), builder_.i64(storage.offset));
  builder_.store(value, builder_.address(base, storage.element, index));
}

} // namespace tesela
