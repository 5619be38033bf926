//===- LowerLines.cpp - Additions to memory, and sums of lines --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/Additions.h"
#include "targets/host/KernelLowering.h"
#include "targets/host/SmallFloats.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {

Value KernelLowering::lowerAtElement(Operation &op, ValueRange operands) {
  auto view = llvm::find_if(op.getOperands(),
                            [](Value operand) { return isa<tile::ViewType>(operand.getType()); });
  Addressing at{slots_, signature_.view(cast<BlockArgument>(*view).getArgNumber()), /*scope=*/""};
  Location loc = builder_.getLoc();
  if (isa<tile::ExactSumOp>(op))
    return emitExactSumAt(builder_, loc, operands, at);
  if (isa<tile::PutOp>(op)) {
    Type element = cast<tile::ViewType>((*view).getType()).getElementType();
    Value rounded = roundTo(builder_, unit_, element, operands.front());
    if (!element.isF32())
      rounded = toBits(builder_, unit_, element, rounded);
    emitPut(builder_, loc, rounded, operands.drop_front(), at);
    return operands.front();
  }
  Value always = arith::ConstantIntOp::create(builder_, 1, 1);
  emitAddition(builder_, loc, &op, operands.front(), operands.drop_front(), always, at);
  return operands.front();
}

LogicalResult KernelLowering::lowerAddLines(tile::AddLinesOp op) {
  TileStorage source = inMemory(storageOf(op.getSource()));
  Value zero = builder_.i64(0), all = builder_.i64(source.rows),
        wide = builder_.i64(source.columns);
  LogicalResult result = success();
  auto at = [&](Value row, Value column) {
    return loadTile(source, builder_.multiplyAdd(row, source.columns, column), 0);
  };
  auto subtract = [&](Value a, Value b) -> Value { return arith::SubIOp::create(builder_, a, b); };
  auto perform = [&](Value value, Value row, Value column) {
    Type i32 = builder_.getI32Type();
    Block &body = op.getBody().front();
    scalars_.map(body.getArgument(0), value);
    scalars_.map(body.getArgument(1), arith::TruncIOp::create(builder_, i32, row));
    scalars_.map(body.getArgument(2), arith::TruncIOp::create(builder_, i32, column));
    for (Operation &inner : body) {
      auto collect = dyn_cast<tile::CollectOp>(inner);
      if (!collect) {
        result = failed(lowerOperation(inner)) ? failure() : result;
        continue;
      }
      SmallVector<Value> operands = {scalar(collect.getValue())};
      for (Value index : collect.getIndices())
        operands.push_back(scalar(index));
      lowerAtElement(inner, operands);
    }
  };
  /// The sum of rows `first` to `end`, each at the column that `columnAt` gives.
  auto sum = [&](Value first, Value end, llvm::function_ref<Value(Value)> columnAt) -> Value {
    auto loop = scf::ForOp::create(builder_, first, end, builder_.i64(1),
                                   builder_.real(builder_.getF32Type(), 0.0f));
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(loop.getBody());
    Value row = loop.getInductionVar(), value = at(row, columnAt(row));
    Value next = arith::AddFOp::create(builder_, loop.getRegionIterArg(0), value);
    scf::YieldOp::create(builder_, next);
    return loop.getResult(0);
  };
  if (op.getLines() == op.elements)
    builder_.loop(source.rows, 1, [&](Value row) {
      builder_.loop(source.columns, 1,
                    [&](Value column) { perform(at(row, column), row, column); });
    });
  else if (op.getLines() == op.columns)
    builder_.loop(source.columns, 1, [&](Value column) {
      perform(sum(zero, all, [&](Value) { return column; }), zero, column);
    });
  else
    builder_.loop(source.rows + source.columns - 1, 1, [&](Value line) {
      Value d = subtract(line, builder_.i64(source.rows - 1));
      Value first = arith::MaxSIOp::create(builder_, subtract(zero, d), zero),
            end = arith::MinSIOp::create(builder_, all, subtract(wide, d));
      Value value = sum(first, end, [&](Value row) { return builder_.add(row, d); });
      perform(value, first, builder_.add(first, d));
    });
  return result;
}

} // namespace tesela
