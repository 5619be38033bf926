//===- LowerFragments.cpp - Workspaces in fragment order --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/FragmentOrder.h"
#include "targets/nvvm/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

using namespace fragment_order;

static constexpr int64_t elementBytes = 4;

static int64_t columnsOf(Value view) {
  return *cast<tile::ViewType>(view.getType()).getStaticExtent(3);
}

/// The distance between a lane's elements, and the distance between neighbouring lanes' elements.
static std::pair<int64_t, int64_t> strides(tile::KernelOp kernel) {
  bool isByLane = kernel->hasAttr(sumsByLaneAttr) || kernel.getScheduleAttr()->consumers > 0;
  return isByLane ? std::pair(int64_t(1), laneElements) : std::pair(lanes, int64_t(1));
}

Value KernelLowering::fragmentAddress(Value view, const BlockCoordinates &block, Value row) {
  BlockCoordinates head = block;
  head.first = constant(0);
  Value piece = arith::DivUIOp::create(builder, loc, row, constant(pieceRows));
  Value inPiece = arith::RemUIOp::create(builder, loc, row, constant(pieceRows));
  Value offset = multiply(inPiece, constant(groupColumns)); // parts of 16 rows follow each other
  offset = add(offset, multiply(lane, constant(strides(kernel).second)));
  Value pieces = multiply(wide(piece), constant(pieceRows * columnsOf(view), 64));
  Type f32 = builder.getF32Type();
  return advance(blockAddress(view, head, f32), f32, add(pieces, wide(offset)));
}

/// Rows from the block's limit on and columns that the view lacks become 0.
void KernelLowering::lowerFragmentLoad(tile::LoadOp op) {
  FragmentShape shape = shapeOf(op.getTile());
  BlockCoordinates block = blockOf(op.getBlock());
  Type f32 = builder.getF32Type(), four = VectorType::get(laneElements, f32);
  int64_t elementStride = strides(kernel).first;
  Value last = arith::SubIOp::create(builder, loc, block.limit, constant(1));
  Value lastPart = arith::AndIOp::create(builder, loc, last, constant(-partRows));
  Value rowOfLane = arith::DivUIOp::create(builder, loc, lane, constant(4));
  Values results(shape.elements(), number(0));
  for (int64_t strip = 0; strip < shape.strips; ++strip) {
    Value row = add(block.first, multiply(warp, constant(partRows)));
    row = add(row, constant(shape.firstRow(strip)));
    // For a part that does not exist, the last one that does is read, and its values are dropped.
    Value held = arith::MinSIOp::create(builder, loc, row, lastPart);
    Value address = fragmentAddress(op.getView(), block, held);
    for (int64_t half = 0; half < 2; ++half) {
      Value ofHalf = add(add(row, rowOfLane), constant(8 * half));
      Value exists =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, ofHalf, block.limit);
      for (int64_t group = 0; group < columnsOf(op.getView()) / groupColumns; ++group) {
        Value source = advance(address, f32, constant(group * groupElements, 64)), loaded;
        if (elementStride == 1)
          loaded = LLVM::LoadOp::create(builder, loc, four, source,
                                        /*alignment=*/laneElements * elementBytes);
        for (int64_t odd = 0; odd < 2; ++odd) {
          int64_t place = 2 * half + odd;
          Value element =
              loaded
                  ? LLVM::ExtractElementOp::create(builder, loc, loaded, constant(place))
                        .getResult()
                  : LLVM::LoadOp::create(builder, loc, f32,
                                         advance(source, f32, constant(place * elementStride, 64)))
                        .getResult();
          results[(strip * shape.groups() + group) * laneElements + place] =
              arith::SelectOp::create(builder, loc, exists, element, number(0));
        }
      }
    }
  }
  values[op] = results;
}

