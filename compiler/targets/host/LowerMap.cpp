//===- LowerMap.cpp - Element by element and row by row ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/common/Phases.h"
#include "targets/host/KernelLowering.h"
#include "targets/host/RowReduction.h"
#include "targets/host/SmallFloats.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela {

/// Adds to `varying` the values of `body` that are computed from values in it. Loops that use such
/// a value carry such values, too.
static void addVarying(Block &body, DenseSet<Value> &varying) {
  for (Operation &inner : body.without_terminator()) {
    if (llvm::none_of(valuesUsedBy(inner), [&](Value value) { return varying.contains(value); }))
      continue;
    varying.insert_range(inner.getResults());
    if (auto loop = dyn_cast<scf::ForOp>(inner)) {
      varying.insert_range(loop.getRegionIterArgs());
      addVarying(*loop.getBody(), varying);
    }
  }
}

/// The values of a map's body that differ along a row. All others are computed once per row, as
/// scalars.
static DenseSet<Value> findVarying(tile::MapOp op, bool oneExtent) {
  DenseSet<Value> varying;
  Block &body = op.getBody().front();
  int64_t rank = oneExtent ? 1 : 2;
  for (auto [index, source] : llvm::enumerate(op.getSources()))
    if (cast<tile::TileType>(source.getType()).getRank() == rank)
      varying.insert(body.getArgument(index));
  unsigned row = op.getSources().size(), column = row + 1;
  varying.insert(body.getArgument(oneExtent ? row : column));
  addVarying(body, varying);
  return varying;
}

/// The vectors of a map's body for some columns of a row.
struct KernelLowering::VectorBody {
  KernelLowering &lowering;
  const DenseSet<Value> &varying;
  int64_t width;
  IRMapping values;

  Value of(Value value) {
    if (!values.contains(value)) // it is the same along the row
      values.map(value, lowering.builder_.splat(lowering.scalar(value), width));
    return values.lookup(value);
  }

  LogicalResult emit(Operation &op) {
    CodeBuilder &builder = lowering.builder_;
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return emitLoop(loop);
    if (auto read = dyn_cast<tile::ReadOp>(op)) {
      SmallVector<Value> indices;
      for (Value index : read.getIndices())
        indices.push_back(of(index));
      values.map(read.getElement(), lowering.lowerRead(read, indices));
      return success();
    }
    if (isa<tile::CollectOp, tile::DepositOp, tile::PutOp, tile::ExactSumOp>(op))
      return emitByElement(op);
    if (auto phase = dyn_cast<tile::PhaseOp>(op)) {
      Value sum = builder.add(of(phase.getStart()), of(phase.getColumn()));
      values.map(phase.getPhase(), emitPhase(builder, builder.getLoc(), sum, of(phase.getPeriod()),
                                             of(phase.getFactor())));
      return success();
    }
    for (Value operand : op.getOperands())
      of(operand);
    Operation *wide = builder.clone(op, values);
    Value result = wide->getResult(0);
    result.setType(CodeBuilder::vectorOf(result.getType(), width));
    values.map(op.getResult(0), result);
    return success();
  }

  /// Lowers an op that no vector instruction can do: one vector element after the other.
  LogicalResult emitByElement(Operation &op) {
    CodeBuilder &builder = lowering.builder_;
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      if (!isa<tile::ViewType>(operand.getType()))
        operands.push_back(of(operand));
    Value result = builder.real(CodeBuilder::vectorOf(builder.getF32Type(), width), 0.0f);
    for (int64_t index = 0; index < width; ++index) {
      SmallVector<Value> scalars;
      for (Value operand : operands)
        scalars.push_back(LLVM::ExtractElementOp::create(builder, operand, builder.i64(index)));
      Value given = lowering.lowerAtElement(op, scalars);
      result = LLVM::InsertElementOp::create(builder, result, given, builder.i64(index));
    }
    values.map(op.getResult(0), result);
    return success();
  }

