//===- MaskTranslation.h - A mask as bounds of columns ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A comparison of whole numbers that are linear in the key, as q - k < window, asks of column j of
// a row's part of a tile
//
//   j ⋈ bound(row)
//
// so that the bound is computed once a row. What a mask joins of such comparisons, and of what
// follows from the row alone, stays a formula of them; all else is computed element by element, as
// it is written. Exact: a form is linear where i32 does not wrap, which is proved from the ranges
// of its parts (q and k are in [0, 2^31)), and its bound is computed without wrapping and held at
// the ends of i32, which changes no comparison with a column.
//
// Quotients and remainders: of x = T ± j and a divisor C that is the same for the launch and no
// less than the tile's columns, a row sees at most two quotients, so that
//
//   x / C = ⌊T / C⌋ ± over    x mod C = (T mod C) ± j ∓ (C where over)    over: j ⋈ a bound
//
// and the mask is (over ? mask with the one : mask with the other), each linear again. ⌊T / C⌋
// takes the place of a division by a product with ⌊(2^32 - 1) / C⌋, which the launch's divisor
// gives before the loop.
//
// A divisor that is less than the tile's columns makes a period of them (MaskPeriods.cpp).
//
// Where it is known that extents, and what is the same for all pairs, are small, sums of a few of
// them stay in i32: then more is linear, and a bound takes no wider arithmetic.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_MASKTRANSLATION_H
#define TESELA_COMPILER_TRANSFORMS_MASKTRANSLATION_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <cstdint>
#include <optional>
#include <tuple>

namespace tesela {

/// What is known of a launch where a mask is translated.
struct MaskTraits {
  /// A number is small from -2^29 on, and below 2^29.
  static constexpr int64_t smallEnd = int64_t(1) << 29;

  /// Divisors, translated, that are at least the tile's columns.
  llvm::SmallVector<mlir::Value> large;
  /// Of these, ⌊(2^32 - 1) / divisor⌋.
  llvm::DenseMap<mlir::Value, mlir::Value> reciprocals;

  /// What quotients and remainders by a small divisor take: one that is at least 1, no more than
  /// mostOfPeriod, and less than the tile's columns.
  struct Period {
    mlir::Value divisor;
    mlir::Value period, factor;         ///< of tile.phase: the divisor, also where it is not small
    mlir::Value doubled, doubledFactor; ///< of tile.phase with twice the divisor
    mlir::Value reciprocal;             ///< ⌊(2^32 - 1) / divisor⌋; may be null
  };
  static constexpr int64_t mostOfPeriod = 128;
  /// Where columns are no more than tile.phase takes.
  static int64_t largestDivisor(int64_t columns);
  /// Of a constant that is such a divisor.
  static Period periodOf(mlir::OpBuilder &builder, mlir::Location loc, int64_t divisor);
  /// Of a value that is one where it is asked for; `reciprocal` may be null.
  static Period periodOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value divisor,
                         mlir::Value reciprocal, int64_t columns);
  /// By divisors, translated.
  llvm::DenseMap<mlir::Value, Period> periods;

  /// Of the hook: what is small. Then the indices of queries and keys and the divisors are, too.
  llvm::DenseSet<mlir::Value> small;
  bool areSmall() const { return !small.empty(); }
};

/// Translates the value of one mask's hook into the body of a tile.map.
class MaskTranslation {
public:
  /// `hook` may be null. `before` stands before the map; `body` is in it, `column` its argument,
  /// below `columns`.
  MaskTranslation(mlir::Block *hook, mlir::OpBuilder &before, mlir::OpBuilder &body,
                  mlir::Value column, int64_t columns, const MaskTraits &traits)
      : hook(hook), before(before), body(body), column(column), columns(columns),
        traits(traits), ofIndex{0, traits.areSmall() ? MaskTraits::smallEnd - 1
                                                     : INT32_MAX - int64_t(1)} {}

