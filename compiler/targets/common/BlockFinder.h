//===- BlockFinder.h - tile.find_blocks and tile.found_block ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A finder has 32 lanes: those of a warp, or the iterations of a loop on the host. In one step each
// lane tests 32 blocks at once (the region `many`). If such a group of 32 blocks may hold a block
// to visit, the lanes then test it, one block for each lane (the region `one`). The blocks that
// they find go to a ring in the finder's memory. So 1024 empty blocks cost one step, and the memory
// does not grow with the launch.
//
// The count needs a pass over all groups, which keeps the first blocks in the ring. If there are
// more than its 64 places, the rest is searched again when it is asked for. Then the ring has the
// 32 blocks of the last group and the 32 before them.
//
// If the last block must be found first, the search goes over *places*, which count the blocks from
// the last one down. The ring holds the blocks' own numbers.
//
// The finder's memory, in words of 32 bits:
//
//   0       the number of blocks found so far
//   1       a bit for each of the current 32 groups that may hold more blocks
//   2       the first block of these groups
//   3..66   the ring: 2 · index + partial
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_BLOCKFINDER_H
#define TESELA_COMPILER_TARGETS_COMMON_BLOCKFINDER_H

#include "tile/Tile.h"

namespace tesela {

/// The operations that a target provides for a finder.
class FinderTarget {
public:
  virtual ~FinderTarget() = default;
  /// Word `index` (i32) of the finder's memory.
  virtual mlir::Value load(mlir::Value index) = 0;
  virtual void store(mlir::Value word, mlir::Value index) = 0;
  /// The same, done by one lane.
  virtual void storeOnce(mlir::Value word, mlir::Value index) { store(word, index); }
  /// A barrier: after it all lanes see all stores before it, and no store after it is seen before.
  virtual void agree() {}
  /// Calls `test` (from a lane's number to two i1) for the 32 lanes; returns the results as masks.
  using Test = llvm::function_ref<std::pair<mlir::Value, mlir::Value>(mlir::Value lane)>;
  virtual std::pair<mlir::Value, mlir::Value> testLanes(Test test) = 0;
  virtual void forEachLane(llvm::function_ref<void(mlir::Value lane)> body) = 0;
  /// Copies a test's region for these keys (i32) and returns what it yields.
  virtual std::pair<mlir::Value, mlir::Value> inlineTest(mlir::Region &test, mlir::Value first,
                                                         mlir::Value last) = 0;
};

class BlockFinder {
public:
  static constexpr int64_t ringWords = 64, memoryWords = 3 + ringWords;

  /// Writes the search at `builder`. `low`, `high` and `keys` (Sk; for blocks of queries Sq) are
  /// values of the target.
  BlockFinder(mlir::OpBuilder &builder, mlir::Location loc, tile::FindBlocksOp op,
              FinderTarget &target, mlir::Value low, mlir::Value high, mlir::Value keys);

  mlir::Value count() const { return count_; }
  /// Writes the search for block number `number`; returns its index and whether it is partial.
  std::pair<mlir::Value, mlir::Value> block(mlir::Location loc, FinderTarget &target,
                                            mlir::Value number);

private:
  /// The number of the block at a place.
  mlir::Value blockAt(mlir::Value place);
  /// The masks of `test` for 32 boxes of `blocks` blocks from place `first` on.
  std::pair<mlir::Value, mlir::Value> testBoxes(FinderTarget &target, mlir::Region &test,
                                                mlir::Value first, int64_t blocks);
  /// The lowest set bit of a mask, and the mask without it.
  std::pair<mlir::Value, mlir::Value> takeLowest(mlir::Value mask);
  mlir::Value groupsFrom(FinderTarget &target, mlir::Value base);
  void append(FinderTarget &target, mlir::Value group, mlir::Value keeps, mlir::Value drops,
              mlir::Value count);
  void setState(FinderTarget &target, mlir::Value found, mlir::Value groups, mlir::Value base);
  mlir::Value findAll(FinderTarget &target);
  void refill(FinderTarget &target, mlir::Value number);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  tile::FindBlocksOp op;
  int64_t rows;
  mlir::Value first, end, keys, count_;
};

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_BLOCKFINDER_H
