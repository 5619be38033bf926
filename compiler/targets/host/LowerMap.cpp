//===- LowerMap.cpp - Element by element and row by row ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/KernelLowering.h"
#include "targets/host/SmallFloats.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <limits>

using namespace mlir;

namespace tesela {

/// The values of a map's body that differ along a row; all others are computed
/// once a row, as scalars.
static DenseSet<Value> findVarying(tile::MapOp op, bool oneExtent) {
  DenseSet<Value> varying;
  Block &body = op.getBody().front();
  int64_t rank = oneExtent ? 1 : 2;
  for (auto [index, source] : llvm::enumerate(op.getSources()))
    if (cast<tile::TileType>(source.getType()).getRank() == rank)
      varying.insert(body.getArgument(index));
  unsigned row = op.getSources().size(), column = row + 1;
  varying.insert(body.getArgument(oneExtent ? row : column));
  for (Operation &inner : body.without_terminator())
    if (llvm::any_of(inner.getOperands(), [&](Value value) { return varying.contains(value); }))
      varying.insert_range(inner.getResults());
  return varying;
}

LogicalResult KernelLowering::lowerMap(tile::MapOp op) {
  auto resultType = cast<tile::TileType>(op.getResult().getType());
  for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
    if (Type element = cast<tile::TileType>(type).getElementType();
        !element.isF32() && !element.isInteger(32))
      return op.emitOpError() << "computes in f32 and i32 on the host, got " << type
                              << "; convert it with tile.convert";
  bool oneExtent = resultType.getRank() == 1;
  TileStorage result = shapeOf(resultType);
  bool placed = false;
  for (Value source : op.getSources()) {
    auto sourceType = cast<tile::TileType>(source.getType());
    bool sameShape = sourceType.getRank() == resultType.getRank() &&
                     sourceType.getElementType() == resultType.getElementType();
    if (!placed && sameShape && !storageOf(source).constant && diesAt(source, op)) {
      result = storageOf(source);
      placed = true;
    }
  }
  if (!placed)
    result = allocate(result);

  int64_t width = unit_.widthFor(result.columns);
  Block &body = op.getBody().front();
  DenseSet<Value> varying = findVarying(op, oneExtent);
  BlockArgument rowArgument = body.getArgument(op.getSources().size());
  BlockArgument columnArgument = body.getArgument(op.getSources().size() + 1);

  builder_.loop(result.rows, 1, [&](Value row) {
    // What is the same along the row.
    if (oneExtent)
      scalars_.map(columnArgument, builder_.i32(0));
    else
      scalars_.map(rowArgument, arith::TruncIOp::create(builder_, builder_.getI32Type(), row));
    for (auto [index, source] : llvm::enumerate(op.getSources()))
      if (!varying.contains(body.getArgument(index)))
        scalars_.map(body.getArgument(index), loadTile(storageOf(source), row, 0));
    for (Operation &inner : body.without_terminator()) {
      if (inner.getNumResults() == 1 && varying.contains(inner.getResult(0)))
        continue;
      if (auto read = dyn_cast<tile::ReadOp>(inner)) {
        SmallVector<Value> indices;
        for (Value index : read.getIndices())
          indices.push_back(scalar(index));
        scalars_.map(read.getElement(), lowerRead(read, indices));
      } else {
        builder_.clone(inner, scalars_);
      }
    }

    builder_.loop(result.columns, width, [&](Value column) {
      IRMapping vectors;
      auto vector = [&](Value value) -> Value {
        if (!vectors.contains(value)) // the same along the row
          vectors.map(value, builder_.splat(scalar(value), width));
        return vectors.lookup(value);
      };
      Value index = builder_.multiplyAdd(row, result.columns, column);
      Value start = arith::TruncIOp::create(builder_, builder_.getI32Type(), column);
      vectors.map(oneExtent ? rowArgument : columnArgument,
                  builder_.add(builder_.splat(start, width), builder_.iota(width)));
      for (auto [argument, source] : llvm::zip(body.getArguments(), op.getSources()))
        if (varying.contains(argument))
          vectors.map(argument, loadTile(storageOf(source), index, width));
      for (Operation &inner : body.without_terminator()) {
        if (inner.getNumResults() != 1 || !varying.contains(inner.getResult(0)))
          continue;
        if (auto read = dyn_cast<tile::ReadOp>(inner)) {
          SmallVector<Value> indices;
          for (Value index : read.getIndices())
            indices.push_back(vector(index));
          vectors.map(read.getElement(), lowerRead(read, indices));
          continue;
        }
        for (Value operand : inner.getOperands())
          vector(operand);
        Operation *wide = builder_.clone(inner, vectors);
        Value wideResult = wide->getResult(0);
        wideResult.setType(CodeBuilder::vectorOf(wideResult.getType(), width));
        vectors.map(inner.getResult(0), wideResult);
      }
      Value yielded = cast<tile::YieldOp>(body.getTerminator()).getValues().front();
      storeTile(vector(yielded), result, index);
    });
  });
  tiles_[op.getResult()] = result;
  return success();
}

void KernelLowering::lowerConvert(tile::ConvertOp op) {
  TileStorage source = storageOf(op.getSource());
  TileStorage result = placeOver(op.getSource(), op, op.getResult().getType());
  Type element = cast<tile::TileType>(op.getResult().getType()).getElementType();
  tiles_[op.getResult()] = result;
  if (element.isF32()) { // what was rounded stays as it is
    copy(source, result);
    return;
  }
  int64_t width = unit_.widthFor(result.elements());
  builder_.loop(result.elements(), width, [&](Value index) {
    Value rounded = roundTo(builder_, unit_, element, loadTile(source, index, width));
    storeTile(rounded, result, index);
  });
}

void KernelLowering::lowerReduce(tile::ReduceOp op) {
  TileStorage source = storageOf(op.getSource()), start = storageOf(op.getStart());
  TileStorage result = placeOver(op.getStart(), op, op.getResult().getType());
  tiles_[op.getResult()] = result;
  bool isAdd = op.getKind() == tile::Reduction::Add, isMin = op.getKind() == tile::Reduction::Min;
  bool isInteger = source.element.isInteger(32);
  // max: what compares greater wins, so NaN, which does not, loses.
  auto combine = [&](Value a, Value b) -> Value {
    if (isInteger)
      return isMin ? arith::MinSIOp::create(builder_, a, b).getResult()
                   : arith::MaxSIOp::create(builder_, a, b).getResult();
    if (isAdd)
      return arith::AddFOp::create(builder_, a, b);
    auto wins = isMin ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OGT;
    return arith::SelectOp::create(builder_, arith::CmpFOp::create(builder_, wins, a, b), a, b);
  };
  int64_t width = unit_.widthFor(source.columns);
  Type vectorType = CodeBuilder::vectorOf(source.element, width);
  auto neutral = [&]() -> Value {
    if (isInteger)
      return builder_.integer(vectorType, isMin ? std::numeric_limits<int32_t>::max()
                                                : std::numeric_limits<int32_t>::min());
    return builder_.real(vectorType, isAdd ? 0.0f : isMin ? HUGE_VALF : -HUGE_VALF);
  };

  builder_.loop(source.rows, 1, [&](Value row) {
    Value begin = neutral();
    Value lanes = builder_
                      .loop(source.columns, width, begin,
                            [&](Value column, ValueRange carried) -> SmallVector<Value> {
                              Value index = builder_.multiplyAdd(row, source.columns, column);
                              return {combine(loadTile(source, index, width), carried[0])};
                            })
                      .front();
    // Fold the upper half onto the lower until one lane is left.
    for (int64_t half = width / 2; half > 0; half /= 2) {
      SmallVector<int32_t> low, high;
      for (int32_t lane = 0; lane < half; ++lane) {
        low.push_back(lane);
        high.push_back(lane + int32_t(half));
      }
      lanes = combine(builder_.shuffle(lanes, lanes, low), builder_.shuffle(lanes, lanes, high));
    }
    Value reduced = LLVM::ExtractElementOp::create(builder_, lanes, builder_.i64(0));
    storeTile(combine(loadTile(start, row, 0), reduced), result, row);
  });
}

} // namespace tesela