  /// `value` of the hook, the same along a row, is `translated`, of the body or from before it.
  void setOfRow(mlir::Value value, mlir::Value translated) { ofRow.map(value, translated); }
  /// The same of a value that one row has and another may not: no division's common divisor.
  void setByRow(mlir::Value value, mlir::Value translated) {
    setOfRow(value, translated);
    byRow.insert(value);
  }
  /// What `value` of the hook was translated to.
  mlir::Value ofRowOf(mlir::Value value) const { return ofRow.lookup(value); }
  /// `value` of the hook is the index that the tile's rows have, of a query or of a key: less than
  /// an extent.
  void setRowIndex(mlir::Value value) { ranges[value] = ofIndex; }
  /// `value` of the hook is the index that the tile's columns have, null without a hook; that of
  /// the first is `first`.
  void setColumnIndex(mlir::Value value, mlir::Value first) {
    columnIndex = value;
    firstColumn = first;
    ranges[first] = ofIndex;
    ranges[value] = ofIndex;
  }

  /// Translated divisors whose quotients can be split where they are at least `columns`. Writes
  /// nothing.
  llvm::SmallVector<mlir::Value> divisors();
  /// Translated divisors that make periods where they are less than `columns`. Writes nothing.
  struct PeriodicDivisor {
    mlir::Value divisor;
    bool ofRemainder; ///< and not of quotients alone
  };
  llvm::SmallVector<PeriodicDivisor> periodicDivisors();
  /// Whether a sum with the column's index would be linear if it could not leave i32, as k + x of a
  /// launch's x. Writes nothing.
  bool mayWrap();
  /// Whether the element is kept, an i1 of the body: its column's index is less than `limit` (an
  /// extent), and the hook keeps it. Either may be null.
  mlir::Value condition(mlir::Value limit);

private:
  struct Range {
    int64_t low, high;
    bool isI32() const { return low >= INT32_MIN && high <= INT32_MAX; }
    bool isU32() const { return low >= 0 && high <= UINT32_MAX; }
  };
  static constexpr Range ofI32{INT32_MIN, INT32_MAX},
      ofSmall{-MaskTraits::smallEnd, MaskTraits::smallEnd - 1};

  /// Σ factor · value + constant + coefficient · column, where each value is the same along a row,
  /// and a multiple of one quotient or remainder by a small divisor.
  struct Linear {
    struct Term {
      mlir::Value value; ///< of the hook, or translated
      int64_t factor;
      Range range;
    };
    llvm::SmallVector<Term> terms;
    int64_t constant = 0, column = 0;
    Range range{0, 0}; ///< of the elements that are asked for, without wrapping
    mlir::Operation *division = nullptr;
    int64_t divisionFactor = 0;

    /// Without the division, of the value at column 0, which need not be asked for: a remainder's
    /// form on one side of a split holds beyond it for no element, and goes on as a line.
    Range firstRange() const;
    bool operator==(const Linear &other) const;
  };
  /// x / C and x mod C of one linear x.
  struct Division {
    Linear dividend;
    mlir::Value divisor;
  };
  /// Of x / C and x mod C of a small C. x' is x where that rises with the column, else -x - 1, so
  /// that x' / C = quotient + ⌊(phase + j) / C⌋ and x' mod C = (phase + j) mod C in column j.
  struct Residue {
    MaskTraits::Period period;
    mlir::Value quotient, phase;
    Range ofQuotient;
    bool isFalling;
  };
  /// Predicate, left, right.
  using Comparison = std::tuple<unsigned, mlir::Value, mlir::Value>;
  /// What has been chosen for quotients.
  struct Scope {
    llvm::DenseMap<mlir::Value, Linear> remainders;
    mlir::IRMapping quotients;
    unsigned depth = 0;

    // What was found out and written before: a value may be used any number of times.
    llvm::DenseMap<mlir::Value, bool> ofRow;
    llvm::DenseMap<mlir::Value, std::optional<Linear>> forms;
    llvm::DenseMap<mlir::Value, mlir::Value> formulas;
    llvm::DenseMap<Comparison, mlir::Value> comparisons;
    /// By dividend, of the hook, and divisor, translated.
    llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, Residue> residues;
    mlir::IRMapping elements;
  };
  /// What becomes of a sum that leaves i32.
  enum class Ends { wrap, hold };
  /// Each doubles the formula.
  static constexpr unsigned mostDivisions = 2;
  /// A sum of more parts is computed as it is written.
  static constexpr size_t mostTerms = 16;

  static std::optional<int64_t> constantOf(mlir::Value value);
  /// b swapped(⋈) a is a ⋈ b.
  static mlir::arith::CmpIPredicate swapped(mlir::arith::CmpIPredicate predicate);
  bool isOfRow(mlir::Value value, Scope &scope);
  bool isUniform(mlir::Value translated) { return translated.getParentBlock() != body.getBlock(); }
  bool isPositive(mlir::Value divisor);
  Range rangeOf(mlir::Value value);