/// Adds the elements of a strip where a lane's four elements are adjacent. Each addition has a
/// predicate in place of a branch.
void KernelLowering::addFragments(Value view, const BlockCoordinates &block, Value row,
                                  const Values &elements, int64_t strip, const FragmentShape &shape,
                                  Value exists) {
  Type f32 = builder.getF32Type();
  Value begin = multiply(partOf(shape), constant(shape.columns)); // of cut columns
  Value own =
      advance(fragmentAddress(view, block, row), f32, wide(multiply(begin, constant(pieceRows))));
  ArrayRef<Value> all = elements;
  for (int64_t group = 0; group < std::min(columnsOf(view) / groupColumns, shape.groups());
       ++group) {
    Value adds = exists;
    if (int64_t left = columnsOf(view) - group * groupColumns;
        left <= (partsOf(shape) - 1) * shape.columns) // the last part lacks these columns
      adds = arith::AndIOp::create(
          builder, loc, adds,
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, begin, constant(left)));
    ptx().addGlobal16Bytes(advance(own, f32, constant(group * groupElements, 64)),
                           all.slice((strip * shape.groups() + group) * laneElements, laneElements),
                           adds);
  }
}

/// Rows behind the block's limit are stored, too, if they share a part with rows before it.
void KernelLowering::lowerFragmentStore(Value tile, Value view, Value blockValue, bool adds) {
  FragmentShape shape = shapeOf(tile);
  const Values &elements = valuesOf(tile);
  BlockCoordinates block = blockOf(blockValue);
  Type f32 = builder.getF32Type(), four = VectorType::get(laneElements, f32);
  int64_t elementStride = strides(kernel).first;
  Value begin = multiply(partOf(shape), constant(shape.columns)); // of cut columns
  for (int64_t strip = 0; strip < shape.strips; ++strip) {
    Value row = add(block.first, multiply(rowWarpOf(shape), constant(partRows)));
    row = add(row, constant(shape.firstRow(strip)));
    Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, row, block.limit);
    if (adds && elementStride == 1) {
      addFragments(view, block, row, elements, strip, shape, exists);
      continue;
    }
    auto branch = scf::IfOp::create(builder, loc, exists, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value address = fragmentAddress(view, block, row);
    address = advance(address, f32, wide(multiply(begin, constant(pieceRows))));
    int64_t groups = std::min(columnsOf(view) / groupColumns, shape.groups());
    for (int64_t group = 0; group < groups; ++group) {
      int64_t first = (strip * shape.groups() + group) * laneElements;
      Value target = advance(address, f32, constant(group * groupElements, 64));
      OpBuilder::InsertionGuard guardOfGroup(builder);
      if (int64_t left = columnsOf(view) - group * groupColumns;
          left <= (partsOf(shape) - 1) * shape.columns) { // the last part lacks these columns
        Value isInside =
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, begin, constant(left));
        auto inside = scf::IfOp::create(builder, loc, isInside, /*withElseRegion=*/false);
        builder.setInsertionPointToStart(inside.thenBlock());
      }
      if (adds || elementStride > 1) {
        for (int64_t place = 0; place < laneElements; ++place) {
          Value at = advance(target, f32, constant(place * elementStride, 64));
          if (adds)
            ptx().addGlobal(at, elements[first + place]);
          else
            LLVM::StoreOp::create(builder, loc, elements[first + place], at);
        }
        continue;
      }
      Value vector = LLVM::PoisonOp::create(builder, loc, four);
      for (int64_t place = 0; place < laneElements; ++place)
        vector = LLVM::InsertElementOp::create(builder, loc, vector, elements[first + place],
                                               constant(place));
      LLVM::StoreOp::create(builder, loc, vector, target, laneElements * elementBytes);
    }
  }
}

