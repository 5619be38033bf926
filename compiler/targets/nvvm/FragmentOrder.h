//===- FragmentOrder.h - How sums lie in a workspace ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A workspace [B, H, Sq, D] of f32 is written and read by the kernels of one plan alone, so this
// target chooses its order. Rows come in pieces of 64, a piece in groups of 8 columns, a group in
// 4 parts of 16 rows, one for each warp of a warpgroup:
//
//     piece (64 · D)  >  group (512)  >  warp (128)  >  lane (4)  >  2 · half + odd
//
// where the lane has row `lane / 4 + 8 · half` of the part and column `2 · (lane mod 4) + odd` of
// the group. So the accumulators of a product (PTX ISA, "Register fragments for wgmma.m64nNk16")
// go to memory in 16 bytes a thread without a bank conflict, and a tile of 64 rows is one piece of
// memory: the copy engine adds 16 KB in one operation. In row order it needs one for each row.
//
// Without roles threads add from their registers. There the two last are changed,
//
//     … >  warp (128)  >  2 · half + odd (32)  >  lane
//
// so that the 32 additions of an instruction are 128 bytes side by side. The plan's schedule says
// which it is: its kernels without products have no roles of their own, so they are marked.
//
// A workspace whose first axis is computed, as that of parts is, has its rows in order: work items
// of other rows than those that wrote it read it.
//
// The position axis of the workspace is a multiple of `workspacePositions` (LoadUses.h), so that
// the last piece is whole, too. D is a multiple of 8.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_FRAGMENTORDER_H
#define TESELA_COMPILER_TARGETS_NVVM_FRAGMENTORDER_H

#include "tile/Tile.h"

namespace tesela::nvvm {

namespace fragment_order {
inline constexpr int64_t pieceRows = 64, groupColumns = 8, partRows = 16;
inline constexpr int64_t groupElements = pieceRows * groupColumns;
inline constexpr int64_t partElements = partRows * groupColumns;
inline constexpr int64_t laneElements = 4;
inline constexpr int64_t lanes = 32;
} // namespace fragment_order

/// An attribute of kernels: a lane's four elements lie side by side in the sums of their plan,
/// which the copy engine adds to.
inline constexpr llvm::StringLiteral sumsByLaneAttr = "pipe.sums_by_lane";

/// Whether `view` is a workspace in this order.
inline bool isInFragmentOrder(mlir::Value view) {
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(view);
  auto kernel = argument ? llvm::dyn_cast<tile::KernelOp>(argument.getOwner()->getParentOp())
                         : tile::KernelOp();
  auto type = llvm::dyn_cast<tile::ViewType>(view.getType());
  return kernel && type && type.getRank() == 4 && type.getElementType().isF32() &&
         !type.getContiguous() && !llvm::isa<tile::ExtentExprAttr>(type.getExtents().front()) &&
         kernel.getArgumentRole(argument.getArgNumber()) == tile::Role::Workspace;
}

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_FRAGMENTORDER_H
