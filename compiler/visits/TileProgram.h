//===- TileProgram.h - The blocks that a kernel visits ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Inlines a variant into the smallest kernel with a loop over blocks of keys (or of queries), runs
// tile-key-ranges and tile-lower-blocks, and evaluates the resulting IR for one block of a launch.
// So the result is what a kernel's own IR does, and not what the analysis intends.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_VISITS_TILEPROGRAM_H
#define TESELA_COMPILER_VISITS_TILEPROGRAM_H

#include "frontend/Interpreter.h"
#include "tesela/TileMap.h"
#include "tile/Tile.h"
#include "visits/BoxTest.h"
#include "visits/CaptureBounds.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <optional>

namespace tesela {

namespace attn {
class ReduceOp;
}

/// The tile of a kernel, and the direction of its loop.
struct TileBlocks {
  int64_t queries, keys;               ///< positions of a tile
  tile::Axis rows = tile::Axis::Query; ///< Query: blocks of queries visit blocks of keys
  int64_t heads = 1;                   ///< query heads that share a block of queries (RowMap.h)
};

/// A block of columns that a kernel computes: of keys, or in the transpose of queries.
struct VisitedBlock {
  int64_t index = 0; ///< the block begins at column index · extent
  bool partial = true;
  bool operator==(const VisitedBlock &) const = default;
};

/// Consecutive blocks of one kind, from `first` to `end` - 1.
struct VisitedRun {
  int64_t first = 0, end = 0;
  bool partial = true;
  bool operator==(const VisitedRun &) const = default;
};

/// Copies share the IR, which does not change. Each thread evaluates with its own copy.
class TileProgram {
public:
  /// Fails only if there is a bug.
  static Result<std::unique_ptr<TileProgram>>
  create(const Variant &variant, mlir::MLIRContext &context, const TileBlocks &blocks);

  TileForm form() const { return form_; }
  /// The number of intervals of columns that may be kept, and dropped; if form() is keyRanges.
  int runs() const { return runs_; }
  int drops() const { return drops_; }
  const std::vector<LostProof> &lostProofs() const { return lostProofs_; }

  /// The blocks of columns that one block of rows visits, in the kernel's order. `first` is the
  /// first row of that block. `where` gives batch and heads: `h` is the block's first head; a block
  /// of keys has all heads that share `hkv`.
  Result<std::vector<VisitedBlock>> evaluate(const Bindings &bindings, const Point &where,
                                             int32_t first);

  /// The same as runs, in ascending order. Much faster if the ranges are closed. The runs are valid
  /// until the next call.
  Result<llvm::ArrayRef<VisitedRun>> evaluateRuns(const Bindings &bindings, const Point &where,
                                                  int32_t first);

  /// Call it before evaluating many rows of a launch: bounds of captured tensors then come from
  /// tables, and what does not depend on the rows is evaluated once for consecutive rows with the
  /// same batch and heads. The bindings must neither move nor change until the next call of
  /// makeTables.
  void makeTables(const Bindings &bindings);

  /// The same without a list, for launches with very many blocks: returns the number of visited
  /// blocks, and block() returns one of them. `bindings` must live until the last call of block().
  Result<int64_t> begin(const Bindings &bindings, const Point &where, int32_t first);
  Result<VisitedBlock> block(int64_t number);

  /// Call it after begin: the block with that index, or nullopt if it is not visited. If blocks are
  /// classified one by one and there are more than `mostCounted` of them, begin returns 0; find
  /// still works.
  Result<std::optional<VisitedBlock>> find(int64_t index);
  static constexpr int64_t mostCounted = int64_t(1) << 12;

private:
  TileProgram(const Variant &variant, const TileBlocks &blocks)
      : variant(std::make_shared<Variant>(variant)), blocks(blocks) {}
  Status lower(mlir::MLIRContext &context);
  void beginHead();

