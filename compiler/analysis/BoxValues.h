//===- BoxValues.h - What a hook's values can be over a box -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A block has rows, and the loop over the blocks that it needs goes over columns: rows are queries
// and columns keys, or rows are keys and columns queries. One parameter, the axis, says which;
// nothing else here tells queries from keys. A box is one batch, one head or neighbouring heads (of
// a block of queries, RowMap.h; or all that share the key/value head of a block of keys), the rows
// [x₀, x₁] and the columns [y₀, y₁]. Let v(x, y) be what the kernel computes for a value of a
// mask's or score's hook. This file emits bounds of v over a box:
//
//   i32     an interval of i64 ends inside i32:  l <= v(x, y) <= h                (BoxInterval)
//   f32     ends, and whether NaN is possible:   v is NaN, or l <= v <= h         (BoxNumbers)
//   bool    two bits: may it be true, may it be false                             (BoxTruth)
//
// Each rule below is sound: if the operands lie in what is claimed for them at every point of the
// box, so does the result. Composition then is sound by induction over the hook's ops.
//
//   the same for the box    v itself, computed once
//   linear                  v = a·x + c·y + u with constants a, c in [-1024, 1024] and u in an
//                           interval that does not depend on y: ends of each term. Differences of
//                           the same index cancel, which intervals alone lose: q - k over a tile.
//   + - ·  on i32           ends in i64 (a product of i32 is inside i64); where an end leaves
//                           i32 the kernel may wrap, and the interval becomes all of i32
//   x / C, C uniform        floor is monotone: [⌊l/C⌋, ⌊h/C⌋] for C > 0, else all of i32
//   x % C, C uniform > 0    [l mod C, h mod C] where ⌊l/C⌋ = ⌊h/C⌋ (one quotient, so mod is
//                           x - C·quotient, monotone), else [0, C - 1]; at once where C is a
//                           constant, x moves by 1 with the column, and a box may have C columns
//   min, max                of the ends
//   c ? x : y               of what c may be: the hull of the sides that it may take
//   t[i, ...]               tile.bounds over the box of the indices' intervals
//   int(x)                  saturating truncation is monotone; all of i32 where x may be NaN
//   f32 of i32; + - ·       rounding is monotone, so the ends are computed as the kernel would, and
//                           exact values between them round between them. NaN arises from ∞ - ∞ and
//                           0 · ∞: where the ends allow it, nothing is claimed
//   a < b, ... on i32       of the difference, linear where it is; on f32 a comparison with a NaN
//                           is false, and != is true
//   t[i, ...] == x          in the rounds of a reduction: whether one of the box's elements lies in
//   of i32                  x's interval (tile.has_element), since rounds read what is unrelated
//   && || ! == != on bool   three-valued (Kleene)
//   i of a reduction        [0, bound - 1]: what it reduces is bounded once for all of its rounds
//   any, all                may be true where a round may be; any also may be false where every
//                           round may be or there is none, all likewise
//   sum of i32              bound times the ends of a round; where that leaves i32, all of i32
//   anything else           nothing is claimed
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_ANALYSIS_BOXVALUES_H
#define TESELA_COMPILER_ANALYSIS_BOXVALUES_H

#include "analysis/ElementMultiples.h"
#include "analysis/WideArithmetic.h"
#include "attn/Attn.h"
#include "tile/Tile.h"

#include "mlir/IR/IRMapping.h"

#include <optional>

