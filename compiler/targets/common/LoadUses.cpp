//===- LoadUses.cpp - How products read loaded tiles ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/LoadUses.h"

#include "pipe/Pipe.h"
#include "tile/ColumnOps.h"

using namespace mlir;

namespace tesela {

/// Whether `use` is an operand that a product reads from shared memory.
static bool isSharedOperand(OpOperand &use) {
  if (isa<pipe::DotStartOp>(use.getOwner()))
    return use.getOperandNumber() == 1;
  auto dot = dyn_cast<tile::DotOp>(use.getOwner());
  return dot &&
         (use.getOperandNumber() == 1 || (use.getOperandNumber() == 0 && dot.getLeftTransposed()));
}

bool isWidened(tile::LoadOp load) {
  return isa<Float8E4M3FNType>(cast<tile::TileType>(load.getType()).getElementType()) &&
         !load->use_empty() && llvm::all_of(load->getUsers(), [](Operation *user) {
           return isa<pipe::WriteOp>(user) || // it widens the tile already
                  (isa<tile::ConvertOp>(user) && llvm::all_of(user->getUses(), isSharedOperand));
         });
}

bool isReadByProduct(tile::LoadOp load) {
  return isWidened(load) ||
         llvm::any_of(load->getUsers(), llvm::IsaPred<tile::DotOp, pipe::DotStartOp>);
}

bool isReadByRows(tile::LoadOp load) {
  return llvm::all_of(load->getUses(), [](OpOperand &use) {
    auto dot = dyn_cast<tile::DotOp>(use.getOwner());
    return (dot ? !dot.getLeftTransposed() : isa<pipe::DotStartOp>(use.getOwner())) &&
           use.getOperandNumber() == 0;
  });
}

tile::LoadOp broughtBy(tile::LoadOp load) {
  auto columns = load.getView().getDefiningOp<tile::FirstColumnsOp>();
  if (!columns || load.getColumns())
    return {};
  auto extentOf = [](tile::LoadOp each) {
    return cast<tile::TileType>(each.getType()).getExtent(1);
  };
  for (Operation *user : columns.getView().getUsers()) {
    auto other = dyn_cast<tile::LoadOp>(user);
    if (other && other->getBlock() == load->getBlock() && other->isBeforeInBlock(load) &&
        other.getBlock() == load.getBlock() && !other.getColumns() &&
        extentOf(load) <= extentOf(other))
      return other;
  }
  return {};
}

int64_t partsOf(tile::LoadOp load, int64_t consumers) {
  constexpr int64_t rowsOfWarpgroup = 64;
  int64_t rows = cast<tile::TileType>(load.getType()).getExtent(0);
  return isReadByRows(load) && rows % (rowsOfWarpgroup * consumers) == 0 ? consumers : 1;
}

bool hasWholeBlocks(TypedValue<tile::ViewType> view, int64_t rows) {
  tile::ViewType type = view.getType();
  auto argument = dyn_cast<BlockArgument>(view);
  if (!argument || type.getRank() != 3 || type.getContiguous() ||
      isa<tile::ExtentExprAttr>(type.getExtents().front()))
    return false;
  auto kernel = cast<tile::KernelOp>(argument.getOwner()->getParentOp());
  return kernel.getArgumentRole(argument.getArgNumber()) == tile::Role::Workspace &&
         workspacePositions % rows == 0;
}

bool isColumnsOfWorkspace(tile::LoadOp load) {
  auto type = cast<tile::TileType>(load.getType());
  return type.isSingleRow() && hasWholeBlocks(load.getView(), type.getExtent(1));
}

} // namespace tesela
