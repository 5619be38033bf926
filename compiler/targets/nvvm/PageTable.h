//===- PageTable.h - The page of a sequence's row ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A sequence's keys and values may lie in the pages of a pool. A table in device memory says which
// page holds which rows. Here is the look-up of a row's page.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_PAGETABLE_H
#define TESELA_COMPILER_TARGETS_NVVM_PAGETABLE_H

#include "targets/common/BlockCoordinates.h"
#include "targets/common/KernelSignature.h"

namespace tesela::nvvm {

/// A sequence's page table.
struct PageTable {
  PageTable(const ViewSlots &table, llvm::ArrayRef<mlir::Value> slots, mlir::Value batch,
            mlir::Value rows)
      : data(slots[table.data]), lineStride(slots[table.strides[0]]),
        pageStride(slots[table.strides[1]]), batch(batch), rows(rows) {}

  mlir::Value data, lineStride, pageStride; ///< address and strides of the table
  mlir::Value batch, rows;                  ///< the sequence's line in the table; rows of a page
};

/// The page of the block's first row, as the table names it, and the row within that page. If the
/// block's first row does not exist, the last row that exists is looked up.
std::pair<mlir::Value, mlir::Value> lookUpPage(mlir::OpBuilder &builder, mlir::Location loc,
                                               const PageTable &table,
                                               const BlockCoordinates &block);

/// Whether the page of the block's first row is one of the pool's `pages` pages. A store to a page
/// outside of the pool must be dropped: it must not go to another page.
mlir::Value isInPool(mlir::OpBuilder &builder, mlir::Location loc, const PageTable &table,
                     mlir::Value pages, const BlockCoordinates &block);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_PAGETABLE_H
