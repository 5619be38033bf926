//===- MaskRegions.h - Columns that a block of rows needs -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Either the rows of a block are queries and the columns keys, or the rows are keys and the columns
// queries (the transpose). Let x be the row and y the column, so (x, y) = (q, k) or (k, q). For the
// rows X = [x₀, x₁] of a block, inside [0, Sq) or [0, Sk), and the columns Y = [0, Sk) or [0, Sq),
// a mask M(x, y) has two sets of regions of X × Y:
//
//   kept      covers { (x, y) :  M(x, y) }     a tile is empty if it meets no such region
//   dropped   covers { (x, y) : !M(x, y) }     a tile is full if it meets no such region
//
// A region is a zone and a rest:
//
//   zone   x in [a, b],  y in [c, d],  x - y in [e, f]      (difference bounds over x and y)
//   rest   conditions that hold in the region, as values of the hook
//
// Bounds are i64 values, the same for all columns. The kernel computes them once for each block. A
// region without bounds and rest is X × Y, which is always a sound answer.
//
// M is brought to negation normal form on the way, so `dropped` is the same function of !M. Its
// parts become regions as follows:
//
//   l ⋈ r            if d = l - r = a·x + c·y + u is linear: d <= 0 bounds y, x or x - y; d < 0 is
//                    d + 1 <= 0; = is two bounds; != is two regions. If the offset u is an
//                    interval, its looser end is used.
//   ⌊z/C⌋ ⋈ r        if r does not depend on y: ⌊z/C⌋ <= r  ⇔  z <= C·r + C - 1,
//                    ⌊z/C⌋ >= r  ⇔  z >= C·r
//   max(v,w) <= z    v <= z && w <= z; max(v,w) >= z: v >= z || w >= z; min likewise
//   (c ? v : w) ⋈ z  (c && v ⋈ z) || (!c && w ⋈ z); the same for c ? m : n
//   m && n           each region of m with each region of n: bounds intersect
//   m || n           the regions of both
//   anything else    one region whose rest is the condition
//
// Each step keeps the cover: intersections of covers cover the intersection, unions the union.
// Kernels wrap in i32, and this reasoning does not. So bounds are used only if no step of the
// arithmetic can wrap for any column (BoxValues), which the kernel checks. There are at most eight
// regions. If there would be more, one side of a conjunction becomes a rest, or the whole
// disjunction does.
//
// For x in X the columns of a zone are the interval [max(c, x₀' - f), min(d, x₁' - e)] with [x₀',
// x₁'] = X ∩ [a, b], if e <= f. This is exact, since x - y takes every value between its bounds. So
// if no region has a rest, closed intervals say which blocks of columns run and which are partial.
// Otherwise a box of columns is tested: a region meets the box if its interval does, and no
// condition of its rest is false on the part of the box inside that interval (BoxValues). So a
// guard makes the bounds of the guarded condition tighter.
//
// If a score is -inf where c holds (`c ? -inf : x`), nothing is kept there either.
//
// Every mask drops columns beyond the end (Sk or Sq), so a tile with such columns is partial. The
// loop sees that from the number of the block (tile-lower-blocks). Rows beyond the end are not
// stored: a tile with queries beyond Sq need not be partial for that reason. For a block of keys
// with keys beyond Sk, this file counts all columns as dropped.
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
  /// `mask` and `score` are filled hooks; `score` may be null if it is the identity. `rows` is a
  /// block of queries or of keys. Code is inserted at `builder`. For a block of keys the result
  /// holds for each query head that shares its key/value head.
  MaskRegions(mlir::OpBuilder &builder, tile::MaskOp mask, tile::ScoreOp score, mlir::Value rows);
  ~MaskRegions();

  /// Whether the intervals say everything that is known: no rest has bounds, and there are few.
  bool isClosed() const;
  /// The intervals of `kept` and of `dropped`.
  llvm::ArrayRef<ColumnRange> keptColumns() const { return keptRanges; }
  llvm::ArrayRef<ColumnRange> droppedColumns() const { return droppedRanges; }
  /// The interval from the first to the last column that may be kept.
  ColumnRange hull();
  /// Emits at `inner` whether a box of at most `count` columns [first, last] (i32) meets `kept`,
  /// and whether it meets `dropped`.
  std::pair<mlir::Value, mlir::Value> emitTest(mlir::OpBuilder &inner, mlir::Value first,
                                               mlir::Value last, int64_t count);
  /// The parts of the mask for which no bounds are known. Call it after emitTest.
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
