//===- BoxTest.h - Tests many boxes at once ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_VISITS_BOXTEST_H
#define TESELA_COMPILER_VISITS_BOXTEST_H

#include "tile/Tile.h"
#include "visits/ElementFunctions.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace tesela {

/// A test of tile.find_blocks as a list of steps. Each step computes one operation for all boxes.
/// Operations that do not depend on the box are not steps: the caller computes them once for a
/// block of rows. A step is *fixed* if none of its inputs depends on the rows.
class BoxTest {
public:
  /// The results of a test: whether a pair may be kept, and whether a pair may be dropped.
  enum Yielded { keeps, drops };
  /// `last`: results after this one are not needed. `ofRows`: the values outside the test that
  /// depend on the first row of the block.
  BoxTest(mlir::Region &region, Yielded last, const llvm::DenseSet<mlir::Value> &ofRows);

  /// The operations that do not depend on the box, in order: those that do not depend on the rows
  /// either, and those that do.
  llvm::ArrayRef<mlir::Operation *> uniform() const { return uniformOps; }
  llvm::ArrayRef<mlir::Operation *> uniformOfRows() const { return uniformRowOps; }
  /// The first operation that no step can compute; empty if there is none.
  const std::string &unknown() const { return unknownOp; }

private:
  struct Step {
    ElementFunction function = nullptr; ///< null if `look` is set
    mlir::Operation *look = nullptr;    ///< reads captured tensors: tile.bounds, tile.has_element
    bool isFixed = false;
    int result = 0;                ///< a place; of tile.bounds, the largest is at the next place
    int firstOperand = 0, end = 0; ///< in `operands`
  };

  std::vector<mlir::Operation *> uniformOps, uniformRowOps;
  std::string unknownOp;
  std::vector<Step> steps;
  std::vector<int> operands;                         ///< places
  std::vector<std::pair<mlir::Value, int>> constant; ///< values that all boxes share, and places
  std::vector<int> fixedResults; ///< places of fixed steps that other steps, or the yield, read
  int places = 2;                ///< the number of values; places 0 and 1 are the ends of a box
  int yields[2] = {0, 0};        ///< the places of the results

  friend class TestedBoxes;
};

/// Tests boxes of blocks with one test.
class TestedBoxes {
public:
  /// The number of boxes at once. All values of a test with a hundred steps then fit into L2.
  static constexpr int64_t mostBoxes = 256;

  /// A box has `blocks` blocks of `extent` columns; the block that ends at `columns` may be
  /// shorter. `keepFixed`: fixed steps are computed once for all rows; boxes must have one block.
  TestedBoxes(const BoxTest &test, int64_t blocks, int64_t extent, int64_t columns, bool keepFixed);

  /// Begins another block of rows. `valueOf` gives the values that all boxes share.
  void begin(llvm::function_ref<Scalar(mlir::Value)> valueOf);
  /// Adds the box that begins with block `first`. There must be room (isFull).
  void add(int64_t first) { boxes.push_back(first); }
  bool isFull() const { return int64_t(boxes.size()) == mostBoxes; }

  /// Computes the results of tile.bounds or tile.has_element for `count` boxes. `operands` are
  /// those after the view. `second` is for the second result, if the op has one.
  using Look = llvm::function_ref<void(mlir::Operation *op, const Scalar *const *operands,
                                       int64_t count, Scalar *first, Scalar *second)>;
  /// Tests the boxes that were added, calls `visit` with the results of each, and removes all
  /// boxes.
  void run(Look look, llvm::function_ref<void(int64_t first, bool keeps, bool drops)> visit);

private:
  Scalar *at(int place) { return values.data() + place * mostBoxes; }
  /// Writes the ends of the boxes from `firsts` on, and the values that all boxes share.
  void setUp(llvm::ArrayRef<int64_t> firsts);
  void runSteps(int64_t count, Look look, bool fixed);
  /// Copies the results of fixed steps for `boxes` to their places; computes them if needed.
  void loadFixed(Look look);

  const BoxTest &test;
  const int64_t blocks, extent, columns;
  const bool keepFixed;
  std::vector<Scalar> values;
  std::vector<Scalar> constants; ///< the values of BoxTest::constant
  int64_t filled = 0;            ///< the number of boxes whose places have them
  llvm::SmallVector<int64_t, mostBoxes> boxes;
  /// The fixed results of each group of mostBoxes blocks; empty if not computed yet.
  std::vector<std::vector<Scalar>> fixed;
};

} // namespace tesela

#endif // TESELA_COMPILER_VISITS_BOXTEST_H
