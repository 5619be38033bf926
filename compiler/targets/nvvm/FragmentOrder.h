//===- FragmentOrder.h - The order of sums in a workspace -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Only the kernels of one plan write and read a workspace [B, heads, positions, D] of f32, so this
// target chooses its order. Rows form pieces of 64. A piece has groups of 8 columns, and a group
// has 4 parts of 16 rows, one for each warp of a warpgroup:
//
//     piece (64 · D)  >  group (512)  >  warp (128)  >  lane (4)  >  2 · half + odd
//
// where the lane has row `lane / 4 + 8 · half` of the part and column `2 · (lane mod 4) + odd` of
// the group. So a thread stores the accumulators of a product (PTX ISA, "Register fragments for
// wgmma.m64nNk16") in 16-byte pieces without a bank conflict. A tile of 64 rows is contiguous: the
// copy engine adds 16 KB in one operation. In row order it would need one operation for each row.
//
// Without roles, threads add from their registers. Then the last two levels are exchanged,
//
//     … >  warp (128)  >  2 · half + odd (32)  >  lane
//
// so that the 32 additions of an instruction go to 128 adjacent bytes. The plan's schedule decides
// the order. Kernels without products have no roles of their own, so an attribute tells them.
//
// A workspace whose first axis is computed, such as one of parts, keeps its rows in order, because
// work items of other rows than those that wrote it read it.
//
// The position axis of the workspace is a multiple of `workspacePositions` (LoadUses.h), so the
// last piece is complete, too. D is a multiple of 8.
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

/// An attribute of kernels: in the sums of their plan a lane's four elements are adjacent, because
/// the copy engine adds to them.
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
