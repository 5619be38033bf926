//===- LoadUses.cpp - How products read what is loaded ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/LoadUses.h"

#include "pipe/Pipe.h"

using namespace mlir;

namespace tesela {

bool isReadByProduct(tile::LoadOp load) {
  return llvm::any_of(load->getUsers(), llvm::IsaPred<tile::DotOp, pipe::DotStartOp>);
}

bool isReadByRows(tile::LoadOp load) {
  return llvm::all_of(load->getUses(), [](OpOperand &use) {
    auto dot = dyn_cast<tile::DotOp>(use.getOwner());
    return (dot ? !dot.getLeftTransposed() : isa<pipe::DotStartOp>(use.getOwner())) &&
           use.getOperandNumber() == 0;
  });
}

bool isColumnsOfWorkspace(tile::LoadOp load) {
  auto type = cast<tile::TileType>(load.getType());
  tile::ViewType view = load.getView().getType();
  auto argument = dyn_cast<BlockArgument>(load.getView());
  if (!argument || view.getRank() != 3 || view.getContiguous() || !type.isSingleRow())
    return false;
  auto kernel = load->getParentOfType<tile::KernelOp>();
  return kernel.getArgumentRole(argument.getArgNumber()) == tile::Role::Workspace &&
         workspacePositions % type.getExtent(1) == 0;
}

} // namespace tesela
