//===- GradientOps.cpp - Gradients of parameters ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/GradientOps.h"

#include "tile/Extents.h"

using namespace mlir;
using namespace tesela::tile;

#define GET_OP_CLASSES
#include "tile/GradientOps.cpp.inc"

/// The view of exact sums has two axes more than there are indices.
static LogicalResult verifySums(Operation *op, ViewType view, size_t indices) {
  if (view.getRank() == int64_t(indices) + 2 && view.getElementType().isInteger(32))
    return success();
  return op->emitOpError() << "expected a view of i32 with " << indices + 2
                           << " axes, two more than there are indices, got " << view;
}

LogicalResult CollectOp::verify() {
  return verifySums(*this, getView().getType(), getIndices().size());
}

LogicalResult ExactSumOp::verify() {
  return verifySums(*this, getView().getType(), getIndices().size());
}

LogicalResult AddLinesOp::verify() {
  if (!llvm::is_contained({elements, columns, diagonals}, getLines()))
    return emitOpError() << "expected lines \"elements\", \"columns\" or \"diagonals\", got \""
                         << getLines() << "\"";
  auto tile = cast<TileType>(getSource().getType());
  if (tile.getRank() != 2 || !tile.getElementType().isF32())
    return emitOpError() << "expected a tile of f32 of two extents, got " << tile;
  Type f32 = Float32Type::get(getContext()), i32 = IntegerType::get(getContext(), 32);
  if (getBody().front().getArgumentTypes() != TypeRange({f32, i32, i32}))
    return emitOpError() << "expected the body to take (f32, i32, i32), got ("
                         << getBody().front().getArgumentTypes() << ")";
  return success();
}

LogicalResult DepositOp::verify() {
  ViewType view = getView().getType();
  if (view.getRank() == int64_t(getIndices().size()) && view.getElementType().isF32())
    return success();
  return emitOpError() << "expected a view of f32 with " << getIndices().size()
                       << " axes, one for each index, got " << view;
}

LogicalResult PutOp::verify() {
  ViewType view = getView().getType();
  Type element = view.getElementType();
  if (view.getRank() == int64_t(getIndices().size()) &&
      (element.isF32() || element.isF16() || element.isBF16()))
    return success();
  return emitOpError() << "expected a view of f32, f16 or bf16 with " << getIndices().size()
                       << " axes, one for each index, got " << view;
}

/// Checks the tile of a hook, and the arguments of its body if it has one.
static LogicalResult verifyHook(Operation *op, Value gradient, ArrayRef<Attribute> extents,
                                Region &body, ArrayRef<Type> arguments) {
  auto tile = cast<TileType>(gradient.getType());
  if (!tile.getElementType().isF32())
    return op->emitOpError() << "gradients: expected elements f32, got " << tile.getElementType()
                             << "; convert them with tile.convert";
  bool fits = tile.getRank() == int64_t(extents.size());
  for (size_t axis = 0; fits && axis < extents.size(); ++axis)
    fits = mayBeEqual(tile.getExtents()[axis], extents[axis]);
  if (!fits)
    return op->emitOpError() << "gradients: expected the extents of the blocks, got " << tile;
  if (!body.empty() && body.front().getArgumentTypes() != TypeRange(arguments))
    return op->emitOpError() << "expected the body to take (" << TypeRange(arguments) << "), got ("
                             << body.front().getArgumentTypes() << ")";
  return success();
}

LogicalResult ScorePartialsOp::verify() {
  BlockType rows = getRows().getType(), columns = getColumns().getType();
  if (rows.getAxis() != Axis::Query || columns.getAxis() != Axis::Key)
    return emitOpError() << "expected rows of queries and columns of keys, got " << rows << " and "
                         << columns;
  Type f32 = Float32Type::get(getContext()), i32 = IntegerType::get(getContext(), 32);
  return verifyHook(*this, getGradient(), {rows.getExtent(), columns.getExtent()}, getBody(),
                    {f32, i32, i32, i32, i32, i32});
}

LogicalResult SinkPartialsOp::verify() {
  BlockType rows = getRows().getType();
  if (rows.getAxis() != Axis::Query)
    return emitOpError() << "expected a block of queries, got " << rows;
  Type i32 = IntegerType::get(getContext(), 32);
  return verifyHook(*this, getGradient(), {rows.getExtent()}, getBody(), {i32, i32, i32, i32});
}
