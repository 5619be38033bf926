//===- FoundRing.h - Where a finder keeps what it found ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_FOUNDRING_H
#define TESELA_COMPILER_TARGETS_COMMON_FOUNDRING_H

#include "targets/common/BlockFinder.h"

namespace tesela {

/// A unit attribute of a tile.found_block: this block or a later one was asked for before, so the
/// ring holds it. The ring has 64 words, and a search adds 32 at most: up to 32 blocks back.
inline constexpr llvm::StringLiteral soughtAttr = "pipe.sought";

/// The index of a found block and whether it is partial, where it has `soughtAttr` or is the first:
/// it lies in the ring. To read it takes less code than a search, which tests the mask twice.
std::pair<mlir::Value, mlir::Value> readFound(mlir::OpBuilder &builder, mlir::Location loc,
                                              FinderTarget &target, mlir::Value number);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_FOUNDRING_H
