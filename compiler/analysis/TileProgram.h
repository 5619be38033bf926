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
#ifndef TESELA_COMPILER_ANALYSIS_TILEPROGRAM_H
#define TESELA_COMPILER_ANALYSIS_TILEPROGRAM_H

#include "frontend/Interpreter.h"
#include "tesela/TileMap.h"
#include "tile/Tile.h"

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
      : variant(variant), blocks(blocks) {}
  Status lower(mlir::MLIRContext &context);

  /// A value of the IR. Integers are kept sign-extended, whatever their width.
  union Scalar {
    int64_t integer;
    float number;
  };
  void run(mlir::Block &block);
  void execute(mlir::Operation &op);
  void executeFor(mlir::scf::ForOp loop);
  void executeWhile(mlir::scf::WhileOp loop);
  void executeReduce(attn::ReduceOp op);
  void executeFind(tile::FindBlocksOp op);
  void executeBounds(tile::BoundsOp op);
  /// What a test says of `count` blocks from `index` on: may a pair be kept, may one be dropped.
  std::pair<bool, bool> test(mlir::Region &region, int64_t index, int64_t count);
  std::optional<VisitedBlock> classify(int64_t index);
  void listFound();
  Scalar valueOf(mlir::Operation &op);
  Scalar read(tile::ReadOp op);
  /// An element of a kernel's argument, widened as tile.read widens.
  Scalar elementAt(mlir::Value view, llvm::ArrayRef<int64_t> index);
  int64_t integer(mlir::Value value) { return values.lookup(value).integer; }
  /// Gives `to` the values that `from` have.
  void assign(mlir::ValueRange to, mlir::ValueRange from);
  /// What no case evaluates, as an error.
  Status finished() const;

  const Variant variant;
  const TileBlocks blocks;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  tile::KernelOp kernel;
  mlir::scf::ForOp loop;   ///< over the blocks of columns
  tile::MaskOp mask;       ///< in it
  tile::BlockAtOp columns; ///< in it
  TileForm form_ = TileForm::everyTile;
  int runs_ = 0, drops_ = 0;
  std::vector<LostProof> lostProofs_;
  tile::FindBlocksOp finding; ///< null: the runs are closed
  int64_t firstCandidate = 0, endCandidate = 0;
  std::vector<VisitedBlock> found;

  const Bindings *bindings = nullptr;
  Point place;
  int32_t firstRow = 0;
  std::string unknown; ///< an operation that no case evaluates
  llvm::DenseMap<mlir::Value, Scalar> values;
  llvm::DenseMap<mlir::Value, const CaptureView *> captures;
};

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_TILEPROGRAM_H
