//===- MapPuts.cpp - tile.put in maps ---------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Four lanes have the eight columns of a row, two columns each. If the tile lies inside of the
// view, its rows are contiguous and chunks begin at multiples of 16 bytes, the lanes exchange their
// parts of 32 columns, as chunked reads do (LowerReads.cpp). Then a lane stores eight adjacent
// elements of 16 bits, and four lanes store 64 bytes. Of f32, a lane stores its two elements. In
// all other cases each element is tested and stored on its own.
//
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/nvvm/MapElements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

static constexpr int64_t groupsOfChunk = 4;

/// How many elements a lane stores at once.
static int64_t storedAtOnce(Type element) { return element.isF32() ? 2 : 8; }

tile::PutOp KernelLowering::MapElements::storedByColumns() {
  auto put = dyn_cast_or_null<tile::PutOp>(body.getTerminator()->getOperand(0).getDefiningOp());
  auto value = put ? dyn_cast<BlockArgument>(put.getValue()) : BlockArgument();
  if (!value || value.getOwner() != &body || value.getArgNumber() >= map.getSources().size() ||
      isRow || isWords || heads != 1 || put.getIndices().empty() ||
      (!put.getView().getType().getElementType().isF32() && shape.groups() % groupsOfChunk != 0))
    return {};
  for (auto [axis, index] : llvm::enumerate(put.getIndices())) {
    bool isLast = axis + 1 == put.getIndices().size();
    const LanePosition *place = positions.find(index);
    bool isUniform = !place && index.getParentBlock() != &body;
    if (isLast ? !place || place->row != 0 || place->column != 1
               : !isUniform && (!place || place->column != 0 || place->row < 0))
      return {};
  }
  return put;
}

Value KernelLowering::MapElements::fitsStores(tile::PutOp put) {
  const ViewSlots &view = lowering.viewOf(put.getView());
  auto type = cast<tile::TileType>(map.getType());
  Type element = put.getView().getType().getElementType(), i64 = builder.getI64Type();
  int64_t size = element.getIntOrFloatBitWidth() / 8, atOnce = storedAtOnce(element);
  auto compare = [&](arith::CmpIPredicate predicate, Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  };
  auto low = [&](Value number, int64_t divisor) -> Value {
    Value bits = arith::ConstantIntOp::create(builder, loc, number.getType(), divisor - 1);
    return arith::AndIOp::create(builder, loc, number, bits);
  };
  // Compute the indices of the tile's first element.
  IRMapping scalars = outer;
  scalars.map(rowArgument(), lowering.constant(0));
  scalars.map(columnArgument(), lowering.constant(0));
  for (Operation &op : body.without_terminator())
    if (&op != put)
      lowering.emitInBody(&op, {&scalars});
  Value fits = compare(arith::CmpIPredicate::eq, lowering.slots[view.strides.back()],
                       lowering.constant(1, 64));
  Value address = LLVM::PtrToIntOp::create(builder, loc, i64, lowering.slots[view.data]);
  Value left = low(address, atOnce * size);
  for (auto [axis, index] : llvm::enumerate(put.getIndices())) {
    Value first = scalars.lookupOrDefault(index);
    const LanePosition *place = positions.find(index);
    int64_t beyond = place ? place->at(type.getExtent(0) - 1, type.getExtent(1) - 1) : 0;
    Value last = lowering.add(first, lowering.constant(beyond));
    for (Value end : {first, last})
      fits = arith::AndIOp::create(
          builder, loc, fits,
          compare(arith::CmpIPredicate::ult, end, lowering.slots[view.extents[axis]]));
    bool isLast = axis + 1 == put.getIndices().size();
    left = arith::OrIOp::create(builder, loc, left,
                                isLast ? lowering.wide(low(first, atOnce))
                                       : low(lowering.slots[view.strides[axis]], atOnce));
  }
  return arith::AndIOp::create(builder, loc, fits,
                               compare(arith::CmpIPredicate::eq, left, lowering.constant(0, 64)));
}

