//===- DecomposeSoftmax.h - Softmax as maps and reductions ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Softmax over blocks keeps for each row a reference m, the sum l = Σ 2^(c·s - c·m) and
// O = Σ 2^(c·s - c·m) v. Any m gives the same O / l, if nothing overflows and the largest terms do
// not vanish. So the schedule chooses how closely m follows the row's maximum:
//
//   follow     m is the maximum so far. Every block rescales l and O by α = 2^(c·m - c·m').
//   lazy       m changes only if a maximum exceeds it by 2^8. Usually the threads of a row need no
//              exchange and no rescaling.
//   recompute  The first block is as in `follow`. Later blocks take exponentials against m without
//              computing a maximum. If their sum exceeds 2^60 (2^15 if P is f16), the block's
//              scores are computed again and m follows. A row that has kept nothing so far has
//              m = -inf, and its exponentials are +inf or NaN, so its first kept block is computed
//              again, too. If blocks are found one by one, many rows may keep nothing in the first
//              blocks. Then a warp with such rows computes their maxima in each partial block;
//              their l and O are 0, so nothing is rescaled. In closed runs this costs more than it
//              saves (docs/log/2026-11-21-forward-sm90.md).
//
// In all three, a score of +inf or NaN makes its row NaN, and a score of -inf is dropped.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_DECOMPOSESOFTMAX_H
#define TESELA_COMPILER_TRANSFORMS_DECOMPOSESOFTMAX_H

#include "tile/Tile.h"

#include "llvm/ADT/DenseMap.h"

namespace tesela {

class TileEmitter;

/// Decomposes the ops of one kernel, in their order. The caller erases the ops.
class SoftmaxDecomposition {
public:
  /// `hasFoundBlocks`: the blocks of the loop come from tile.find_blocks.
  explicit SoftmaxDecomposition(bool hasFoundBlocks) : hasFoundBlocks(hasFoundBlocks) {}

  void decompose(tile::SoftmaxStepOp op);
  void decompose(tile::RescaleOp op);
  void decompose(tile::FinishOp op);

private:
  /// The results of a step. `changed` (i1): whether any α may differ from 1; null if always.
  struct Step {
    mlir::Value p, m, l, alpha, changed;
  };
  static Step follow(TileEmitter &emit, tile::SoftmaxStepOp op, mlir::Value scores);
  static Step lazy(TileEmitter &emit, tile::SoftmaxStepOp op);
  Step recompute(TileEmitter &emit, tile::SoftmaxStepOp op);
  /// Scores, and the references for their exponentials. `isPartial` (i1): whether references were
  /// searched for rows that had kept nothing; null if they never are.
  struct Scored {
    mlir::Value scores, m, isPartial;
  };
  /// The part of `recompute` for all blocks but the first.
  static Step againstReference(TileEmitter &emit, tile::SoftmaxStepOp op, Scored scored);

  bool hasFoundBlocks;
  llvm::DenseMap<mlir::Value, mlir::Value> changedBy; ///< from α to the step's `changed`
};

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_DECOMPOSESOFTMAX_H