  static std::optional<Linear> combined(const Linear &a, const Linear &b, int64_t sign);
  std::optional<Linear> linear(mlir::Value value, Scope &scope);
  std::optional<Linear> findLinear(mlir::Value value, Scope &scope);
  std::optional<Division> divisionOf(mlir::Operation &op, Scope &scope);
  /// Of which the divisor may be large enough.
  std::optional<Division> longDivision(mlir::Operation &op, Scope &scope);
  /// Of which the divisor is large enough.
  std::optional<Division> splittable(mlir::Operation &op, Scope &scope);

  mlir::Value translate(Scope scope);
  mlir::Value split(const Division &division, Scope &scope);
  /// The quotient and the remainder of `dividend` in `range`.
  std::pair<mlir::Value, mlir::Value> divide(mlir::Value dividend, Range range,
                                             mlir::Value divisor);
  /// The same of numbers without a sign, by ⌊(2^32 - 1) / divisor⌋.
  std::pair<mlir::Value, mlir::Value> divideByProduct(mlir::Value dividend, mlir::Value divisor,
                                                      mlir::Value reciprocal);
  mlir::Value formula(mlir::Value value, Scope &scope);
  mlir::Value writeFormula(mlir::Value value, Scope &scope);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value left, mlir::Value right,
                      Scope &scope);
  mlir::Value writeComparison(mlir::arith::CmpIPredicate predicate, mlir::Value left,
                              mlir::Value right, Scope &scope);
  /// Whether difference ⋈ 0; its column's coefficient is 1 or -1.
  mlir::Value compareColumn(mlir::arith::CmpIPredicate predicate, const Linear &difference,
                            Scope &scope);
  mlir::Value element(mlir::Value value, Scope &scope);
  mlir::Value writeElement(mlir::Value value, Scope &scope);
  /// `form` at column 0, times `sign`; before the map where it can be.
  mlir::Value emitFirst(const Linear &form, int64_t sign, Ends ends, Scope &scope);
  mlir::Value joined(bool isAnd, mlir::Value a, mlir::Value b);

  // MaskPeriods.cpp
  std::optional<MaskTraits::Period> periodOf(mlir::Value divisor);
  /// Of which the divisor makes a period.
  std::optional<Division> shortDivision(mlir::Operation &op, Scope &scope);
  std::pair<mlir::Value, mlir::Value> divideBy(mlir::Value dividend,
                                               const MaskTraits::Period &period);
  /// Of `dividend`, a value of the hook that has this form.
  Residue residueOf(mlir::Value dividend, const Linear &form, const MaskTraits::Period &period,
                    Scope &scope);
  mlir::Value phaseOf(mlir::Value start, mlir::Value period, mlir::Value factor);
  mlir::Value remainderOf(const Residue &residue);
  mlir::Value quotientOf(const Residue &residue);
  /// Null where `op` is no part of a period.
  mlir::Value periodicElement(mlir::Operation &op, Scope &scope);
  /// Whether difference ⋈ 0, which has a division with the factor 1 or -1 and no column.
  mlir::Value compareDivision(mlir::arith::CmpIPredicate predicate, Linear difference,
                              Scope &scope);
  mlir::Value isQuotientLess(const Residue &residue, Linear limit, bool negated, Scope &scope);
  mlir::Value isRemainderLess(const Residue &residue, mlir::Value limit, bool negated);
  /// `isPossible`: the limit is known to be a remainder.
  mlir::Value isRemainder(const Residue &residue, mlir::Value limit, bool isPossible, bool negated);
  static bool isRemainderBy(const Linear &limit, mlir::Value divisor, const mlir::IRMapping &ofRow);
  mlir::Value negatedIf(bool negated, mlir::Value truth);

  mlir::Block *hook;
  mlir::OpBuilder &before, &body;
  mlir::Value column, columnIndex, firstColumn;
  int64_t columns;
  const MaskTraits &traits;
  const Range ofIndex; ///< of queries and keys
  mlir::IRMapping ofRow;
  llvm::DenseSet<mlir::Value> byRow;
  llvm::DenseMap<int64_t, MaskTraits::Period> constantPeriods;
  llvm::DenseMap<mlir::Value, Range> ranges;
};

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_MASKTRANSLATION_H
