//===- LowerElementwise.cpp - Reductions on registers -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/Float8.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

void KernelLowering::lowerConstant(tile::ConstantOp op) {
  auto type = cast<tile::TileType>(op.getType());
  bool isFloat = llvm::all_of(typesOf(type), [](Type each) { return each.isF32(); });
  assert((isFloat || op.getValue().isZero()) && "pairs of 16 bits and i32 begin with zeros only");
  // Opaque: otherwise LLVM gives these zeros and those with which a loop's counts begin one
  // register.
  Value value = isFloat ? number(op.getValue().convertToFloat()) : ptx().opaque(constant(0));
  auto rows = dyn_cast<pipe::RowsAttr>(type.getEncoding());
  bool isNeutral = op.getValue().isZero() || op.getValue().isInfinity(); // of sums, of maxima
  if (rows && rows.getShares() && !isNeutral) {
    // Only one lane of four, in one part, holds the value; the others hold 0.
    FragmentShape shape(type, warps);
    Value place = add(firstColumn, partOf(shape));
    Value isFirst =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, place, constant(0));
    value = arith::SelectOp::create(builder, loc, isFirst, value, number(0));
  }
  values[op] = Values(typesOf(type).size(), value);
}

Values KernelLowering::unpackPair(Type element, Value pair) {
  Type f32 = builder.getF32Type();
  if (element.isBF16()) // the upper half of an f32
    return {arith::BitcastOp::create(builder, loc, f32,
                                     arith::ShLIOp::create(builder, loc, pair, constant(16))),
            arith::BitcastOp::create(
                builder, loc, f32,
                arith::AndIOp::create(builder, loc, pair, constant(int32_t(0xFFFF0000))))};
  if (isa<Float8E4M3FNType>(element)) // two bytes in the lower half
    return {float8ToFloat(builder, loc, pair),
            float8ToFloat(builder, loc, arith::ShRUIOp::create(builder, loc, pair, constant(8)))};
  Value halves = LLVM::BitcastOp::create(builder, loc, VectorType::get(2, element), pair);
  Values result;
  for (int64_t odd = 0; odd < 2; ++odd) {
    Value half = LLVM::ExtractElementOp::create(builder, loc, halves, constant(odd));
    result.push_back(arith::ExtFOp::create(builder, loc, f32, half));
  }
  return result;
}

Value KernelLowering::packPair(Type element, Value low, Value high) {
  if (!isa<Float8E4M3FNType>(element))
    return ptx().packPair(element, low, high);
  Value upper = arith::ShLIOp::create(builder, loc, floatToFloat8(builder, loc, high), constant(8));
  return arith::OrIOp::create(builder, loc, floatToFloat8(builder, loc, low), upper);
}

static int64_t partsOffsetOf(Operation *op) {
  return op->getAttrOfType<IntegerAttr>(partsOffsetAttr).getInt();
}

/// A number wins against NaN.
Value KernelLowering::combine(tile::Reduction kind, Value a, Value b) {
  bool isInteger = a.getType().isInteger(32);
  switch (kind) {
  case tile::Reduction::Add:
    return arith::AddFOp::create(builder, loc, a, b);
  case tile::Reduction::Max:
    return isInteger ? arith::MaxSIOp::create(builder, loc, a, b).getResult()
                     : arith::MaxNumFOp::create(builder, loc, a, b).getResult();
  case tile::Reduction::Min:
    return isInteger ? arith::MinSIOp::create(builder, loc, a, b).getResult()
                     : arith::MinNumFOp::create(builder, loc, a, b).getResult();
  }
  llvm_unreachable("a kind of reduction that is none");
}

void KernelLowering::lowerReduce(tile::ReduceOp op) {
  FragmentShape shape = shapeOf(op.getSource());
  auto combine = [&](Value a, Value b) { return this->combine(op.getKind(), a, b); };
  const Values &source = valuesOf(op.getSource());
  const Values &start = valuesOf(op.getStart());
  Values ofRows, results;
  for (int64_t strip = 0; strip < shape.strips; ++strip)
    for (int64_t half = 0; half < 2; ++half) {
      // Two chains, one for each column of a pair, halve the latency.
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
      ofRows.push_back(result);
    }
  if (!op.givesShares() && partsOf(shape) > 1)
    ofRows = joinParts(ofRows, shape, op.getKind(), partsOffsetOf(op));
  for (auto [first, result] : llvm::zip_equal(start, ofRows))
    results.push_back(combine(first, result));
  values[op] = results;
}

void KernelLowering::lowerTotal(tile::TotalOp op) {
  Values results;
  for (Value share : valuesOf(op.getSource())) {
    for (int64_t bit : {1, 2})
      share = combine(op.getKind(), share, ptx().shuffleXor(share, bit));
    results.push_back(share);
  }
  if (FragmentShape shape = shapeOf(op.getResult()); partsOf(shape) > 1)
    results = joinParts(results, shape, op.getKind(), partsOffsetOf(op));
  values[op] = results;
}

void KernelLowering::lowerAnyPositive(tile::AnyPositiveOp op) {
  Value largest;
  for (Value value : valuesOf(op.getSource()))
    largest = largest ? Value(arith::MaxNumFOp::create(builder, loc, largest, value)) : value;
  // If several warps share the rows, all of them must get the same answer.
  if (partsOf(shapeOf(op.getSource())) > 1)
    values[op] = {ptx().anyPositive(largest, barrierOfAll(), 32 * warps)};
  else if (op.getGroup() && consumers > 0)
    values[op] = {ptx().anyPositive(largest, warpgroupBarrierId(), 128)};
  else
    values[op] = {ptx().anyPositive(largest)};
}

void KernelLowering::lowerConvertElements(tile::ConvertOp op) {
  const Values &source = valuesOf(op.getSource());
  Type element = cast<tile::TileType>(op.getType()).getElementType();
  Type given = cast<tile::TileType>(op.getSource().getType()).getElementType();
  auto encoding = cast<tile::TileType>(op.getType()).getEncoding();
  if (element == given || isa_and_nonnull<pipe::SharedAttr>(encoding)) { // the reader widens
    values[op] = Values(source);
    return;
  }
  Values elements;
  if (given.isF32())
    elements = source;
  else
    for (Value pair : source)
      for (Value half : unpackPair(given, pair))
        elements.push_back(half);
  if (element.isF32()) {
    values[op] = elements;
    return;
  }
  Values pairs;
  if (cast<tile::TileType>(op.getType()).getRank() == 1) { // one element per register
    for (Value value : elements)
      pairs.push_back(packPair(element, value, value));
    values[op] = pairs;
    return;
  }
  for (size_t index = 0; index < elements.size(); index += 2)
    pairs.push_back(packPair(element, elements[index], elements[index + 1]));
  values[op] = pairs;
}

} // namespace tesela::nvvm
