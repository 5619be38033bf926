//===- MapDiagonals.cpp - Values that diagonals share -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/nvvm/DiagonalValues.h"
#include "targets/nvvm/MapElements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

static constexpr int64_t bytesOfElement = 4;

/// Each thread of a warpgroup computes the value of one diagonal or of several, each at the
/// diagonal's first element.
void KernelLowering::MapElements::shareDiagonals() {
  Operation *op = diagonalValueOf(map);
  if (!op)
    return;
  diagonal = op->getResult(0);
  llvm::DenseSet<Operation *> cone;
  SmallVector<Value> worklist = {diagonal};
  while (!worklist.empty())
    if (Operation *each = worklist.pop_back_val().getDefiningOp();
        each && each->getBlock() == &body && cone.insert(each).second)
      llvm::append_range(worklist, valuesUsedBy(*each));

  int64_t count = diagonalsOfGroup(map, lowering.kernel.getScheduleAttr());
  int64_t groupRows = cast<tile::TileType>(map.getType()).getExtent(0) / lowering.consumers;
  int64_t offset = map->getAttrOfType<IntegerAttr>(diagonalsOffsetAttr).getInt();
  constexpr int64_t groupThreads = 128;
  auto constant = [&](int64_t value) { return lowering.constant(value); };
  auto subtract = [&](Value a, Value b) -> Value {
    return arith::SubIOp::create(builder, loc, a, b);
  };
  Value base = lowering.add(lowering.sharedBase, constant(offset));
  base =
      lowering.add(base, lowering.multiply(lowering.warpgroup, constant(count * bytesOfElement)));
  Value firstOfGroup = lowering.multiply(lowering.warpgroup, constant(groupRows));
  Value threadOfGroup =
      arith::AndIOp::create(builder, loc, lowering.thread, constant(groupThreads - 1));
  auto barrier = [&] { lowering.ptx().barrier(lowering.warpgroupBarrierId(), groupThreads); };
  barrier(); // all threads have read what was there
  Value warpOfGroup = arith::AndIOp::create(builder, loc, threadOfGroup, constant(-32));
  scf::ForOp::create(
      builder, loc, warpOfGroup, constant(count), constant(groupThreads), ValueRange(),
      [&](OpBuilder &, Location, Value first, ValueRange) {
        Value line = lowering.add(first, lowering.lane);
        line = arith::MinSIOp::create(builder, loc, line, constant(count - 1));
        Value d = subtract(line, constant(groupRows - 1));
        Value row = arith::MaxSIOp::create(builder, loc, subtract(constant(0), d), constant(0));
        IRMapping scalars = outer;
        scalars.map(rowArgument(), lowering.add(firstOfGroup, row));
        scalars.map(columnArgument(), lowering.add(row, d));
        for (Operation &each : body)
          if (cone.contains(&each))
            lowering.emitInBody(&each, {&scalars});
        Value value = scalars.lookup(diagonal);
        if (!value.getType().isInteger(32))
          value = arith::BitcastOp::create(builder, loc, builder.getI32Type(), value);
        Value place = lowering.multiply(line, constant(bytesOfElement));
        lowering.ptx().storeShared(lowering.add(base, place), 0, value);
        scf::YieldOp::create(builder, loc);
      });
  barrier();
  Value own = subtract(lowering.firstColumn, subtract(lowering.firstRow, firstOfGroup));
  own = lowering.add(own, constant(groupRows - 1));
  Value address = lowering.add(base, lowering.multiply(own, constant(bytesOfElement)));
  auto shared = LLVM::LLVMPointerType::get(builder.getContext(), /*addressSpace=*/3);
  diagonals = LLVM::IntToPtrOp::create(builder, loc, shared, address);
}

Value KernelLowering::MapElements::diagonalOf(const Element &at) {
  int64_t number = at.column() - at.row.number;
  Value place = LLVM::GEPOp::create(builder, loc, diagonals.getType(), builder.getF32Type(),
                                    diagonals, ArrayRef<LLVM::GEPArg>{int32_t(number)});
  return LLVM::LoadOp::create(builder, loc, diagonal.getType(), place);
}

} // namespace tesela::nvvm