  /// All elements go through a loop together. So its bounds must be scalars.
  LogicalResult emitLoop(scf::ForOp loop) {
    CodeBuilder &builder = lowering.builder_;
    Value bounds[] = {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()};
    for (Value &bound : bounds) {
      if (varying.contains(bound))
        return loop.emitOpError("expected bounds that are the same along a row");
      bound = lowering.scalar(bound);
    }
    SmallVector<Value> init;
    for (Value value : loop.getInitArgs())
      init.push_back(of(value));
    for (Value used : valuesUsedBy(*loop)) // in front of the loop, since later ops use them, too
      if (!isa<tile::ViewType>(used.getType()))
        of(used);
    auto lowered = scf::ForOp::create(builder, bounds[0], bounds[1], bounds[2], init);
    lowering.scalars_.map(loop.getInductionVar(), lowered.getInductionVar());
    for (auto [from, to] : llvm::zip(loop.getRegionIterArgs(), lowered.getRegionIterArgs()))
      values.map(from, to);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(lowered.getBody());
    for (Operation &op : loop.getBody()->without_terminator()) {
      bool isVarying = varying.contains(op.getResult(0));
      if (failed(isVarying ? emit(op) : lowering.lowerOperation(op)))
        return failure();
    }
    SmallVector<Value> yielded;
    for (Value value : loop.getBody()->getTerminator()->getOperands())
      yielded.push_back(of(value));
    scf::YieldOp::create(builder, yielded);
    values.map(loop.getResults(), lowered.getResults());
    return success();
  }
};

/// The reductions of the result's rows that the map's own loop can compute: those in the same block
/// behind it.
static SmallVector<tile::ReduceOp> findReductions(tile::MapOp op) {
  SmallVector<tile::ReduceOp> found;
  if (cast<tile::TileType>(op.getResult().getType()).getRank() == 2)
    for (OpOperand &use : op.getResult().getUses())
      if (auto reduce = dyn_cast<tile::ReduceOp>(use.getOwner());
          reduce && reduce->getBlock() == op->getBlock() && use.get() == reduce.getSource())
        found.push_back(reduce);
  return found;
}

/// The conversion of the map's result, if it is the only user besides `reductions`; otherwise null.
static tile::ConvertOp findConversion(tile::MapOp op, ArrayRef<tile::ReduceOp> reductions) {
  tile::ConvertOp found;
  for (Operation *user : op.getResult().getUsers()) {
    if (llvm::is_contained(reductions, user))
      continue;
    auto convert = dyn_cast<tile::ConvertOp>(user);
    if (found || !convert || convert->getBlock() != op->getBlock())
      return {};
    found = convert;
  }
  return found;
}