namespace tesela {

/// l <= v <= h; i64 values.
struct BoxInterval {
  mlir::Value low, high;
};

/// v is NaN, which `mayBeNaN` allows, or low <= v <= high; f32 values and an i1.
struct BoxNumbers {
  mlir::Value low, high, mayBeNaN;
};

/// i1 values; null: it may.
struct BoxTruth {
  mlir::Value mayBeTrue, mayBeFalse;
};

/// row · x + column · y + offset, and possibly one quotient more: ± ⌊z / C⌋ where z depends on y.
struct LinearForm : ElementMultiples {
  BoxInterval offset; ///< the same for all columns
  mlir::Value fits;   ///< i1: no step of the kernel's i32 arithmetic wraps; null: none can
  attn::FloorDivOp quotient;
  int64_t quotientSign = 0;
  int64_t least = 0, most = 0; ///< what is known of the whole form before the launch
};

/// A part of a hook of which nothing is known, and why.
struct LostBound {
  mlir::Location location;
  std::string reason;
};

/// A block of queries or of keys, and the columns that it can need, as i64 values.
struct BoxFrame {
  mlir::Value batch, head, kvHead; ///< i32
  mlir::Value lastHead;            ///< i64; null: the block has one head
  tile::Axis axis;                 ///< what the rows are
  mlir::Value firstRow, lastRow, columnCount;
  int64_t rows; ///< there are no more than these
};

/// A box's columns, and where the code goes that depends on them.
struct ColumnBox {
  mlir::OpBuilder &builder;
  mlir::Value first, last; ///< i64
  int64_t count;           ///< it has no more than these
  llvm::DenseMap<mlir::Value, std::optional<BoxInterval>> intervals{};
  llvm::DenseMap<mlir::Value, std::optional<BoxNumbers>> numbers{};
  llvm::DenseMap<mlir::Value, BoxTruth> truths{};
};

/// The values of one hook (of the form (…, b, h, hkv, q, k)) for one block.
class BoxValues {
public:
  /// `outer`: where code goes that is the same for all columns.
  BoxValues(mlir::OpBuilder &outer, mlir::Location loc, mlir::Block &body, const BoxFrame &frame);

  /// The same for all rows and columns of the block; null never is.
  bool isUniform(mlir::Value value) { return dependence(value) == Dependence::none; }
  bool dependsOnColumn(mlir::Value value) { return dependence(value) == Dependence::column; }
  /// A uniform value, computed at `outer`.
  mlir::Value hoist(mlir::Value value);

  /// The form of an i32 value; its code is at `outer`.
  std::optional<LinearForm> linear(mlir::Value value);
  /// a - b.
  std::optional<LinearForm> difference(const LinearForm &a, const LinearForm &b);
  /// The bounds of a form over the block's rows and the columns [first, last] (null: all).
  BoxInterval boundsOf(const LinearForm &form, WideArithmetic &at, mlir::Value first,
                       mlir::Value last);
  /// Bounds of factor · x over the block.
  BoxInterval rowTerm(int64_t factor);

  /// `box` may be null for values that do not depend on the column.
  std::optional<BoxInterval> interval(mlir::Value value, ColumnBox *box);
  BoxTruth truth(mlir::Value value, ColumnBox *box);

  const BoxFrame frame;
  WideArithmetic wide; ///< at `outer`
  llvm::SmallVector<LostBound> lost;

private:
  enum class Dependence { none, row, column };
  Dependence dependence(mlir::Value value);
  /// The reduction whose index this is, or null.
  static attn::ReduceOp reductionOf(mlir::Value index);
  std::optional<LinearForm> findLinear(mlir::Value value);
  std::optional<BoxInterval> findInterval(mlir::Value value, ColumnBox *box);
  std::optional<BoxNumbers> numbers(mlir::Value value, ColumnBox *box);
  std::optional<BoxNumbers> findNumbers(mlir::Value value, ColumnBox *box);
  BoxTruth findTruth(mlir::Value value, ColumnBox *box);
  BoxTruth compareIntegers(mlir::arith::CmpIOp op, ColumnBox *box);
  BoxTruth compareNumbers(mlir::arith::CmpFOp op, ColumnBox *box);
  bool takesEveryRemainder(attn::FloorModOp op, ColumnBox *box);
  struct ReadBox {
    llvm::SmallVector<mlir::Value> low, high; ///< i32
    llvm::SmallVector<int64_t> within;        ///< as tile.bounds has it
  };
  ReadBox boxOf(tile::ReadOp op, ColumnBox *box);
  std::optional<std::pair<mlir::Value, mlir::Value>> readBounds(tile::ReadOp op, ColumnBox *box);
  mlir::Value mayRoundsMeet(mlir::Value read, mlir::Value other, ColumnBox *box);
  void lose(mlir::Operation *op, llvm::StringRef reason);

  mlir::Block &body;
  mlir::Value row, column; ///< q and k, or k and q
  mlir::Value heads;       ///< h where the block has several; else null
  mlir::IRMapping hoisted;
  llvm::DenseMap<mlir::Operation *, Dependence> dependences;
  llvm::DenseMap<mlir::Value, std::optional<LinearForm>> forms;
  ColumnBox outerBox; ///< caches of what does not depend on the column
};

/// min(a, b) or max(a, b) as the language writes it: c ? b : a with c = b < a or b > a.
struct MinMax {
  bool isMin;
  mlir::Value a, b;
};
std::optional<MinMax> matchMinMax(mlir::Value value);

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_BOXVALUES_H
