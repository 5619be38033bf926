//===- LowerPairs.cpp - Products of bf16, two at a time ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// AVX512-BF16 multiplies pairs: sum += a[2x] b[2x] + a[2x + 1] b[2x + 1]. Each operand has the two
// factors in one vector element of 32 bits. So the left operand can stay in 16 bits and in memory
// order, row by row. The right operand needs two neighbours of a column in one vector element. For
// a transposed operand that is a transposition of pairs; otherwise two rows are interleaved. The
// loop of the product is that of f32 (LowerDot.cpp), with pairs as vector elements.
//
//===----------------------------------------------------------------------===//
#include "targets/host/KernelLowering.h"
#include "targets/host/SmallFloats.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <numeric>

using namespace mlir;

namespace tesela {

/// Whether a load brings rows of a rank-4 view without a limit of columns.
static bool isWholeLoad(tile::LoadOp load) {
  return load && !load.getColumns() && load.getView().getType().getRank() == 4;
}

tile::DotOp KernelLowering::pairProductOf(Value tile) {
  tile::ScheduleAttr schedule = kernel_.getScheduleAttr();
  if (!schedule || !schedule->productPairs || !tile.hasOneUse())
    return {};
  auto dot = dyn_cast<tile::DotOp>(*tile.user_begin());
  if (!dot || dot.getLeftTransposed() || !dot.getA().hasOneUse() || !dot.getB().hasOneUse())
    return {};
  auto left = cast<tile::TileType>(dot.getA().getType());
  auto right = cast<tile::TileType>(dot.getB().getType());
  auto loadOfB = dot.getB().getDefiningOp<tile::LoadOp>();
  bool canHold = isa_and_present<tile::LoadOp, tile::ConvertOp>(dot.getA().getDefiningOp()) &&
                 isWholeLoad(loadOfB) && loadOfB.getBlock().getType().getHeadCount() == 1;
  if (auto loadOfA = dot.getA().getDefiningOp<tile::LoadOp>())
    canHold &= isWholeLoad(loadOfA);
  bool isBf16 = left.getElementType().isBF16() && right.getElementType().isBF16();
  return canHold && isBf16 && left.getExtent(1) % 2 == 0 ? dot : tile::DotOp();
}

TileStorage KernelLowering::asPairs(TileStorage storage) {
  storage.columns /= 2;
  storage.element = builder_.getI32Type();
  return storage;
}

/// Puts two rows of the view into each row of the tile. Rows and columns that do not exist are 0.
void KernelLowering::lowerInterleavedLoad(tile::LoadOp op) {
  TileStorage shape = shapeOf(op.getTile().getType());
  TileStorage tile = allocatePanels(shape.rows / 2, shape.columns, builder_.getI32Type());
  tiles_[op.getTile()] = tile;
  BlockCoordinates block = blocks_.lookup(op.getBlock());
  int64_t had = columnsOfView(op.getView(), tile.columns);
  int64_t width = unit_.widthFor(std::gcd(tile.columns, had));
  Type bits = CodeBuilder::vectorOf(builder_.getI16Type(), width);
  Type words = CodeBuilder::vectorOf(builder_.getI32Type(), width);
  auto halves = [&](Value row, Value column) -> Value {
    Value address = rowAddress(op.getView(), block, row);
    Value loaded = builder_.load(bits, builder_.address(address, builder_.getI16Type(), column));
    return arith::ExtUIOp::create(builder_, words, loaded);
  };
  Value zero = builder_.integer(words, 0);
  auto fill = [&](Value low, Value high, llvm::function_ref<Value(Value row, Value column)> pair) {
    builder_.loop(low, high, 1, [&](Value row) {
      builder_.loop(had, width, [&](Value column) {
        storeTile(pair(row, column), tile, panelIndex(tile, row, column));
      });
      builder_.loop(builder_.i64(had), builder_.i64(tile.columns), width,
                    [&](Value column) { storeTile(zero, tile, panelIndex(tile, row, column)); });
    });
  };
  Value existing = existingRows(block, 2 * tile.rows), one = builder_.i64(1);
  Value whole = arith::ShRUIOp::create(builder_, existing, one);
  Value begun = arith::ShRUIOp::create(builder_, builder_.add(existing, one), one);
  fill(builder_.i64(0), whole, [&](Value row, Value column) -> Value {
    Value first = builder_.multiply(row, builder_.i64(2));
    Value high = arith::ShLIOp::create(builder_, halves(builder_.add(first, one), column),
                                       builder_.integer(words, 16));
    return arith::OrIOp::create(builder_, halves(first, column), high);
  });
  fill(whole, begun, [&](Value row, Value column) {
    return halves(builder_.multiply(row, builder_.i64(2)), column);
  });
  fill(begun, builder_.i64(tile.rows), [&](Value, Value) { return zero; });
}

Value KernelLowering::multiplyPairs(Value a, Value b, Value sum) {
  int64_t width = cast<VectorType>(sum.getType()).getDimSize(0);
  if (unit_.bf16Pairs && width >= 4) {
    Type pairs = CodeBuilder::vectorOf(builder_.getBF16Type(), 2 * width);
    Value operands[] = {sum, LLVM::BitcastOp::create(builder_, pairs, a),
                        LLVM::BitcastOp::create(builder_, pairs, b)};
    std::string name = "llvm.x86.avx512bf16.dpbf16ps." + std::to_string(32 * width);
    return LLVM::CallIntrinsicOp::create(builder_, sum.getType(), builder_.getStringAttr(name),
                                         operands)
        .getResult(0);
  }
  // Without the instruction: two products in f32.
  auto half = [&](Value words, bool isHigh) -> Value {
    Type type = words.getType();
    Value bits =
        isHigh
            ? arith::AndIOp::create(builder_, words, builder_.integer(type, 0xffff0000)).getResult()
            : arith::ShLIOp::create(builder_, words, builder_.integer(type, 16));
    return arith::BitcastOp::create(builder_, sum.getType(), bits);
  };
  for (bool isHigh : {false, true})
    sum = multiplyAdd(half(a, isHigh), half(b, isHigh), sum);
  return sum;
}

} // namespace tesela
