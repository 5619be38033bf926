//===- TileProgram.h - The blocks that a kernel visits ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A variant inlined into the smallest kernel with a loop over blocks of keys, or over blocks of
// queries, through tile-key-ranges and tile-lower-blocks; and an evaluator of what these leave, for
// one block of one launch. So it says what a kernel's own IR does, not what the analysis meant.
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

/// The blocks of a kernel: what a tile is, and which way the loop goes.
struct TileBlocks {
  int64_t queries, keys;               ///< positions of a tile
  tile::Axis rows = tile::Axis::Query; ///< blocks of queries visit blocks of keys; or the transpose
  int64_t heads = 1;                   ///< query heads that share a block of queries (RowMap.h)
};

/// A block of keys (of queries, in the transpose) that a kernel computes.
struct VisitedBlock {
  int64_t index = 0; ///< the block begins at index times its extent
  bool partial = true;
  bool operator==(const VisitedBlock &) const = default;
};

/// Neighbouring blocks of one kind, from `first` to before `end`.
struct VisitedRun {
  int64_t first = 0, end = 0;
  bool partial = true;
  bool operator==(const VisitedRun &) const = default;
};

/// A copy shares the IR, which does not change, and is evaluated by itself: a thread takes one.
class TileProgram {
public:
  /// Fails only by a defect.
  static Result<std::unique_ptr<TileProgram>>
  create(const Variant &variant, mlir::MLIRContext &context, const TileBlocks &blocks);

  TileForm form() const { return form_; }
  /// Intervals of columns that may be kept, that may be dropped; where form() is keyRanges.
  int runs() const { return runs_; }
  int drops() const { return drops_; }
  const std::vector<LostProof> &lostProofs() const { return lostProofs_; }

  /// The blocks that the block from row `first` on visits, a query or a key, in the kernel's order.
  /// Batch and heads are those of `where`: `h` is the block's first head; a block of keys has all
  /// that share `hkv`.
  Result<std::vector<VisitedBlock>> evaluate(const Bindings &bindings, const Point &where,
                                             int32_t first);

  /// The same as runs, in ascending order: by far the faster way where the ranges are closed. They
  /// live until the next call.
  Result<llvm::ArrayRef<VisitedRun>> evaluateRuns(const Bindings &bindings, const Point &where,
                                                  int32_t first);

  /// Before a launch with many rows: bounds of captured tensors then come from tables. Of these
  /// bindings, which must neither move nor change until another call.
  void makeTables(const Bindings &bindings);

  /// The same without a list, which a launch may be too long for: how many blocks it visits, then
  /// the `number`-th of them. Bindings must live until the last block is asked for.
  Result<int64_t> begin(const Bindings &bindings, const Point &where, int32_t first);
  Result<VisitedBlock> block(int64_t number);

  /// After begin: the block of that index, where it is visited. Of a launch whose blocks are
  /// classified, begin counts none if there are more than `mostCounted` to look at; this still
  /// answers.
  Result<std::optional<VisitedBlock>> find(int64_t index);
  static constexpr int64_t mostCounted = int64_t(1) << 12;

private:
  TileProgram(const Variant &variant, const TileBlocks &blocks)
      : variant(std::make_shared<Variant>(variant)), blocks(blocks) {}
  Status lower(mlir::MLIRContext &context);

  void run(mlir::Block &block);
  void execute(mlir::Operation &op);
  void executeFor(mlir::scf::ForOp loop);
  void executeWhile(mlir::scf::WhileOp loop);
  void executeReduce(attn::ReduceOp op);
  void executeFind(tile::FindBlocksOp op);
  void executeLook(mlir::Operation &op);
  /// As TestedBoxes::Look says.
  void look(mlir::Operation *op, const Scalar *const *operands, int64_t count, Scalar *first,
            Scalar *second);
  /// Of `count` boxes, the ends of each axis one box after the other.
  void boundsOf(tile::BoundsOp op, const Scalar *const *low, const Scalar *const *high,
                int64_t count, Scalar *least, Scalar *largest);
  void hasElement(tile::HasElementOp op, const Scalar *const *operands, int64_t count,
                  Scalar *result);
  /// By looking at each element.
  void lookAt(tile::BoundsOp op, const Scalar *const *low, const Scalar *const *high, int64_t box,
              Scalar &least, Scalar &largest);
  /// The first and the last column of `count` blocks from `index` on.
  std::pair<int64_t, int64_t> columnsOf(int64_t index, int64_t count) const;
  /// Whether a block has columns on both sides of Sk, or of Sq.
  bool isBroken(int64_t index, int64_t count) const;
  /// What a test says of `count` blocks from `index` on: may a pair be kept, may one be dropped.
  std::pair<bool, bool> test(mlir::Region &region, int64_t index, int64_t count);
  std::optional<VisitedBlock> classify(int64_t index);
  void listFound();
  Status listAllFound();
  void beginBoxes(const BoxTest &test, TestedBoxes &boxes);
  void listClosedRuns();
  Scalar valueOf(mlir::Operation &op);
  Scalar read(tile::ReadOp op);
  /// An element of a kernel's argument, widened as tile.read widens.
  Scalar elementAt(mlir::Value view, llvm::ArrayRef<int64_t> index);
  int64_t integer(mlir::Value value) { return values.lookup(value).integer; }
  /// Gives `to` the values that `from` have.
  void assign(mlir::ValueRange to, mlir::ValueRange from);
  /// What no case evaluates, as an error.
  Status finished() const;

  const std::shared_ptr<const Variant> variant;
  const TileBlocks blocks;
  std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> module;
  tile::KernelOp kernel;
  mlir::scf::ForOp loop; ///< over the blocks of columns
  tile::MaskOp mask;     ///< in it
  tile::BlockOp columns; ///< in it
  TileForm form_ = TileForm::everyTile;
  int runs_ = 0, drops_ = 0;
  std::vector<LostProof> lostProofs_;
  llvm::SmallVector<mlir::Value> runEnds, dropEnds;     ///< columns; where the runs are closed
  tile::FindBlocksOp finding;                           ///< null: the runs are closed
  std::shared_ptr<const BoxTest> testOfOne, testOfMany; ///< of `finding`
  int64_t firstCandidate = 0, endCandidate = 0;
  std::vector<VisitedBlock> found;
  std::vector<VisitedRun> runsOfRow;
  std::optional<TestedBoxes> testedBlocks, testedGroups; ///< of these bindings and heads

  const Bindings *bindings = nullptr;
  Point place;
  int32_t firstRow = 0;
  std::string unknown; ///< an operation that no case evaluates
  llvm::DenseMap<mlir::Value, Scalar> values;
  /// A captured tensor, and its tables where makeTables made them.
  struct Capture {
    const CaptureView *view = nullptr;
    const CaptureBounds *bounds = nullptr;
  };
  llvm::DenseMap<mlir::Value, Capture> captures;
  struct Tables {
    const Bindings *bindings;
    std::vector<std::unique_ptr<CaptureBounds>> ofParameters; ///< null of scalars
  };
  std::shared_ptr<const Tables> tables;
  bool hasTables() const { return tables && tables->bindings == bindings; }
};

} // namespace tesela

#endif // TESELA_COMPILER_VISITS_TILEPROGRAM_H
