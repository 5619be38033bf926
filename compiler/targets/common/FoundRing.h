//===- FoundRing.h - Where a finder keeps what it found ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_FOUNDRING_H
#define TESELA_COMPILER_TARGETS_COMMON_FOUNDRING_H

#include "targets/common/BlockFinder.h"

namespace tesela {

/// A unit attribute of a tile.found_block: it, or one behind it, was asked for before.
inline constexpr llvm::StringLiteral soughtAttr = "pipe.sought";

/// The index of a found block and whether it is partial, where it has `soughtAttr` or is the first:
/// it lies in the ring. A search is as long in code as two tests of the mask.
std::pair<mlir::Value, mlir::Value> readFound(mlir::OpBuilder &builder, mlir::Location loc,
                                              FinderTarget &target, mlir::Value number);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_FOUNDRING_H
