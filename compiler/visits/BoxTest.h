//===- BoxTest.h - A test of boxes, for many of them at once ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_VISITS_BOXTEST_H
#define TESELA_COMPILER_VISITS_BOXTEST_H

#include "tile/Tile.h"
#include "visits/Lanes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace tesela {

/// A test of tile.find_blocks as steps, each of which computes one operation for all boxes. What
/// does not depend on the box is no step: who runs the test computes it once for a block of rows. A
/// step is *fixed* if nothing that it needs depends on the rows.
class BoxTest {
public:
  /// Of what a test yields: may a pair be kept, may one be dropped.
  enum Yielded { keeps, drops };
  /// `last`: what is yielded after it is never asked for. `ofRows`: the values outside of the test
  /// that depend on where the block of rows begins.
  BoxTest(mlir::Region &region, Yielded last, const llvm::DenseSet<mlir::Value> &ofRows);

  /// What does not depend on the box, in order.
  llvm::ArrayRef<mlir::Operation *> uniform() const { return uniformOps; }
  /// The first operation that no step computes; empty: there is none.
  const std::string &unknown() const { return unknownOp; }

private:
  struct Step {
    LaneFunction function = nullptr; ///< null: of `look`
    mlir::Operation *look = nullptr; ///< at captured tensors: tile.bounds, tile.has_element
    bool isFixed = false;
    int result = 0;                ///< a place; of bounds, the largest is at the next one
    int firstOperand = 0, end = 0; ///< in `operands`
  };

  std::vector<mlir::Operation *> uniformOps;
  std::string unknownOp;
  std::vector<Step> steps;
  std::vector<int> operands;                         ///< places
  std::vector<std::pair<mlir::Value, int>> constant; ///< the same for all boxes, and its place
  std::vector<int> fixedResults; ///< places of fixed steps that other steps, or the yield, read
  int places = 2;                ///< of values; 0 and 1: a box's ends
  int yields[2] = {0, 0};        ///< places

  friend class TestedBoxes;
};

/// Boxes of blocks, their test, and what it says of them.
class TestedBoxes {
public:
  /// So many boxes at once: all values of a test with a hundred steps stay in the second cache.
  static constexpr int64_t mostBoxes = 256;

  /// Boxes have `blocks` blocks of `extent` columns, the last one of `columns` fewer. `keepFixed`:
  /// what fixed steps give holds for all blocks of rows that come; boxes have one block.
  TestedBoxes(const BoxTest &test, int64_t blocks, int64_t extent, int64_t columns, bool keepFixed);

  /// Of another block of rows: `valueOf` gives what the steps use that is the same for all boxes.
  void begin(llvm::function_ref<Scalar(mlir::Value)> valueOf);
  /// The box from block `first` on; there is room.
  void add(int64_t first) { boxes.push_back(first); }
  bool isFull() const { return int64_t(boxes.size()) == mostBoxes; }

  /// Computes the results of tile.bounds or tile.has_element for `count` boxes. `operands`: those
  /// after the view; `second`: of the second result, where there is one.
  using Look = llvm::function_ref<void(mlir::Operation *op, const Scalar *const *operands,
                                       int64_t count, Scalar *first, Scalar *second)>;
  /// Tests what was added and calls `visit` for each box with what the test says of it; then there
  /// is room for others.
  void run(Look look, llvm::function_ref<void(int64_t first, bool keeps, bool drops)> visit);

private:
  Scalar *at(int place) { return values.data() + place * mostBoxes; }
  /// Gives the boxes from `firsts` on their ends, and what is the same for all.
  void setUp(llvm::ArrayRef<int64_t> firsts);
  void runSteps(int64_t count, Look look, bool fixed);
  /// Brings the results of fixed steps for `boxes` into their places.
  void loadFixed(Look look);

  const BoxTest &test;
  const int64_t blocks, extent, columns;
  const bool keepFixed;
  std::vector<Scalar> values;
  std::vector<Scalar> constants; ///< of BoxTest::constant
  int64_t filled = 0;            ///< boxes that have them in their places
  llvm::SmallVector<int64_t, mostBoxes> boxes;
  /// Of mostBoxes blocks from a multiple of it on: their fixed results; empty: not yet computed.
  std::vector<std::vector<Scalar>> fixed;
};

} // namespace tesela

#endif // TESELA_COMPILER_VISITS_BOXTEST_H
