//===- Additions.h - Adding to elements of views ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_ADDITIONS_H
#define TESELA_COMPILER_TARGETS_COMMON_ADDITIONS_H

#include "targets/common/KernelSignature.h"

namespace tesela {

/// Where a kernel accesses the elements of a view.
struct Addressing {
  mlir::ValueRange slots; ///< the values of all of the kernel's slots
  const ViewSlots &view;
  /// LLVM's scope of the threads that add at the same time; empty on the host.
  llvm::StringRef scope;
};

/// tile.collect or tile.deposit (`op`) of one `value` at `indices`, if `adds` (i1) is true.
void emitAddition(mlir::OpBuilder &builder, mlir::Location loc, mlir::Operation *op,
                  mlir::Value value, mlir::ValueRange indices, mlir::Value adds,
                  const Addressing &at);

/// The address of an element's exact sum, as an i64; 0 if an extent is 0, and so there is no sum.
mlir::Value emitSumAddress(mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange indices,
                           const Addressing &at);

/// tile.put of `value`, whose type is the one in which the view's elements are stored.
void emitPut(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
             mlir::ValueRange indices, const Addressing &at);

/// tile.exact_sum at `indices`.
mlir::Value emitExactSumAt(mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange indices,
                           const Addressing &at);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_ADDITIONS_H
