//===- BlockCoordinates.h - Blocks as five numbers --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// How targets compute the ops that make blocks: in the same way on every target, with arith ops on
// i32.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_BLOCKCOORDINATES_H
#define TESELA_COMPILER_TARGETS_COMMON_BLOCKCOORDINATES_H

#include "tile/Tile.h"

#include "mlir/IR/Builders.h"

namespace tesela {

/// The values to which a !tile.block is lowered, each an i32.
struct BlockCoordinates {
  mlir::Value batch, head, first;
  mlir::Value limit = {}; ///< where the positions of the block's axis end: Sq or Sk
  mlir::Value other = {}; ///< where those of the other axis end
};

/// The launch's extents, each an i32.
struct ExtentValues {
  mlir::Value B, H, Hkv, Sq, Sk;
};

/// ceil(a / b) of two i32, both at least 1, written so that it cannot overflow as a + b - 1 could.
/// A launch that has a work item has heads, queries and keys.
mlir::Value emitCeilDivide(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value a,
                           mlir::Value b);

/// tile.work_items: ceil(Sq / positions) · B · H; if a block has several heads, with
/// Hkv · ceil(H / Hkv / heads) instead of H. For blocks of keys: ceil(Sk / rows) · B · Hkv.
mlir::Value emitWorkItems(mlir::OpBuilder &builder, mlir::Location loc, const ExtentValues &extents,
                          tile::BlockType block);

/// tile.more_slots: ceil(workers / work items of one batch).
mlir::Value emitMoreSlots(mlir::OpBuilder &builder, mlir::Location loc, const ExtentValues &extents,
                          tile::BlockType block, int64_t workers);

/// tile.head_parts.
mlir::Value emitHeadParts(mlir::OpBuilder &builder, mlir::Location loc, const ExtentValues &extents,
                          tile::BlockType keys, int64_t workers);

/// The extents of a launch in which each of `parts` parts of the query heads has a key/value head
/// of its own.
ExtentValues emitDealt(mlir::OpBuilder &builder, mlir::Location loc, const ExtentValues &extents,
                       mlir::Value parts);

/// tile.work. Let G be the query heads of a group (those of `groupKeys` / Sk key/value heads, at
/// least one), with heads numbered batch · H + head. Then item = group · G · blocks + (blocks - 1 -
/// row block) · G' + head in the group, where G' <= G is the number of heads in this group (the
/// last one may have fewer). If a block has several heads, the heads of a key/value head are
/// counted in packs of that many; the last pack may reach beyond them. For blocks of keys: the same
/// with key/value heads and `groupKeys` / Sq in a group. `order` says which blocks come first.
BlockCoordinates emitWork(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value item,
                          const ExtentValues &extents, tile::BlockType block, int64_t groupKeys,
                          tile::ItemOrder order = tile::ItemOrder::FirstKeysFirst);

/// `tile.work dealt to workers`, and tile.work_part.
std::pair<BlockCoordinates, mlir::Value> emitDealtWork(mlir::OpBuilder &builder, mlir::Location loc,
                                                       mlir::Value item,
                                                       const ExtentValues &extents,
                                                       tile::BlockType keys, int64_t groupKeys,
                                                       int64_t workers, tile::ItemOrder order);

/// Whether the first keys of key/value head `head`, counted through all batches, come first.
mlir::Value emitFirstKeysFirst(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value head,
                               const ExtentValues &extents, int64_t groupKeys,
                               tile::ItemOrder order);

/// The head and the position of a row of a block of queries, and whether such a row exists (i1).
struct RowCoordinates {
  mlir::Value head, position, exists;
};
RowCoordinates emitRow(mlir::OpBuilder &builder, mlir::Location loc, const BlockCoordinates &block,
                       mlir::Value row, int64_t heads, const ExtentValues &extents);

/// The key/value head of query head `head`: head / (H / Hkv).
mlir::Value emitKvHead(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value head,
                       const ExtentValues &extents);

/// How a lowering looks up the operands of tile.block.
struct BlockOperands {
  llvm::function_ref<mlir::Value(mlir::Value)> valueOf;
  llvm::function_ref<BlockCoordinates(mlir::Value)> blockOf;
  llvm::function_ref<mlir::Value(mlir::Value)> kvHeadOf; ///< of a block of queries
};
/// tile.block.
BlockCoordinates emitBlock(mlir::OpBuilder &builder, mlir::Location loc, tile::BlockOp op,
                           const ExtentValues &extents, const BlockOperands &operands);

/// tile.sequence: `rows` in a sequence of `queries` queries, of which the first is at position
/// `from`, and of `keys` keys.
BlockCoordinates emitSequence(mlir::OpBuilder &builder, mlir::Location loc,
                              const BlockCoordinates &rows, mlir::Value from, mlir::Value queries,
                              mlir::Value keys);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_BLOCKCOORDINATES_H
