//===- ProductShares.h - Which warpgroup computes what -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_PRODUCTSHARES_H
#define TESELA_COMPILER_TARGETS_NVVM_PRODUCTSHARES_H

#include "targets/nvvm/FragmentOrder.h"

#include "pipe/Pipe.h"

namespace tesela::nvvm {

/// Into how many parts the warpgroups cut the columns of a product. Usually 1: each warpgroup
/// computes its own rows, 64 or a multiple of them. A product of 64 rows, fewer than the
/// warpgroups of `schedule` need, is cut by columns: each warpgroup computes all rows of its own
/// columns. The encoding tells the two apart: #pipe.accumulator has the warps that share the rows.
inline int64_t columnParts(tile::TileType product, tile::ScheduleAttr schedule) {
  bool hasRowsForAll = product.getExtent(0) % (16 * schedule->warps) == 0;
  return hasRowsForAll || schedule->consumers == 0 ? 1 : schedule->consumers;
}

/// Whether the columns of `dot` can be cut: panels of 64 columns for each warpgroup, and a result
/// that is only added to a workspace. Whatever computes with its elements would have to know where
/// they are.
inline bool canCutColumns(tile::DotOp dot, int64_t parts) {
  auto product = llvm::cast<tile::TileType>(dot.getType());
  bool isConstantStart = bool(dot.getC().getDefiningOp<tile::ConstantOp>());
  return product.getExtent(0) == 64 && product.getExtent(1) % (64 * parts) == 0 &&
         !dot.getTransposed() && isConstantStart &&
         llvm::all_of(dot->getUsers(), [](mlir::Operation *user) {
           auto addition = llvm::dyn_cast<tile::AccumulateOp>(user);
           return addition ? isInFragmentOrder(addition.getView()) : llvm::isa<pipe::WriteOp>(user);
         });
}

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_PRODUCTSHARES_H
