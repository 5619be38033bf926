//===- FoundRing.h - The ring of blocks that a finder found -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_FOUNDRING_H
#define TESELA_COMPILER_TARGETS_COMMON_FOUNDRING_H

#include "targets/common/BlockFinder.h"

namespace tesela {

/// A unit attribute of a tile.found_block: the kernel has asked for this block or a later one, so
/// the ring holds it. It has 64 words and a search adds at most 32: it reaches 32 blocks back.
inline constexpr llvm::StringLiteral soughtAttr = "pipe.sought";

/// A found block's index and whether it is partial. The block must be in the ring: it is the first,
/// or its op has `soughtAttr`. This takes less code than a search, which has two tests of the mask.
std::pair<mlir::Value, mlir::Value> readFound(mlir::OpBuilder &builder, mlir::Location loc,
                                              FinderTarget &target, mlir::Value number);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_FOUNDRING_H
