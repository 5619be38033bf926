//===- MaskRegions.h - Which columns a block of rows can need ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A block's rows are queries, and the columns keys; or its rows are keys, and the columns queries:
// the transpose. With x the row and y the column, so (x, y) = (q, k) or (k, q), all that follows
// holds for both. For the rows X = [x₀, x₁] of a block, inside [0, Sq) or [0, Sk), and the columns
// Y = [0, Sk) or [0, Sq), a mask M(x, y) gets two sets of regions of X × Y:
//
//   kept      covers { (x, y) :  M(x, y) }     a tile that no such region meets is empty
//   dropped   covers { (x, y) : !M(x, y) }     a tile that no such region meets is full
//
// A region is a zone and a rest:
//
//   zone   x in [a, b],  y in [c, d],  x - y in [e, f]      (difference bounds over x and y)
//   rest   conditions that hold in the region, kept as values of the hook
//
// Bounds are i64 values, the same for all columns, computed by the kernel once for a block. A
// region without bounds or rest is everything: a sound answer to any question.
//
// How regions arise, M being brought to negation normal form on the way (so `dropped` is the same
// function of !M):
//
//   l ⋈ r            with d = l - r = a·x + c·y + u linear: d <= 0 bounds y, x or x - y; d < 0 is
//                    d + 1 <= 0, = is both ways, != is two regions. Of an offset u in an interval
//                    the looser end counts.
//   ⌊z/C⌋ ⋈ r        where r does not depend on y: ⌊z/C⌋ <= r  ⇔  z <= C·r + C - 1,
//                    ⌊z/C⌋ >= r  ⇔  z >= C·r
//   max(v,w) <= z    v <= z and w <= z; max(v,w) >= z: either; min likewise
//   (c ? v : w) ⋈ z  and c ? m : n: c and the one, or not c and the other
//   m && n           every region of the one with every region of the other: bounds intersect
//   m || n           all regions of both
//   else             one region whose rest is the condition
//
// Each step keeps the cover: intersections of covers cover the intersection, unions the union.
// Kernels wrap in i32 and this reasoning does not, so an atom's bounds count only where no step of
// its arithmetic can wrap for any column (BoxValues), which the kernel checks. More than eight
// regions are not kept apart: one side of a conjunction goes into the rest, a disjunction becomes a
// rest.
//
// For x in X a zone's columns are the interval [max(c, x₀' - f), min(d, x₁' - e)] with [x₀', x₁'] =
// X ∩ [a, b], if e <= f: exactly, since x - y takes every value between its bounds. So where no
// region has a rest, the blocks of columns that run and those that are partial follow from closed
// intervals. Else a test of a box of columns: a region meets the box if its interval does and no
// condition of its rest is false on the part of the box inside that interval (BoxValues; so a guard
// helps what it guards).
//
// A score that is -inf where c holds (`c ? -inf : x`) keeps nothing there either.
//
// What lies beyond the columns' end, Sk or Sq, is dropped by every mask: such a tile is partial. The
// loop sees that from a block's number (tile-lower-blocks). What lies beyond the rows' end is not
// stored: a tile with queries beyond Sq need not be partial for that. For a block of keys with keys
// beyond Sk, all columns are dropped here.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_MASKREGIONS_H
#define TESELA_COMPILER_ANALYSIS_MASKREGIONS_H

#include "analysis/BoxValues.h"

#include <memory>

namespace tesela {

/// Columns [low, high), as i64 values inside [0, Sk] or [0, Sq].
struct ColumnRange {
  mlir::Value low, high;
};

/// The regions of one block.
class MaskRegions {
public:
  /// `mask`, and `score` where there is one that is not the identity: hooks that are filled. `rows`
  /// is a block of queries or of keys; code goes to `builder`. A block of keys stands for all heads
  /// that share its key/value head: what is said holds for each of them.
  MaskRegions(mlir::OpBuilder &builder, tile::MaskOp mask, tile::ScoreOp score, mlir::Value rows);
  ~MaskRegions();

  /// Whether the intervals say all that is known: no rest has bounds, and there are few.
  bool isClosed() const;
  /// Of `kept` and of `dropped`.
  llvm::ArrayRef<ColumnRange> keptColumns() const { return keptRanges; }
  llvm::ArrayRef<ColumnRange> droppedColumns() const { return droppedRanges; }
  /// From the first to the last column that may be kept.
  ColumnRange hull();
  /// Emits at `inner` whether a box of at most `count` columns [first, last] (i32) meets `kept`,
  /// `dropped`.
  std::pair<mlir::Value, mlir::Value> emitTest(mlir::OpBuilder &inner, mlir::Value first,
                                               mlir::Value last, int64_t count);
  /// The parts of the mask of which nothing is known; after emitTest.
  llvm::SmallVector<LostBound> lostBounds() const;

private:
  struct Hook;
  std::unique_ptr<Hook> mask, score;
  struct Regions;
  std::unique_ptr<Regions> kept, dropped;
  llvm::SmallVector<ColumnRange> keptRanges, droppedRanges;
  bool restHasBounds = false;
  WideArithmetic wide;
};

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_MASKREGIONS_H