/// A buffer of f32 has the order of the workspace to which it is added. A warpgroup writes the
/// pieces whose rows it has, or, if the tile is cut, its columns of all pieces.
void KernelLowering::lowerFragmentWrite(pipe::WriteOp op) {
  FragmentShape shape = shapeOf(op.getTile());
  const Values &elements = valuesOf(op.getTile());
  int64_t columns = op.getBuffer().getType().getColumns(), warpsOfPiece = pieceRows / partRows;
  bool isCut = shape.warps < warps;
  Value inWarpgroup = arith::AndIOp::create(builder, loc, thread, constant(32 * warpsOfPiece - 1));
  Value own = multiply(warpgroup, constant(pieceRows * (isCut ? shape.columns : columns)));
  own = add(own, multiply(inWarpgroup, constant(laneElements)));
  Value base = add(stageAddress(op.getBuffer(), valueOf(op.getStage())),
                   multiply(own, constant(elementBytes)));
  int64_t pieces = shape.warps / warpsOfPiece; // pieces of all warpgroups in a strip
  for (int64_t strip = 0; strip < shape.strips; ++strip)
    for (int64_t group = 0; group < shape.groups(); ++group) {
      int64_t offset = strip * pieces * pieceRows * columns + group * groupElements;
      ArrayRef<Value> all = elements;
      ptx().storeShared16Bytes(
          base, offset * elementBytes,
          all.slice((strip * shape.groups() + group) * laneElements, laneElements));
    }
}

/// One thread of a warpgroup starts the addition. The instruction has a predicate, because no
/// branch may stand between products in flight.
void KernelLowering::lowerAddOut(pipe::AddOutOp op) {
  auto buffer = op.getBuffer().getType();
  BlockCoordinates block = blockOf(op.getBlock());
  int64_t columns = columnsOf(op.getView()), share = pipe::columnsOfShare(buffer, consumers);
  bool isCut = pipe::isSharedByColumns(buffer, consumers);
  ptx().fenceAsyncProxy();
  ptx().barrier(warpgroupBarrierId(), 128);
  if (hasAdders())
    return handOver(add(block.first, constant(1)));
  Value isFirst = isFirstOfWarpgroup();
  Value row = block.first, source = valueOf(op.getBuffer()), count = constant(columns);
  Value firstColumn = constant(0);
  if (isCut) {
    firstColumn = multiply(warpgroup, constant(share));
    count = constant(share);
    if (columns != share * consumers)
      count = arith::MinSIOp::create(
          builder, loc, count, arith::SubIOp::create(builder, loc, constant(columns), firstColumn));
    source = add(source, multiply(firstColumn, constant(pieceRows * elementBytes)));
  } else {
    // Pinned: otherwise the loop around it holds both the row and the address.
    Value ownRow = multiply(ptx().pinned(warpgroup), constant(pieceRows));
    row = add(row, ownRow);
    source = add(source, multiply(ownRow, constant(share * elementBytes)));
  }
  Value hasRows = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, row, block.limit);
  Value hasColumns =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, count, constant(0));
  Value adds = arith::AndIOp::create(builder, loc, isFirst,
                                     arith::AndIOp::create(builder, loc, hasRows, hasColumns));
  // The address of the head comes first: it is the same for all blocks of the head, so the loop
  // over them holds one number for it.
  BlockCoordinates ofHead = block;
  ofHead.first = constant(0);
  Type f32 = builder.getF32Type();
  Value head = advance(blockAddress(op.getView(), ofHead, f32), f32,
                       wide(multiply(firstColumn, constant(pieceRows))));
  // The rows of a head are `columns` elements apart, which is also the view's stride. Causal
  // gradients with whole rows (D 64) are 0.4 to 1.2 % faster with the constant, and those with cut
  // rows (D 128) 1.2 % slower (docs/log/2026-11-30-live-numbers.md).
  Value rowStride = isCut ? slots[viewOf(op.getView()).strides[2]] : wide(constant(columns));
  Value global = advance(head, f32, multiply(wide(row), rowStride));
  ptx().addBulk(global, source, multiply(count, constant(pieceRows * elementBytes)), adds);
  ptx().commitTensorCopies();
}

} // namespace tesela::nvvm
