//===- ViewPlace.h - Where the rows of a view lie ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A block has a position, which masks, scores and the analysis use. The view decides where its rows
// lie in memory (their place): a dense tensor has them at their positions, a ragged one behind
// other sequences, and for a paged one a table tells the page.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_VIEWPLACE_H
#define TESELA_COMPILER_TARGETS_COMMON_VIEWPLACE_H

#include "tile/Tile.h"

namespace tesela {

struct ViewPlace {
  mlir::BlockArgument argument; ///< the tensor, an argument of the kernel
  tile::RaggedOp ragged;        ///< null if the view is not ragged
  tile::PagedOp paged;          ///< null if the view is not paged
};

ViewPlace placeOf(mlir::Value view);

/// Whether rows behind the end of `block` must be loaded as zeros although memory has rows there,
/// of another sequence or of none. That matters for blocks of keys, over whose rows products sum.
bool endsInside(mlir::Value view, tile::BlockType block);

/// How many rows of a block, from its first one on, are certainly adjacent in memory: for pages the
/// greatest number that divides a page and the block.
int64_t rowsTogether(mlir::Value view, tile::BlockType block);

/// Whether rows that lie together in this number are copied eight at a time where not all of them
/// exist, and the last ones one by one.
inline bool comeInEights(int64_t rowsTogether) { return rowsTogether > 8 && rowsTogether % 8 == 0; }

/// The ops that load, store or read through `view`, a kernel's argument, or a view made from it.
llvm::SmallVector<mlir::Operation *> accessesOf(mlir::Value view);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_VIEWPLACE_H
