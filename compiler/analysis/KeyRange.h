//===- KeyRange.h - Which keys a block of queries can need ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The first, closed form of the analysis: for the queries q of a block, in
// [first, last], a mask M(q, k) gets two intervals of keys, each a pair of i64 values that
// are computed in the kernel, once for a block of queries:
//
//   may   ⊇ { k : M(q, k) for some q of the block }     keys outside are never kept
//   must  ⊆ { k : M(q, k) for every q of the block }    keys inside are always kept
//
// [-∞, ∞) is a sound answer for `may`, the empty interval for `must`; that is what
// an expression gets which the rules below do not cover.
//
// Atoms are comparisons l ⋈ r of i32 values that are linear in q and k with coefficients
// -1, 0, 1 and otherwise the same for the whole block. With d = l - r = a·q + c·k + u:
//   c = +1   d <= 0  ⇔  k <= -a·q - u:  may takes the largest bound over q, must the least
//   c = -1   d <= 0  ⇔  k >= a·q + u:   may takes the least bound over q, must the largest
//   c = 0    all keys or none: may if min over q of d <= 0, must if the max is
// d < 0 is d + 1 <= 0; the others follow by negation. Equality is d <= 0 and -d <= 0.
//
// Kernels compute in wrapping i32 and this reasoning in i64, so an atom counts only where neither
// side can leave i32 for q of the block and k in [0, Sk): that, too, is checked in the kernel.
//
// Negation is pushed to the atoms. `and` intersects both intervals. `or` takes the hull of
// `may`; of `must` it takes the hull where the two touch, else the longer one.
// An i1 that is the same for the whole block gives everything or nothing.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_KEYRANGE_H
#define TESELA_COMPILER_ANALYSIS_KEYRANGE_H

#include "tile/Tile.h"

namespace tesela {

/// Intervals of keys [low, high), as i64 values.
struct KeyInterval {
  mlir::Value low, high;
};

struct KeyRange {
  KeyInterval may, must;
};

/// Emits, at `builder`, the range of the filled hook `mask` for the block of queries `rows`.
/// Both intervals lie in [0, Sk].
KeyRange emitKeyRange(mlir::OpBuilder &builder, tile::MaskOp mask, mlir::Value rows);

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_KEYRANGE_H