LogicalResult KernelLowering::lowerMap(tile::MapOp op) {
  auto resultType = cast<tile::TileType>(op.getResult().getType());
  auto isTruths = [](Type tile) {
    return cast<tile::TileType>(tile).getElementType().isInteger(1);
  };
  for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
    if (Type element = cast<tile::TileType>(type).getElementType();
        !element.isF32() && !element.isInteger(32) &&
        !(isTruths(type) && type != op->getResultTypes().front()))
      return op.emitOpError() << "computes in f32 and i32 on the host, got " << type
                              << "; convert it with tile.convert";
  bool oneExtent = resultType.getRank() == 1;
  TileStorage result = shapeOf(resultType);
  bool placed = false;
  for (Value source : op.getSources()) {
    auto sourceType = cast<tile::TileType>(source.getType());
    bool sameShape = sourceType.getExtents() == resultType.getExtents() &&
                     sourceType.getElementType() == resultType.getElementType();
    if (!placed && sameShape && !storageOf(source).constant && diesAt(source, op)) {
      result = storageOf(source);
      placed = true;
    }
  }
  if (!placed)
    result = allocate(result);

  // Reductions and a conversion of the result are computed in the map's loop, without reading the
  // values again.
  SmallVector<tile::ReduceOp> reductions = findReductions(op);
  SmallVector<RowReduction> rowReductions;
  for (tile::ReduceOp reduce : reductions) {
    reduced_[reduce] = allocate(shapeOf(reduce.getResult().getType()));
    rowReductions.push_back(RowReduction(builder_, reduce));
  }
  tile::ConvertOp conversion = findConversion(op, reductions);
  if (conversion && pairProductOf(conversion.getResult())) {
    result.element = builder_.getI16Type();
    result = allocate(result);
  }

  int64_t width = unit_.widthFor(result.columns);
  Block &body = op.getBody().front();
  DenseSet<Value> varying = findVarying(op, oneExtent);
  BlockArgument rowArgument = body.getArgument(op.getSources().size());
  BlockArgument columnArgument = body.getArgument(op.getSources().size() + 1);

  LogicalResult emitted = success();
  builder_.loop(result.rows, 1, [&](Value row) {
    // Compute what is the same along the row.
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
      emitted = failed(lowerOperation(inner)) ? failure() : emitted;
    }

    SmallVector<Value> partials;
    for (RowReduction &reduction : rowReductions)
      partials.push_back(reduction.neutral(width));
    partials =
        builder_.loop(result.columns, width, partials, [&](Value column, ValueRange carried) {
          VectorBody vectors{*this, varying, width, {}};
          Value index = builder_.multiplyAdd(row, result.columns, column);
          Value start = arith::TruncIOp::create(builder_, builder_.getI32Type(), column);
          vectors.values.map(oneExtent ? rowArgument : columnArgument,
                             builder_.add(builder_.splat(start, width), builder_.iota(width)));
          for (auto [argument, source] : llvm::zip(body.getArguments(), op.getSources()))
            if (varying.contains(argument)) {
              const TileStorage &storage = storageOf(source);
              bool isOfColumns = storage.rows == 1 && result.rows > 1;
              Value elements = loadTile(storage, isOfColumns ? column : index, width);
              if (isTruths(source.getType()))
                elements = arith::CmpIOp::create(builder_, arith::CmpIPredicate::ne, elements,
                                                 builder_.integer(elements.getType(), 0));
              vectors.values.map(argument, elements);
            }
          for (Operation &inner : body.without_terminator())
            if (inner.getNumResults() == 1 && varying.contains(inner.getResult(0)))
              emitted = failed(vectors.emit(inner)) ? failure() : emitted;
          Value value = vectors.of(cast<tile::YieldOp>(body.getTerminator()).getValues().front());
          storeTile(conversion ? converted(conversion, value, result) : value, result, index);
          SmallVector<Value> next;
          for (auto [reduction, before] : llvm::zip_equal(rowReductions, carried))
            next.push_back(reduction.combine(value, before));
          return next;
        });
    for (auto [reduce, reduction, last] : llvm::zip_equal(reductions, rowReductions, partials))
      storeTile(reduction.fold(last), reduced_[reduce], row);
  });
  tiles_[op.getResult()] = result;
  if (conversion) {
    tiles_[conversion.getResult()] = result;
    converted_.insert(conversion);
  }
  return emitted;
}

Value KernelLowering::converted(tile::ConvertOp op, Value value, const TileStorage &storage) {
  Type element = cast<tile::TileType>(op.getResult().getType()).getElementType();
  if (element.isF32()) // a value that was rounded before is exact in f32
    return value;
  Value rounded = roundTo(builder_, unit_, element, value);
  return storage.element.isF32() ? rounded : toBits(builder_, unit_, element, rounded);
}

void KernelLowering::lowerConvert(tile::ConvertOp op) {
  if (converted_.contains(op))
    return;
  TileStorage source = storageOf(op.getSource());
  TileStorage result = placeOver(op.getSource(), op, op.getResult().getType());
  if (pairProductOf(op.getResult())) {
    result.element = builder_.getI16Type();
    result = allocate(result);
  }
  tiles_[op.getResult()] = result;
  if (cast<tile::TileType>(op.getResult().getType()).getElementType().isF32())
    return copy(source, result);
  int64_t width = unit_.widthFor(result.elements());
  builder_.loop(result.elements(), width, [&](Value index) {
    storeTile(converted(op, loadTile(source, index, width), result), result, index);
  });
}

} // namespace tesela
