//===- BoxValues.h - Bounds of a hook's values over a box -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A block has rows, and the loop over the blocks that it needs visits columns. Either rows are
// queries and columns keys, or rows are keys and columns queries. The parameter `axis` says which;
// nothing else here distinguishes queries from keys. A box is one batch, one head or neighbouring
// heads (of a block of queries, RowMap.h; or all heads that share the key/value head of a block of
// keys), the rows [x₀, x₁] and the columns [y₀, y₁]. Let v(x, y) be the value that the kernel
// computes for a value of a mask's or score's hook. This file emits bounds of v over a box:
//
//   i32     an interval of i64 ends inside i32:  l <= v(x, y) <= h                (BoxInterval)
//   f32     ends, and whether NaN is possible:   v is NaN, or l <= v <= h         (BoxNumbers)
//   bool    two bits: may it be true, may it be false                             (BoxTruth)
//
// Each rule below is sound: if the bounds of the operands hold at every point of the box, so do the
// bounds of the result. By induction over the hook's ops all bounds are sound.
//
//   the same for the box    v itself, computed once
//   linear                  v = a·x + c·y + u with constants a, c in [-1024, 1024] and u in an
//                           interval that does not depend on y: ends of each term. Differences of
//                           one index cancel (q - k over a tile), which intervals do not show.
//   + - ·  on i32           ends in i64 (a product of two i32 fits); if an end leaves i32, the
//                           kernel may wrap, and the interval becomes all of i32
//   x / C, C uniform        floor is monotone: [⌊l/C⌋, ⌊h/C⌋] for C > 0, otherwise all of i32
//   x % C, C uniform > 0    [l mod C, h mod C] if ⌊l/C⌋ = ⌊h/C⌋ (with one quotient, mod is
//                           x - C·quotient, monotone), otherwise [0, C - 1]; without a test if C is
//                           a constant, x moves by 1 with the column, and a box may have C columns
//   min, max                of the ends
//   c ? x : y               the hull of the sides that c allows
//   t[i, ...]               tile.bounds over the box of the indices' intervals
//   int(x)                  saturating truncation is monotone; all of i32 if x may be NaN
//   f32 of i32; + - ·       rounding is monotone, so the ends are computed as in the kernel, and
//                           exact values between them are rounded to values between them. NaN comes
//                           from ∞ - ∞ and 0 · ∞: if the ends allow it, nothing is known
//   a < b, ... on i32       from the difference, which is linear if possible; on f32 a comparison
//                           with a NaN is false, and != is true
//   t[i, ...] == x          in the rounds of a reduction: whether one of the box's elements lies in
//   of i32                  x's interval (tile.has_element), since rounds read unrelated elements
//   && || ! == != on bool   three-valued (Kleene)
//   i of a reduction        [0, bound - 1]: the reduced value is bounded once for all rounds
//   any, all                any may be true if a round may be, and false if every round may be or
//                           there is none; all likewise
//   sum of i32              bound times the ends of a round; if that leaves i32, all of i32
//   anything else           nothing is known
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

/// Either low <= v <= high, or v is NaN and `mayBeNaN` is true. f32 values and an i1.
struct BoxNumbers {
  mlir::Value low, high, mayBeNaN;
};

/// i1 values; null means that it may be true (or false).
struct BoxTruth {
  mlir::Value mayBeTrue, mayBeFalse;
};

/// row · x + column · y + offset, plus at most one quotient ± ⌊z / C⌋ in which z depends on y.
struct LinearForm : ElementMultiples {
  BoxInterval offset; ///< the same for all columns
  mlir::Value fits;   ///< i1: no step of the kernel's i32 arithmetic wraps; null if none can
  attn::FloorDivOp quotient;
  int64_t quotientSign = 0;
  int64_t least = 0, most = 0; ///< bounds of the whole form that are known at compile time
};

/// A part of a hook for which no bounds are known, and the reason.
struct LostBound {
  mlir::Location location;
  std::string reason;
};

/// A block of queries or of keys, and the number of columns that it may need, as i64 values.
struct BoxFrame {
  mlir::Value batch, head, kvHead; ///< i32
  mlir::Value lastHead;            ///< i64; null if the block has one head
  tile::Axis axis;                 ///< of the rows
  mlir::Value firstRow, lastRow, columnCount;
  int64_t rows; ///< the largest number of rows
};

/// The columns of a box, and the insertion point of code that depends on them.
struct ColumnBox {
  mlir::OpBuilder &builder;
  mlir::Value first, last; ///< i64
  int64_t count;           ///< the largest number of columns
  llvm::DenseMap<mlir::Value, std::optional<BoxInterval>> intervals{};
  llvm::DenseMap<mlir::Value, std::optional<BoxNumbers>> numbers{};
  llvm::DenseMap<mlir::Value, BoxTruth> truths{};
};

/// The values of one hook (of the form (…, b, h, hkv, q, k)) for one block.
class BoxValues {
public:
  /// Code that is the same for all columns is inserted at `outer`.
  BoxValues(mlir::OpBuilder &outer, mlir::Location loc, mlir::Block &body, const BoxFrame &frame);

  /// Whether the value is the same for all rows and columns of the block; false for null.
  bool isUniform(mlir::Value value) { return dependence(value) == Dependence::none; }
  bool dependsOnColumn(mlir::Value value) { return dependence(value) == Dependence::column; }
  /// A uniform value, computed at `outer`.
  mlir::Value hoist(mlir::Value value);

  /// The linear form of an i32 value, if it has one; its code is inserted at `outer`.
  std::optional<LinearForm> linear(mlir::Value value);
  /// The linear form of a - b.
  std::optional<LinearForm> difference(const LinearForm &a, const LinearForm &b);
  /// Bounds of a form over the block's rows and the columns [first, last] (null: all columns).
  BoxInterval boundsOf(const LinearForm &form, WideArithmetic &at, mlir::Value first,
                       mlir::Value last);
  /// Bounds of factor · x over the rows of the block.
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
  /// The reduction that has this index, or null.
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
    llvm::SmallVector<int64_t> within;        ///< as in tile.bounds
  };
  ReadBox boxOf(tile::ReadOp op, ColumnBox *box);
  std::optional<std::pair<mlir::Value, mlir::Value>> readBounds(tile::ReadOp op, ColumnBox *box);
  mlir::Value mayRoundsMeet(mlir::Value read, mlir::Value other, ColumnBox *box);
  void lose(mlir::Operation *op, llvm::StringRef reason);

  mlir::Block &body;
  mlir::Value row, column; ///< q and k, or k and q
  mlir::Value heads;       ///< h if the block has several heads, else null
  mlir::IRMapping hoisted;
  llvm::DenseMap<mlir::Operation *, Dependence> dependences;
  llvm::DenseMap<mlir::Value, std::optional<LinearForm>> forms;
  ColumnBox outerBox; ///< caches for values that do not depend on the column
};

/// min(a, b) or max(a, b) in the language's form: c ? b : a with c = b < a or b > a.
struct MinMax {
  bool isMin;
  mlir::Value a, b;
};
std::optional<MinMax> matchMinMax(mlir::Value value);

} // namespace tesela

#endif // TESELA_COMPILER_ANALYSIS_BOXVALUES_H
