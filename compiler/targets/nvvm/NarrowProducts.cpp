//===- NarrowProducts.cpp - Right operands of 8 bits ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/NarrowProducts.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tesela::nvvm {

/// The tile of 8-bit elements in shared memory from which `value` is converted; null if there is
/// none.
static Value narrowSource(Value value) {
  auto convert = value.getDefiningOp<tile::ConvertOp>();
  if (!convert)
    return Value();
  auto source = cast<tile::TileType>(convert.getSource().getType());
  bool isNarrow = isa<Float8E4M3FNType>(source.getElementType()) &&
                  isa_and_nonnull<pipe::SharedAttr>(source.getEncoding());
  return isNarrow ? convert.getSource() : Value();
}

bool isNarrowProduct(tile::DotOp dot) {
  auto right = cast<tile::TileType>(dot.getB().getType());
  return isa_and_nonnull<pipe::SharedAttr>(right.getEncoding()) && narrowSource(dot.getB());
}

namespace {

class ProductNarrower {
public:
  explicit ProductNarrower(tile::KernelOp kernel) : kernel(kernel) {}

  LogicalResult run() {
    kernel.walk([&](tile::DotOp dot) { readNarrow(dot); });
    for (size_t index = 0; index < marked.size(); ++index) // markBeside adds to `marked`
      markBeside(marked[index]);
    for (Value value : marked)
      if (failed(orderForOthers(value)))
        return failure();
    return success();
  }

private:
  void readNarrow(tile::DotOp dot) {
    if (!narrowSource(dot.getB()) || dot.getLeftTransposed())
      return;
    MLIRContext *context = kernel.getContext();
    auto type = cast<tile::TileType>(dot.getB().getType());
    dot.getB().setType(type.withEncoding(pipe::SharedAttr::get(context)));
    if (!dot.getTransposed()) {
      marked.insert(dot.getResult());
      return;
    }
    // Read the left operand from its place in shared memory.
    auto known = dot.getA().getDefiningOp<pipe::ConvertOp>();
    Value source = known ? known.getSource() : dot.getA();
    auto left = cast<tile::TileType>(source.getType());
    OpBuilder builder(context);
    builder.setInsertionPointAfterValue(source);
    auto operand = pipe::OperandAttr::get(context, kernel.getScheduleAttr()->warps);
    auto convert =
        pipe::ConvertOp::create(builder, dot.getLoc(), left.withEncoding(operand), source);
    convert->setAttr(narrowAttr, builder.getUnitAttr());
    dot.getAMutable().assign(convert);
    if (known && known->use_empty())
      known.erase();
  }

  void mark(Value value) {
    auto type = dyn_cast<tile::TileType>(value.getType());
    if (type && type.getRank() == 2)
      marked.insert(value);
  }

  /// Marks the values that must have the same order as `value`: those through which loops carry it,
  /// and results of maps and branches in the loops.
  void markBeside(Value value) {
    auto markTied = [&](Operation *parent, unsigned index) {
      mark(parent->getResult(index));
      if (auto loop = dyn_cast<scf::ForOp>(parent)) {
        mark(loop.getRegionIterArgs()[index]);
        mark(loop.getInitArgs()[index]);
      }
      for (Region &region : parent->getRegions())
        if (!region.empty())
          mark(region.front().getTerminator()->getOperand(index));
    };
    bool leavesLoop = isa_and_nonnull<scf::ForOp>(value.getDefiningOp());
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isa<tile::MapOp>(user) && !leavesLoop)
        mark(user->getResult(0));
      else if (auto loop = dyn_cast<scf::ForOp>(user))
        markTied(loop, use.getOperandNumber() - loop.getNumControlOperands());
      else if (isa<scf::YieldOp>(user))
        markTied(user->getParentOp(), use.getOperandNumber());
    }
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      markTied(argument.getOwner()->getParentOp(), argument.getArgNumber() - 1);
      return;
    }
    Operation *op = value.getDefiningOp();
    if (isa<scf::ForOp, scf::IfOp>(op))
      markTied(op, cast<OpResult>(value).getResultNumber());
    else if (auto dot = dyn_cast<tile::DotOp>(op))
      mark(dot.getC());
    else if (isa<tile::MapOp>(op))
      for (Value operand : op->getOperands())
        mark(operand);
  }

  /// Gives ops that do not know the narrow order a copy of `value` in the usual order.
  LogicalResult orderForOthers(Value value) {
    Operation *op = value.getDefiningOp();
    bool isInOrder = isa_and_nonnull<tile::MapOp>(op) &&
                     !op->getRegion(0).front().getArguments().back().use_empty();
    if (isInOrder ||
        (op && !isa<tile::ConstantOp, tile::DotOp, tile::MapOp, scf::ForOp, scf::IfOp>(op)))
      return op->emitOpError()
             << "expected sums of a product with keys and values of 8 bits, whose "
                "columns are in an order of their own where one warp computes, "
                "to be computed without their columns; take warps = 4";
    if (isa_and_nonnull<tile::ConstantOp>(op)) // a constant is the same in any order
      return success();
    Value ordered;
    for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
      Operation *user = use.getOwner();
      bool knows = isa<scf::ForOp, scf::YieldOp, pipe::ConvertOp>(user) ||
                   (isa<tile::MapOp, tile::DotOp>(user) && marked.contains(user->getResult(0)));
      if (knows)
        continue;
      if (!ordered) {
        OpBuilder builder(kernel.getContext());
        builder.setInsertionPointAfterValue(value);
        auto convert = pipe::ConvertOp::create(builder, value.getLoc(), value.getType(), value);
        convert->setAttr(narrowAttr, builder.getUnitAttr());
        ordered = convert;
      }
      use.set(ordered);
    }
    return success();
  }

  tile::KernelOp kernel;
  llvm::SetVector<Value> marked; ///< tiles whose columns are in the order of a narrow product
};

} // namespace

LogicalResult narrowProducts(tile::KernelOp kernel) {
  tile::ScheduleAttr schedule = kernel.getScheduleAttr();
  if (schedule->consumers > 0 || schedule->warps != 1)
    return success();
  return ProductNarrower(kernel).run();
}

} // namespace tesela::nvvm
