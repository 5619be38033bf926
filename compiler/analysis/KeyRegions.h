//===- KeyRegions.h - Which keys a block of queries can need ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// For the queries Q = [q₀, q₁] of a block, a mask M(q, k) gets two sets of regions of Q × [0, Sk):
//
//   kept      covers { (q, k) :  M(q, k) }     a tile that no such region meets is empty
//   dropped   covers { (q, k) : !M(q, k) }     a tile that no such region meets is full
//
// A region is a zone and a rest:
//
//   zone   q in [a, b],  k in [c, d],  q - k in [e, f]      (difference bounds over q and k)
//   rest   conditions that hold in the region, kept as values of the hook
//
// Bounds are i64 values, the same for all keys, computed by the kernel once for a block of queries.
// A region without bounds or rest is everything: a sound answer to any question.
//
// How regions arise, M being brought to negation normal form on the way (so `dropped` is the same
// function of !M):
//
//   l ⋈ r         with d = l - r = a·q + c·k + u linear: d <= 0 bounds k, q or q - k; d < 0 is d +
//   1 <= 0, = is
//                 both ways, != is two regions. Of an offset u in an interval the looser end
//                 counts.
//   ⌊x/C⌋ ⋈ r     where r does not depend on k: ⌊x/C⌋ <= r  ⇔  x <= C·r + C - 1,  ⌊x/C⌋ >= r  ⇔  x
//   >= C·r max(x,y) <= z  x <= z and y <= z; max(x,y) >= z: either; min likewise (c ? x : y) ⋈ z, c
//   ? m : n      c and the one, or not c and the other and           every region of the one with
//   every region of the other: bounds intersect or            all regions of both else          one
//   region whose rest is the condition
//
// Each step keeps the cover: intersections of covers cover the intersection, unions the union.
// Kernels wrap in i32 and this reasoning does not, so an atom's bounds count only where no step of
// its arithmetic can wrap for any key (BoxValues), which the kernel checks. More than eight regions
// are not kept apart: one side of a conjunction goes into the rest, a disjunction becomes a rest.
//
// For q in Q a zone's keys are the interval [max(c, q₀' - f), min(d, q₁' - e)] with [q₀', q₁'] = Q
// ∩ [a, b], if e <= f: exactly, since q - k takes every value between its bounds. So where no
// region has a rest, the blocks of keys that run and those that are partial follow from closed
// intervals. Else a test of a box of keys: a region meets the box if its interval does and no
// condition of its rest is false on the part of the box inside that interval (BoxValues; so a guard
// helps what it guards).
//
// A score that is -inf where c holds (`c ? -inf : x`) keeps nothing there either.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_KEYREGIONS_H
#define TESELA_COMPILER_ANALYSIS_KEYREGIONS_H

#include "analysis/BoxValues.h"

#include <memory>

namespace tesela {

/// Keys [low, high), as i64 values inside [0, Sk].
struct KeyInterval {
  mlir::Value low, high;
};

/// The regions of one block of queries.
class KeyRegions {
public:
  /// `mask`, and `score` where there is one that is not the identity: hooks that are filled. Code
  /// goes to `builder`.
  KeyRegions(mlir::OpBuilder &builder, tile::MaskOp mask, tile::ScoreOp score, mlir::Value rows);
  ~KeyRegions();

  /// Whether the intervals say all that is known: no rest has bounds, and there are few.
  bool isClosed() const;
  /// Of `kept` and of `dropped`.
  llvm::ArrayRef<KeyInterval> keptKeys() const { return keptIntervals; }
  llvm::ArrayRef<KeyInterval> droppedKeys() const { return droppedIntervals; }
  /// From the first to the last key that may be kept.
  KeyInterval hull();
  /// Emits at `inner` whether a box of at most `count` keys [first, last] (i32) meets `kept`,
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
  llvm::SmallVector<KeyInterval> keptIntervals, droppedIntervals;
  bool restHasBounds = false;
  WideArithmetic wide;
};

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_KEYREGIONS_H
