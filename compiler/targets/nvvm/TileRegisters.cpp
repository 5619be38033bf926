//===- TileRegisters.cpp - Registers that tiles take ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/TileRegisters.h"

#include "targets/nvvm/ColumnsInPlace.h"
#include "targets/nvvm/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace tesela::nvvm {

namespace {

int64_t registersOf(Value value);

/// Whether `value` can be computed where it is read, from values that take no registers, such as
/// the zeros that a work item's first block rescales.
bool isComputedAnew(Value value) {
  auto isFree = [](Value operand) { return registersOf(operand) == 0; };
  Operation *op = value.getDefiningOp();
  if (auto branch = dyn_cast_or_null<scf::IfOp>(op)) {
    unsigned index = cast<OpResult>(value).getResultNumber();
    return isFree(branch.thenYield().getOperand(index)) &&
           isFree(branch.elseYield().getOperand(index));
  }
  return isa_and_nonnull<tile::ConstantOp>(op) ||
         (isa_and_nonnull<tile::MapOp>(op) && op->getNumOperands() > 0 &&
          llvm::all_of(op->getOperands(), isFree));
}

/// The conversion right behind `value`'s map, if nothing else reads it: each element is converted
/// as soon as it is computed. Otherwise null.
tile::ConvertOp conversionOf(Value value) {
  auto map = value.getDefiningOp<tile::MapOp>();
  auto conversion = map ? dyn_cast_or_null<tile::ConvertOp>(map->getNextNode()) : tile::ConvertOp();
  return conversion && value.hasOneUse() && conversion.getSource() == value ? conversion
                                                                            : tile::ConvertOp();
}

/// The warps of all consumers; 0 without roles.
int64_t computingWarps(Value value) {
  constexpr int64_t warpsOfWarpgroup = 4;
  auto kernel = value.getParentRegion()->getParentOfType<tile::KernelOp>();
  tile::ScheduleAttr schedule = kernel ? kernel.getScheduleAttr() : tile::ScheduleAttr();
  return schedule ? warpsOfWarpgroup * schedule->consumers : 0;
}

/// 32-bit registers of a thread that hold `value`.
int64_t registersOf(Value value) {
  if (tile::ConvertOp conversion = conversionOf(value))
    return registersOf(conversion.getResult());
  auto type = dyn_cast<tile::TileType>(value.getType());
  if (!type || isComputedAnew(value))
    return 0;
  if (isa_and_nonnull<pipe::ColumnsAttr>(type.getEncoding()) && readInPlace(value))
    return 0;
  if (isa_and_nonnull<pipe::ColumnsAttr>(type.getEncoding()))
    return type.getExtent(1) / 4; // a lane has a quarter of the columns
  auto accumulator = dyn_cast_or_null<pipe::AccumulatorAttr>(type.getEncoding());
  auto operand = dyn_cast_or_null<pipe::OperandAttr>(type.getEncoding());
  if (!accumulator && !operand)
    return 0;
  int64_t warps = accumulator ? accumulator.getWarps() : operand.getWarps();
  // Consumers may share the columns of sums. Narrower sums are counted whole, as when the limits in
  // StartProducts.cpp were measured.
  constexpr int64_t countedWhole = 128;
  if (accumulator && type.getExtent(1) > countedWhole)
    warps = std::max(warps, computingWarps(value));
  int64_t elements = type.getExtent(0) * type.getExtent(1) / (32 * warps);
  int64_t bits = type.getElementType().getIntOrFloatBitWidth();
  if (bits == 1)
    return llvm::divideCeil(elements, 32);
  return bits >= 32 ? elements : elements / 2; // pairs
}

/// Walks blocks backwards and tracks which tiles are still needed in registers.
class Liveness {
public:
  int64_t most = 0;

  void walk(Block &block, llvm::DenseSet<Value> live) {
    note(live);
    for (Operation &op : llvm::reverse(block)) {
      for (Value result : op.getResults())
        live.erase(result);
      if (isa<tile::MapOp, tile::ReduceOp>(op)) { // their bodies compute single elements
        addRead(op, live);
        note(live);
        continue;
      }
      llvm::DenseSet<Value> around = live;
      addUsedAbove(op, live);
      if (isa<scf::ForOp, scf::WhileOp>(op)) // the next iteration also needs what this one reads
        around = live;
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          walk(inner, around);
      addAll(op.getOperands(), live);
      if (auto wait = dyn_cast<pipe::DotWaitOp>(op))
        if (auto start = wait.getSource().getDefiningOp<pipe::DotStartOp>())
          addAll(start.getA(), live);
      note(live);
    }
  }

private:
  /// A source that a map does not read takes no registers.
  static void addRead(Operation &op, llvm::DenseSet<Value> &live) {
    auto map = dyn_cast<tile::MapOp>(op);
    for (auto [index, operand] : llvm::enumerate(op.getOperands()))
      if (!map || !map->getRegion(0).front().getArgument(index).use_empty())
        addAll(operand, live);
  }
  static void addAll(ValueRange values, llvm::DenseSet<Value> &live) {
    for (Value value : values)
      if (registersOf(value) > 0)
        live.insert(value);
  }
  static void addUsedAbove(Operation &op, llvm::DenseSet<Value> &live) {
    for (Region &region : op.getRegions())
      mlir::visitUsedValuesDefinedAbove(region, [&](OpOperand *use) { addAll(use->get(), live); });
  }

  void note(const llvm::DenseSet<Value> &live) {
    int64_t sum = 0;
    for (Value value : live)
      sum += registersOf(value);
    most = std::max(most, sum);
  }
};

} // namespace

int64_t tileRegisters(Block &block) {
  Liveness liveness;
  liveness.walk(block, {});
  return liveness.most;
}

} // namespace tesela::nvvm
