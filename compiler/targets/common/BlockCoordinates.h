//===- BlockCoordinates.h - Blocks as five numbers --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// How the ops that make blocks are computed, the same on every target, with
// arith ops on i32.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_BLOCKCOORDINATES_H
#define TESELA_COMPILER_TARGETS_COMMON_BLOCKCOORDINATES_H

#include "tile/Tile.h"

#include "mlir/IR/Builders.h"

namespace tesela {

/// What a !tile.block lowers to, each an i32.
struct BlockCoordinates {
  mlir::Value batch, head, first;
  mlir::Value limit = {}; ///< where the block's positions end: Sq, or Sk
  mlir::Value other = {}; ///< where those of the other axis end
};

/// The launch's extents, each an i32.
struct ExtentValues {
  mlir::Value B, H, Hkv, Sq, Sk;
};

/// tile.work_items: ceil(Sq / positions) · B · H; where a block has several heads, with
/// Hkv · ceil(H / Hkv / heads) in the place of H. Of keys: ceil(Sk / rows) · B · Hkv.
mlir::Value emitWorkItems(mlir::OpBuilder &builder, mlir::Location loc, const ExtentValues &extents,
                          tile::BlockType block);

/// tile.more_slots: ceil(workers / work items of one batch).
mlir::Value emitMoreSlots(mlir::OpBuilder &builder, mlir::Location loc, const ExtentValues &extents,
                          tile::BlockType block, int64_t workers);

/// tile.work. With G the query heads of a group (`groupKeys` / Sk key/value heads, at least one)
/// and heads numbered batch · H + head: item = group · G · blocks + (blocks - 1 - row block) · G' +
/// head in the group, where the last group has G' <= G heads. Where a block has several heads, a
/// key/value head's are counted in packs of as many, the last of which may reach beyond them.
/// Of keys: the same with key/value heads, of which a group has `groupKeys` / (Sq · H / Hkv), and
/// the first block first.
BlockCoordinates emitWork(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value item,
                          const ExtentValues &extents, tile::BlockType block, int64_t groupKeys);

/// The head and the position of a row of a block of queries, and whether there is such a row (i1).
struct RowCoordinates {
  mlir::Value head, position, exists;
};
RowCoordinates emitRow(mlir::OpBuilder &builder, mlir::Location loc, const BlockCoordinates &block,
                       mlir::Value row, int64_t heads, const ExtentValues &extents);

/// The key/value head of query head `head`: head / (H / Hkv).
mlir::Value emitKvHead(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value head,
                       const ExtentValues &extents);

/// What a lowering knows of the operands of tile.block.
struct BlockOperands {
  llvm::function_ref<mlir::Value(mlir::Value)> valueOf;
  llvm::function_ref<BlockCoordinates(mlir::Value)> blockOf;
  llvm::function_ref<mlir::Value(mlir::Value)> kvHeadOf; ///< of a block of queries
};
/// tile.block.
BlockCoordinates emitBlock(mlir::OpBuilder &builder, mlir::Location loc, tile::BlockOp op,
                           const ExtentValues &extents, const BlockOperands &operands);

/// tile.sequence: `rows` in a sequence of `queries` queries, the first at position `from`, and of
/// `keys` keys.
BlockCoordinates emitSequence(mlir::OpBuilder &builder, mlir::Location loc,
                              const BlockCoordinates &rows, mlir::Value from, mlir::Value queries,
                              mlir::Value keys);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_BLOCKCOORDINATES_H
