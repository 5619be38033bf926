//===- LowerReduce.cpp - Sums, maxima and minima of rows --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/KernelLowering.h"
#include "targets/host/RowReduction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <limits>

using namespace mlir;

namespace tesela {

RowReduction::RowReduction(CodeBuilder &builder, tile::ReduceOp op)
    : builder_(&builder), kind_(op.getKind()) {
  bool isInteger = cast<tile::TileType>(op.getSource().getType()).getElementType().isInteger(32);
  element_ = isInteger ? Type(builder.getI32Type()) : builder.getF32Type();
}

Value RowReduction::neutral(int64_t width) {
  Type type = CodeBuilder::vectorOf(element_, width);
  bool isMin = kind_ == tile::Reduction::Min;
  if (element_.isInteger(32))
    return builder_->integer(type, isMin ? std::numeric_limits<int32_t>::max()
                                         : std::numeric_limits<int32_t>::min());
  return builder_->real(type, kind_ == tile::Reduction::Add ? 0.0f
                              : isMin                       ? HUGE_VALF
                                                            : -HUGE_VALF);
}

Value RowReduction::combine(Value a, Value b) {
  bool isMin = kind_ == tile::Reduction::Min;
  if (element_.isInteger(32))
    return isMin ? arith::MinSIOp::create(*builder_, a, b).getResult()
                 : arith::MaxSIOp::create(*builder_, a, b).getResult();
  if (kind_ == tile::Reduction::Add)
    return arith::AddFOp::create(*builder_, a, b);
  auto wins = isMin ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OGT;
  return arith::SelectOp::create(*builder_, arith::CmpFOp::create(*builder_, wins, a, b), a, b);
}

// Combines the upper half with the lower half until one element is left.
Value RowReduction::fold(Value partials) {
  for (int64_t half = cast<VectorType>(partials.getType()).getDimSize(0) / 2; half > 0; half /= 2) {
    SmallVector<int32_t> low, high;
    for (int32_t index = 0; index < half; ++index) {
      low.push_back(index);
      high.push_back(index + int32_t(half));
    }
    partials = combine(builder_->shuffle(partials, partials, low),
                       builder_->shuffle(partials, partials, high));
  }
  return LLVM::ExtractElementOp::create(*builder_, partials, builder_->i64(0));
}

void KernelLowering::lowerReduce(tile::ReduceOp op) {
  TileStorage start = storageOf(op.getStart());
  TileStorage result = placeOver(op.getStart(), op, op.getResult().getType());
  tiles_[op.getResult()] = result;
  RowReduction reduction(builder_, op);

  if (auto found = reduced_.find(op); found != reduced_.end()) {
    TileStorage rows = found->second;
    int64_t width = unit_.widthFor(rows.columns);
    return builder_.loop(rows.columns, width, [&](Value row) {
      Value before = loadTile(start, row, width);
      storeTile(reduction.combine(before, loadTile(rows, row, width)), result, row);
    });
  }
  TileStorage source = storageOf(op.getSource());
  int64_t width = unit_.widthFor(source.columns);
  builder_.loop(source.rows, 1, [&](Value row) {
    Value partials = builder_
                         .loop(source.columns, width, reduction.neutral(width),
                               [&](Value column, ValueRange carried) -> SmallVector<Value> {
                                 Value index = builder_.multiplyAdd(row, source.columns, column);
                                 Value value = loadTile(source, index, width);
                                 return {reduction.combine(value, carried[0])};
                               })
                         .front();
    storeTile(reduction.combine(loadTile(start, row, 0), reduction.fold(partials)), result, row);
  });
}

} // namespace tesela
