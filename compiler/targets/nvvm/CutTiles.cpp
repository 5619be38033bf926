//===- CutTiles.cpp - Tiles whose columns are cut -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// If several warps have the same rows of a tile (ProductShares.h), each has a part of the columns.
// Only the first row and the first column of a thread differ from those of other tiles. Reductions
// along a row are joined through shared memory.
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela::nvvm {

Value KernelLowering::partOf(const FragmentShape &shape) {
  if (partsOf(shape) == 1)
    return constant(0);
  // With roles the part follows from the warpgroup's number, which is known to be the same in a
  // warp.
  if (consumers > 0 && shape.warps % 4 == 0)
    return arith::DivUIOp::create(builder, loc, warpgroup, constant(shape.warps / 4));
  return arith::DivUIOp::create(builder, loc, warp, constant(shape.warps));
}

Value KernelLowering::rowWarpOf(const FragmentShape &shape) {
  if (partsOf(shape) == 1)
    return warp;
  return arith::RemUIOp::create(builder, loc, warp, constant(shape.warps));
}

Value KernelLowering::firstRowOf(const FragmentShape &shape) {
  if (partsOf(shape) == 1)
    return firstRow;
  Value inStrip = arith::ShRUIOp::create(builder, loc, lane, constant(2));
  return add(multiply(rowWarpOf(shape), constant(16)), inStrip);
}

Value KernelLowering::firstColumnOf(const FragmentShape &shape) {
  if (partsOf(shape) == 1)
    return firstColumn;
  return add(firstColumn, multiply(partOf(shape), constant(shape.columns)));
}

Value KernelLowering::barrierOfAll() {
  return constant(consumers == 0 ? 0 : 1 + 2 * consumers); // behind the barriers of turns
}

/// The four lanes of a row write the same value. Each part writes its own line of rows.
Values KernelLowering::joinParts(const Values &rows, const FragmentShape &shape,
                                 tile::Reduction kind, int64_t offset) {
  int64_t parts = partsOf(shape), lineBytes = shape.strips * shape.warps * 16 * 4;
  auto meet = [&] { ptx().barrier(barrierOfAll(), 32 * warps); };
  Value row = add(add(sharedBase, constant(offset)), multiply(firstRowOf(shape), constant(4)));
  Value own = add(row, multiply(partOf(shape), constant(lineBytes)));
  auto offsetOf = [&](size_t index) { // two rows of each strip
    return 4 * (shape.firstRow(index / 2) + 8 * (index % 2));
  };
  Type element = rows.front().getType(), i32 = builder.getI32Type();
  auto cast = [&](Type type, Value value) -> Value {
    return value.getType() == type
               ? value
               : arith::BitcastOp::create(builder, loc, type, value).getResult();
  };
  for (auto [index, value] : llvm::enumerate(rows))
    ptx().storeShared(own, offsetOf(index), cast(i32, value));
  meet();
  Values joined;
  for (size_t index = 0; index < rows.size(); ++index) {
    Value all;
    for (int64_t part = 0; part < parts; ++part) { // in the same order in all parts
      Value other = cast(element, ptx().loadShared(row, part * lineBytes + offsetOf(index)));
      all = all ? combine(kind, all, other) : other;
    }
    joined.push_back(all);
  }
  meet(); // before the next join writes here
  return joined;
}

} // namespace tesela::nvvm