  void run(mlir::Block &block);
  void execute(mlir::Operation &op);
  void executeFor(mlir::scf::ForOp loop);
  void executeWhile(mlir::scf::WhileOp loop);
  void executeReduce(attn::ReduceOp op);
  void executeFind(tile::FindBlocksOp op);
  void executeLook(mlir::Operation &op);
  /// See TestedBoxes::Look.
  void look(mlir::Operation *op, const Scalar *const *operands, int64_t count, Scalar *first,
            Scalar *second);
  /// Bounds for `count` boxes. low[axis] and high[axis] have the ends of one box after the other.
  void boundsOf(tile::BoundsOp op, const Scalar *const *low, const Scalar *const *high,
                int64_t count, Scalar *least, Scalar *largest);
  void hasElement(tile::HasElementOp op, const Scalar *const *operands, int64_t count,
                  Scalar *result);
  /// Reads each element of the box.
  void lookAt(tile::BoundsOp op, const Scalar *const *low, const Scalar *const *high, int64_t box,
              Scalar &least, Scalar &largest);
  /// The first and the last column of `count` blocks, beginning with block `index`.
  std::pair<int64_t, int64_t> columnsOf(int64_t index, int64_t count) const;
  /// Whether these blocks have columns on both sides of Sk (or Sq).
  bool isBroken(int64_t index, int64_t count) const;
  /// Tests `count` blocks from `index` on: may a pair be kept, may a pair be dropped.
  std::pair<bool, bool> test(mlir::Region &region, int64_t index, int64_t count);
  std::optional<VisitedBlock> classify(int64_t index);
  void listFound();
  Status listAllFound();
  /// `isFirst`: these are the first boxes of the current bindings and heads.
  void beginBoxes(const BoxTest &test, TestedBoxes &boxes, bool isFirst);
  void listClosedRuns();
  Scalar valueOf(mlir::Operation &op);
  Scalar read(tile::ReadOp op);
  /// An element of a kernel's argument, widened as in tile.read.
  Scalar elementAt(mlir::Value view, llvm::ArrayRef<int64_t> index);
  int64_t integer(mlir::Value value) { return values.lookup(value).integer; }
  /// Sets the values of `to` to those of `from`.
  void assign(mlir::ValueRange to, mlir::ValueRange from);
  /// An error if some operation could not be evaluated.
  Status finished() const;

  const std::shared_ptr<const Variant> variant;
  const TileBlocks blocks;
  std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> module;
  tile::KernelOp kernel;
  mlir::scf::ForOp loop; ///< over the blocks of columns
  tile::MaskOp mask;     ///< inside the loop
  tile::BlockOp columns; ///< inside the loop
  TileForm form_ = TileForm::everyTile;
  int runs_ = 0, drops_ = 0;
  std::vector<LostProof> lostProofs_;
  std::vector<mlir::Operation *> ofRows;                ///< see operationsOfRows
  llvm::SmallVector<mlir::Value> runEnds, dropEnds;     ///< columns; if the runs are closed
  tile::FindBlocksOp finding;                           ///< null if the runs are closed
  std::shared_ptr<const BoxTest> testOfOne, testOfMany; ///< the tests of `finding`
  int64_t firstCandidate = 0, endCandidate = 0;
  std::vector<VisitedBlock> found;
  std::vector<VisitedRun> runsOfRow;
  std::optional<TestedBoxes> testedBlocks, testedGroups; ///< for the current bindings and heads

  const Bindings *bindings = nullptr;
  Point place;
  int32_t firstRow = 0;
  bool isEvaluated = false; ///< `values` has everything that does not depend on the rows
  std::string unknown;      ///< the first operation that could not be evaluated
  llvm::DenseMap<mlir::Value, Scalar> values;
  /// A captured tensor, and its tables if makeTables has made them.
  struct Capture {
    const CaptureView *view = nullptr;
    const CaptureBounds *bounds = nullptr;
  };
  llvm::DenseMap<mlir::Value, Capture> captures;
  struct Tables {
    const Bindings *bindings;
    std::vector<std::unique_ptr<CaptureBounds>> ofParameters; ///< null for scalars
  };
  std::shared_ptr<const Tables> tables;
  bool hasTables() const { return tables && tables->bindings == bindings; }
};

} // namespace tesela

#endif // TESELA_COMPILER_VISITS_TILEPROGRAM_H
