//===- LowerElementwise.cpp - Maps and reductions on registers --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tesela::nvvm {

void KernelLowering::lowerConstant(tile::ConstantOp op) {
  auto type = cast<tile::TileType>(op.getType());
  Value value = number(op.getValue().convertToFloat());
  auto rows = dyn_cast<pipe::RowsAttr>(type.getEncoding());
  bool isNeutral = op.getValue().isZero() || op.getValue().isInfinity(); // of a sum, of a maximum
  if (rows && rows.getShares() && !isNeutral) {
    // One lane of four holds the value, the others nothing.
    Value isFirst =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, firstColumn, constant(0));
    value = arith::SelectOp::create(builder, loc, isFirst, value, number(0));
  }
  values[op] = Values(typesOf(type).size(), value);
}

LogicalResult KernelLowering::lowerMap(tile::MapOp op) {
  auto type = cast<tile::TileType>(op.getType());
  FragmentShape shape(type, warps);
  bool isRow = type.getRank() == 1;
  Block &body = op.getBody().front();
  if (!type.getElementType().isF32())
    return op.emitOpError() << "expected elements f32, got " << type.getElementType();

  // Values from outside are looked up once.
  IRMapping outer;
  for (Operation &inner : body.without_terminator())
    for (Value operand : inner.getOperands())
      if (operand.getParentBlock() != &body && !isa<tile::ViewType>(operand.getType()))
        outer.map(operand, valueOf(operand));

  Values results;
  auto emitElement = [&](int64_t strip, int64_t half, int64_t group, int64_t odd) {
    IRMapping scalars = outer;
    for (auto [argument, source] : llvm::zip(body.getArguments(), op.getSources())) {
      bool sourceIsRow = cast<tile::TileType>(source.getType()).getRank() == 1;
      int64_t index =
          sourceIsRow ? strip * 2 + half : (strip * shape.groups() + group) * 4 + half * 2 + odd;
      scalars.map(argument, valuesOf(source)[index]);
    }
    unsigned coordinates = op.getSources().size();
    if (!body.getArgument(coordinates).use_empty())
      scalars.map(body.getArgument(coordinates),
                  add(firstRow, constant(shape.firstRow(strip) + 8 * half)));
    if (!body.getArgument(coordinates + 1).use_empty())
      scalars.map(body.getArgument(coordinates + 1),
                  isRow ? constant(0) : add(firstColumn, constant(8 * group + odd)));
    for (Operation &inner : body.without_terminator()) {
      if (inner.getNumRegions() != 0 || inner.getNumResults() != 1)
        return LogicalResult(inner.emitOpError() << "cannot stand in the body of tile.map");
      scalars.map(inner.getResult(0), emitScalar(&inner, scalars));
    }
    results.push_back(scalars.lookupOrDefault(body.getTerminator()->getOperand(0)));
    return LogicalResult(success());
  };
  for (int64_t strip = 0; strip < shape.strips; ++strip)
    for (int64_t group = 0; group < (isRow ? 1 : shape.groups()); ++group)
      for (int64_t half = 0; half < 2; ++half)
        for (int64_t odd = 0; odd < (isRow ? 1 : 2); ++odd)
          if (failed(emitElement(strip, half, group, odd)))
            return failure();
  values[op] = results;
  return success();
}

void KernelLowering::lowerReduce(tile::ReduceOp op) {
  FragmentShape shape = shapeOf(op.getSource());
  bool isMax = op.getKind() == tile::Reduction::Max;
  auto combine = [&](Value a, Value b) -> Value {
    if (isMax)
      return arith::MaxNumFOp::create(builder, loc, a, b);
    return arith::AddFOp::create(builder, loc, a, b);
  };
  const Values &source = valuesOf(op.getSource());
  const Values &start = valuesOf(op.getStart());
  Values results;
  for (int64_t strip = 0; strip < shape.strips; ++strip)
    for (int64_t half = 0; half < 2; ++half) {
      // Two chains, one for each column of a pair: half the latency.
      Value chains[2];
      for (int64_t group = 0; group < shape.groups(); ++group)
        for (int64_t odd = 0; odd < 2; ++odd) {
          Value element = source[(strip * shape.groups() + group) * 4 + half * 2 + odd];
          chains[odd] = group == 0 ? element : combine(chains[odd], element);
        }
      Value result = combine(chains[0], chains[1]);
      if (!op.givesShares())
        for (int64_t bit : {1, 2})
          result = combine(result, ptx().shuffleXor(result, bit));
      results.push_back(combine(start[strip * 2 + half], result));
    }
  values[op] = results;
}

void KernelLowering::lowerTotal(tile::TotalOp op) {
  Values results;
  for (Value share : valuesOf(op.getSource())) {
    for (int64_t bit : {1, 2}) {
      Value other = ptx().shuffleXor(share, bit);
      if (op.getKind() == tile::Reduction::Max)
        share = arith::MaxNumFOp::create(builder, loc, share, other);
      else
        share = arith::AddFOp::create(builder, loc, share, other);
    }
    results.push_back(share);
  }
  values[op] = results;
}

void KernelLowering::lowerAnyPositive(tile::AnyPositiveOp op) {
  Value largest;
  for (Value value : valuesOf(op.getSource()))
    largest = largest ? Value(arith::MaxNumFOp::create(builder, loc, largest, value)) : value;
  values[op] = {ptx().anyPositive(largest)};
}

void KernelLowering::lowerConvertElements(tile::ConvertOp op) {
  const Values &source = valuesOf(op.getSource());
  Type element = cast<tile::TileType>(op.getType()).getElementType();
  Values pairs;
  for (size_t index = 0; index < source.size(); index += 2)
    pairs.push_back(ptx().packPair(element, source[index], source[index + 1]));
  values[op] = pairs;
}

} // namespace tesela::nvvm
