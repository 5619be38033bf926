//===- LowerLines.cpp - Sums of a tile's lines ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The tile goes to shared memory, where each thread sums lines of its own, all in one order. Lanes
// whose sums go to one element, as buckets of distances have it far from the diagonal, add them up
// first: additions to one address are one after the other.
//
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/common/Additions.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/LinesPlace.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tesela::nvvm {

/// Where the four lanes of a warp's row write side by side, eight rows meet in no bank.
static constexpr int64_t paddingColumns = 8;

static constexpr int64_t bytesOfElement = 4;

static int64_t lineStride(tile::TileType type) { return type.getExtent(1) + paddingColumns; }

int64_t linesBytes(tile::AddLinesOp op) {
  auto type = cast<tile::TileType>(op.getSource().getType());
  return type.getExtent(0) * lineStride(type) * bytesOfElement;
}

class KernelLowering::Lines {
public:
  Lines(KernelLowering &lowering, tile::AddLinesOp op)
      : lowering(lowering), builder(lowering.builder), loc(op.getLoc()), op(op),
        type(cast<tile::TileType>(op.getSource().getType())), rows(type.getExtent(0)),
        columns(type.getExtent(1)) {}

  void emit() {
    int64_t offset = op->getAttrOfType<IntegerAttr>(linesOffsetAttr).getInt();
    base = lowering.add(lowering.sharedBase, constant(offset));
    for (Value used : valuesUsedBy(*op))
      if (used != op.getSource() && !isa<tile::ViewType>(used.getType()))
        outer.map(used, lowering.valueOf(used));
    lowering.lowerBarrier(); // all have read what stood there
    write();
    lowering.lowerBarrier();
    int64_t lines = op.getLines() == op.elements  ? rows * columns
                    : op.getLines() == op.columns ? columns
                                                  : rows + columns - 1;
    int64_t rounds = llvm::divideCeil(lines, lowering.threads);
    scf::ForOp::create(builder, loc, constant(0), constant(rounds), constant(1), ValueRange(),
                       [&](OpBuilder &, Location, Value round, ValueRange) {
                         Value line = lowering.add(
                             lowering.multiply(round, constant(lowering.threads)), lowering.thread);
                         addLine(line, lines);
                         scf::YieldOp::create(builder, loc);
                       });
  }

private:
  Value constant(int64_t value) { return lowering.constant(value); }
  Value subtract(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }

  void write() {
    FragmentShape shape(type, lowering.warps);
    const Values &elements = lowering.valuesOf(op.getSource());
    int64_t rowBytes = lineStride(type) * bytesOfElement;
    Value start = lowering.add(base, lowering.multiply(lowering.firstRow, constant(rowBytes)));
    start = lowering.add(start, lowering.multiply(lowering.firstColumn, constant(bytesOfElement)));
    for (int64_t strip = 0; strip < shape.strips; ++strip)
      for (int64_t group = 0; group < shape.groups(); ++group)
        for (int64_t half = 0; half < 2; ++half) {
          int64_t offset =
              (shape.firstRow(strip) + 8 * half) * rowBytes + group * 8 * bytesOfElement;
          auto pair = elements.begin() + (strip * shape.groups() + group) * 4 + half * 2;
          lowering.ptx().storeSharedPair(start, offset, pair[0], pair[1]);
        }
  }

  Value load(Value row, Value column) {
    Value index = lowering.add(lowering.multiply(row, constant(lineStride(type))), column);
    Value address = lowering.add(base, lowering.multiply(index, constant(bytesOfElement)));
    auto shared = LLVM::LLVMPointerType::get(builder.getContext(), /*addressSpace=*/3);
    Value pointer = LLVM::IntToPtrOp::create(builder, loc, shared, address);
    return LLVM::LoadOp::create(builder, loc, builder.getF32Type(), pointer);
  }

  /// The sum of the elements at rows `first` to `end` of a line.
  Value sum(Value first, Value end, llvm::function_ref<Value(Value row)> columnAt) {
    auto loop = scf::ForOp::create(builder, loc, first, end, constant(1), lowering.number(0),
                                   [&](OpBuilder &, Location, Value row, ValueRange carried) {
                                     Value next = arith::AddFOp::create(
                                         builder, loc, carried.front(), load(row, columnAt(row)));
                                     scf::YieldOp::create(builder, loc, next);
                                   });
    return loop.getResult(0);
  }

  void addLine(Value line, int64_t lines) {
    Value exists =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, line, constant(lines));
    line = arith::MinSIOp::create(builder, loc, line, constant(lines - 1));
    Value row = constant(0), column = line, value;
    if (op.getLines() == op.elements) {
      row = arith::DivUIOp::create(builder, loc, line, constant(columns));
      column = subtract(line, lowering.multiply(row, constant(columns)));
      value = load(row, column);
    } else if (op.getLines() == op.columns) {
      value = sum(constant(0), constant(rows), [&](Value) { return line; });
    } else {
      Value d = subtract(line, constant(rows - 1)), zero = constant(0);
      row = arith::MaxSIOp::create(builder, loc, subtract(zero, d), zero);
      column = lowering.add(row, d);
      Value end =
          arith::MinSIOp::create(builder, loc, constant(rows), subtract(constant(columns), d));
      value = sum(row, end, [&](Value at) { return lowering.add(at, d); });
    }
    value = arith::SelectOp::create(builder, loc, exists, value, lowering.number(0));
    IRMapping scalars = outer;
    Block &body = op.getBody().front();
    scalars.map(body.getArguments(), ValueRange{value, row, column});
    for (Operation &inner : body) {
      auto collect = dyn_cast<tile::CollectOp>(inner);
      if (!collect) {
        lowering.emitInBody(&inner, {&scalars});
        continue;
      }
      Values indices;
      for (Value index : collect.getIndices())
        indices.push_back(scalars.lookup(index));
      Value added = scalars.lookup(collect.getValue());
      if (op.getLines() != op.elements)
        added = joined(added, indices);
      emitAddition(builder, loc, collect, added, indices, lowering.constant(1, 1),
                   {lowering.slots, lowering.viewOf(collect.getView()), "device"});
    }
  }

  /// `value`; where all lanes have the same indices, the first one's is the sum of all, and the
  /// others' is 0.
  Value joined(Value value, ArrayRef<Value> indices) {
    Value same = lowering.constant(1, 1), none = lowering.number(0);
    for (Value index : indices) {
      Value first = lowering.ptx().shuffleFrom(index, constant(0));
      Value equal = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, index, first);
      same = arith::AndIOp::create(builder, loc, same, equal);
    }
    Value all = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                      lowering.ptx().ballot(same), constant(-1));
    auto branch = scf::IfOp::create(builder, loc, builder.getF32Type(), all,
                                    /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, value);
    builder.setInsertionPointToStart(branch.thenBlock());
    for (int64_t bits = 1; bits < 32; bits *= 2)
      value = arith::AddFOp::create(builder, loc, value, lowering.ptx().shuffleXor(value, bits));
    Value isFirst =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, lowering.lane, constant(0));
    Value kept = arith::SelectOp::create(builder, loc, isFirst, value, none);
    scf::YieldOp::create(builder, loc, kept);
    return branch.getResult(0);
  }

  KernelLowering &lowering;
  OpBuilder &builder;
  Location loc;
  tile::AddLinesOp op;
  tile::TileType type;
  int64_t rows, columns;
  Value base;
  IRMapping outer;
};

void KernelLowering::lowerAddLines(tile::AddLinesOp op) { Lines(*this, op).emit(); }

} // namespace tesela::nvvm