void KernelLowering::MapElements::storeColumns(tile::PutOp put) {
  const ViewSlots &view = lowering.viewOf(put.getView());
  Type element = put.getView().getType().getElementType();
  const Values &values =
      lowering.valuesOf(map.getSources()[cast<BlockArgument>(put.getValue()).getArgNumber()]);
  // The offset of the lane's first element, and the distance to the same element of the next row.
  Value start = lowering.constant(0, 64), rowStep = start;
  for (auto [axis, index] : llvm::enumerate(put.getIndices())) {
    const LanePosition *place = positions.find(index);
    Value stride = lowering.slots[view.strides[axis]];
    Value lane = place ? place->lane : outer.lookupOrDefault(index);
    start = lowering.add(start, lowering.multiply(lowering.wide(lane), stride));
    if (place && place->row != 0)
      rowStep = lowering.add(rowStep, lowering.multiply(lowering.constant(place->row, 64), stride));
  }
  if (!element.isF32()) // the lane's chunk begins at four times its first column
    start =
        lowering.add(start, lowering.wide(lowering.multiply(firstColumn, lowering.constant(3))));
  start = lowering.advance(lowering.slots[view.data], element, start);
  auto at = [&](int64_t row, int64_t column) {
    Value ofRow =
        lowering.advance(start, element, lowering.multiply(rowStep, lowering.constant(row, 64)));
    return lowering.advance(ofRow, element, lowering.constant(column, 64));
  };
  for (int64_t strip = 0; strip < shape.strips; ++strip)
    for (int64_t half = 0; half < 2; ++half) {
      int64_t row = shape.firstRow(strip) + 8 * half;
      auto own = [&](int64_t group, int64_t odd) {
        return values[(strip * shape.groups() + group) * 4 + half * 2 + odd];
      };
      if (element.isF32()) {
        auto two = VectorType::get(2, element);
        for (int64_t group = 0; group < shape.groups(); ++group) {
          Value pair = LLVM::PoisonOp::create(builder, loc, two);
          for (int64_t odd = 0; odd < 2; ++odd)
            pair = LLVM::InsertElementOp::create(builder, loc, pair, own(group, odd),
                                                 lowering.constant(odd));
          LLVM::StoreOp::create(builder, loc, pair, at(row, 8 * group), /*alignment=*/8);
        }
        continue;
      }
      for (int64_t first = 0; first < shape.groups(); first += groupsOfChunk) {
        Values pairs;
        for (int64_t group = first; group < first + groupsOfChunk; ++group)
          pairs.push_back(lowering.ptx().packPair(element, own(group, 0), own(group, 1)));
        for (int64_t bit : {1, 2}) {
          Value place = arith::AndIOp::create(builder, loc, lowering.lane, lowering.constant(bit));
          Value isUpper = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, place,
                                                lowering.constant(0));
          for (int64_t number = 0; number < groupsOfChunk; ++number)
            if ((number & bit) == 0)
              lowering.exchange(pairs[number], pairs[number + bit], isUpper, bit);
        }
        lowering.ptx().storeGlobal16Bytes(at(row, 8 * first), pairs);
      }
    }
}

/// Returns nothing if the map does not store in this way.
std::optional<Values> KernelLowering::MapElements::emitPuts(KernelLowering &lowering,
                                                            tile::MapOp map,
                                                            const IRMapping &outer) {
  if (map.getBody().front().getOps<tile::PutOp>().empty())
    return std::nullopt;
  MapElements whole(lowering, map, outer);
  tile::PutOp put = whole.storedByColumns();
  if (!put)
    return std::nullopt;
  OpBuilder &builder = lowering.builder;
  auto branch = scf::IfOp::create(builder, whole.loc, whole.fitsStores(put),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  whole.storeColumns(put);
  builder.setInsertionPointToStart(branch.elseBlock());
  MapElements(lowering, map, outer).emit();
  return Values();
}

} // namespace tesela::nvvm
