//===- Additions.h - Adding to elements of views ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_ADDITIONS_H
#define TESELA_COMPILER_TARGETS_COMMON_ADDITIONS_H

#include "targets/common/KernelSignature.h"

namespace tesela {

/// Where kernels write of the elements of one view.
struct Addressing {
  mlir::ValueRange slots; ///< the values of all of the kernel's slots
  const ViewSlots &view;
  /// LLVM's scope of the threads that add at the same time.
  llvm::StringRef scope;
};

/// tile.collect and tile.deposit of one number, `value`, at `indices`; where `adds` holds.
void emitAddition(mlir::OpBuilder &builder, mlir::Location loc, mlir::Operation *op,
                  mlir::Value value, mlir::ValueRange indices, mlir::Value adds,
                  const Addressing &at);

/// Where the exact sum of an element begins, as an i64; 0 where it has none, for an extent is 0.
mlir::Value emitSumAddress(mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange indices,
                           const Addressing &at);

/// tile.put of `value`, which has the type that the view's elements are stored as.
void emitPut(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
             mlir::ValueRange indices, const Addressing &at);

/// tile.exact_sum at `indices`.
mlir::Value emitExactSumAt(mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange indices,
                           const Addressing &at);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_ADDITIONS_H
