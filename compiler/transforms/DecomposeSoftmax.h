//===- DecomposeSoftmax.h - Softmax as maps and reductions ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Softmax over blocks keeps for each row a reference m, the sum l = Σ 2^(c·s - c·m) and
// O = Σ 2^(c·s - c·m) v. Any m gives the same O / l as long as nothing overflows and something
// is left of the largest terms, so the schedule chooses how closely m follows the row's maximum:
//
//   follow     m is the maximum so far. Every block rescales l and O by α = 2^(c·m - c·m').
//   lazy       m stays until a maximum exceeds it by 2^8: the common path has no exchange between
//              the threads of a row and no rescaling.
//   recompute  the first block as `follow`. After it, exponentials are taken against m at once,
//              without any maximum; only where their sum is not at most 2^60 (2^15 where P is f16)
//              the block's scores are computed again and m follows. A row that has kept nothing so
//              far has m = -inf, whose exponentials are +inf or NaN, so its first kept block comes
//              there too. Where blocks are found one by one, many rows may keep nothing of the first
//              ones: there a warp with such rows looks for their maxima in each partial block.
//              Their l and O are 0, so nothing is rescaled. In closed runs this costs more than it
//              saves (docs/performance.md).
//
// +inf and NaN scores make a row NaN in all three; -inf is a dropped score.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_DECOMPOSESOFTMAX_H
#define TESELA_COMPILER_TRANSFORMS_DECOMPOSESOFTMAX_H

#include "tile/Tile.h"

#include "llvm/ADT/DenseMap.h"

namespace tesela {

class TileEmitter;

/// Decomposes the ops of one kernel, in their order; the caller erases them.
class SoftmaxDecomposition {
public:
  /// `hasFoundBlocks`: the loop's blocks are found one by one.
  explicit SoftmaxDecomposition(bool hasFoundBlocks) : hasFoundBlocks(hasFoundBlocks) {}

  void decompose(tile::SoftmaxStepOp op);
  void decompose(tile::RescaleOp op);
  void decompose(tile::FinishOp op);

private:
  /// What a step gives; `changed` (i1): whether any α is not 1, null where it always may be.
  struct Step {
    mlir::Value p, m, l, alpha, changed;
  };
  static Step follow(TileEmitter &emit, tile::SoftmaxStepOp op, mlir::Value scores);
  static Step lazy(TileEmitter &emit, tile::SoftmaxStepOp op);
  Step recompute(TileEmitter &emit, tile::SoftmaxStepOp op);
  /// Scores with the references that their exponentials take. `isPartial` (i1): whether rows that
  /// had kept nothing were looked at; null where that is never so.
  struct Scored {
    mlir::Value scores, m, isPartial;
  };
  /// The part of `recompute` behind the first block.
  static Step againstReference(TileEmitter &emit, tile::SoftmaxStepOp op, Scored scored);

  bool hasFoundBlocks;
  llvm::DenseMap<mlir::Value, mlir::Value> changedBy; ///< α to `changed`
};

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_DECOMPOSESOFTMAX_H
