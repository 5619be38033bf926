//===- ViewPlace.h - Where the rows of a view lie ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A block has a position, which masks, scores and the analysis use. Where its rows lie is the
// view's affair: in a dense tensor at their positions, in a ragged one behind the other sequences',
// in a paged one where a table says.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_VIEWPLACE_H
#define TESELA_COMPILER_TARGETS_COMMON_VIEWPLACE_H

#include "tile/Tile.h"

namespace tesela {

struct ViewPlace {
  mlir::BlockArgument argument; ///< the kernel's: the tensor
  tile::RaggedOp ragged;        ///< null where the view is none
  tile::PagedOp paged;          ///< null where the view is none
};

ViewPlace placeOf(mlir::Value view);

/// Whether what `view` has behind the end of `block` must come as zeros, though there are rows in
/// memory: those of another sequence, or of none. Products add up the rows of blocks of keys.
bool endsInside(mlir::Value view, tile::BlockType block);

/// How many rows of a block lie side by side for certain, from its first one on: those of a page,
/// or what a page and a block share.
int64_t rowsTogether(mlir::Value view, tile::BlockType block);

/// Whether of so many rows those that exist are copied eight at a time, and the last ones one by
/// one.
inline bool comeInEights(int64_t rowsTogether) { return rowsTogether > 8 && rowsTogether % 8 == 0; }

/// The ops that load, store or read through `view`, an argument of a kernel, or what is made of it.
llvm::SmallVector<mlir::Operation *> accessesOf(mlir::Value view);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_VIEWPLACE_H
