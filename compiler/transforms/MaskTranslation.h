//===- MaskTranslation.h - A mask as bounds of columns ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A comparison of integers that are linear in the key, such as q - k < window, becomes a
// comparison of the column j with a bound of the row:
//
//   j ⋈ bound(row)
//
// So the bound is computed once for each row. Such comparisons, and values that depend only on the
// row, stay combined as the mask combines them. Everything else is computed for each element, as
// written. The result is exact: a form counts as linear only if i32 cannot wrap, which is proved
// from ranges (q and k are in [0, 2^31)). The bound is computed without wrapping and clamped to
// i32, which does not change any comparison with a column.
//
// Quotients and remainders: let x = T ± j, and let the divisor C be the same for the launch and at
// least the tile's number of columns. Then a row has at most two quotients, and
//
//   x / C = ⌊T / C⌋ ± over    x mod C = (T mod C) ± j ∓ (C where over)    over: j ⋈ a bound
//
// and the mask is (over ? mask with one quotient : mask with the other), each linear again.
// ⌊T / C⌋ is not a division: it is a product with ⌊(2^32 - 1) / C⌋, which is computed before the
// loop.
//
// A divisor that is less than the tile's columns gives a period of columns (MaskPeriods.cpp).
//
// If extents and uniform values are known to be small, sums of a few of them stay in i32. Then
// more forms are linear, and bounds need no 64-bit arithmetic.
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

/// What may be assumed about a launch in one version of a mask.
struct MaskTraits {
  /// A number x is small if -2^29 <= x < 2^29.
  static constexpr int64_t smallEnd = int64_t(1) << 29;

  /// Translated divisors that are at least the tile's number of columns.
  llvm::SmallVector<mlir::Value> large;
  /// ⌊(2^32 - 1) / divisor⌋ for divisors of `large`.
  llvm::DenseMap<mlir::Value, mlir::Value> reciprocals;

  /// The operands of quotients and remainders by a small divisor: at least 1, at most
  /// mostOfPeriod, and less than the tile's number of columns.
  struct Period {
    mlir::Value divisor;
    mlir::Value period, factor;         ///< for tile.phase: the divisor, clamped if not small
    mlir::Value doubled, doubledFactor; ///< for tile.phase with twice the divisor
    mlir::Value reciprocal;             ///< ⌊(2^32 - 1) / divisor⌋; may be null
  };
  static constexpr int64_t mostOfPeriod = 128;
  /// The largest small divisor; 0 if tile.phase does not allow so many columns.
  static int64_t largestDivisor(int64_t columns);
  /// For a constant that is a small divisor.
  static Period periodOf(mlir::OpBuilder &builder, mlir::Location loc, int64_t divisor);
  /// For a value that is a small divisor wherever the result is used; `reciprocal` may be null.
  static Period periodOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value divisor,
                         mlir::Value reciprocal, int64_t columns);
  /// The periods of translated divisors.
  llvm::DenseMap<mlir::Value, Period> periods;

  /// Values of the hook that are small. If there are any, indices and divisors are small, too.
  llvm::DenseSet<mlir::Value> small;
  bool areSmall() const { return !small.empty(); }
};

/// Translates the value of one mask's hook into the body of a tile.map.
class MaskTranslation {
public:
  /// `hook` may be null. `before` inserts before the map, and `body` inside it. `column` is the
  /// map's argument, and less than `columns`.
  MaskTranslation(mlir::Block *hook, mlir::OpBuilder &before, mlir::OpBuilder &body,
                  mlir::Value column, int64_t columns, const MaskTraits &traits)
      : hook(hook), before(before), body(body), column(column), columns(columns),
        traits(traits), ofIndex{0, traits.areSmall() ? MaskTraits::smallEnd - 1
                                                     : INT32_MAX - int64_t(1)} {}

  /// Sets `translated` (in the body or before it) for a `value` of the hook that a row shares.
  void setOfRow(mlir::Value value, mlir::Value translated) { ofRow.map(value, translated); }
  /// The same for a value that differs between rows, so that it cannot be a common divisor.
  void setByRow(mlir::Value value, mlir::Value translated) {
    setOfRow(value, translated);
    byRow.insert(value);
  }
  /// The translation of `value` of the hook.
  mlir::Value ofRowOf(mlir::Value value) const { return ofRow.lookup(value); }
  /// `value` of the hook is the index of the tile's rows, a query's or a key's. It is less than
  /// an extent.
  void setRowIndex(mlir::Value value) { ranges[value] = ofIndex; }
  /// `value` of the hook is the index of the tile's columns; null without a hook. `first` is the
  /// index of the first column.
  void setColumnIndex(mlir::Value value, mlir::Value first) {
    columnIndex = value;
    firstColumn = first;
    ranges[first] = ofIndex;
    ranges[value] = ofIndex;
  }

  /// Translated divisors whose quotients can be split if they are at least `columns`. Writes no
  /// ops.
  llvm::SmallVector<mlir::Value> divisors();
  /// Translated divisors that give periods if they are less than `columns`. Writes no ops.
  struct PeriodicDivisor {
    mlir::Value divisor;
    bool ofRemainder; ///< a remainder uses it; if false, only quotients do
  };
  llvm::SmallVector<PeriodicDivisor> periodicDivisors();
  /// Whether the mask has a sum with the column's index that would be linear if it could not leave
  /// i32, for example k + x with a launch's x. Writes no ops.
  bool mayWrap();
  /// Whether the element is kept, an i1 in the body: the index of its column is less than `limit`
  /// (an extent), and the hook is true. `limit` or the hook may be null.
  mlir::Value condition(mlir::Value limit);

private:
  struct Range {
    int64_t low, high;
    bool isI32() const { return low >= INT32_MIN && high <= INT32_MAX; }
    bool isU32() const { return low >= 0 && high <= UINT32_MAX; }
  };
  static constexpr Range ofI32{INT32_MIN, INT32_MAX},
      ofSmall{-MaskTraits::smallEnd, MaskTraits::smallEnd - 1};

  /// Σ factor · value + constant + column · j + divisionFactor · division. Each value is the same
  /// along a row. `division` is a quotient or remainder by a small divisor, or null.
  struct Linear {
    struct Term {
      mlir::Value value; ///< of the hook, or a translated one
      int64_t factor;
      Range range;
    };
    llvm::SmallVector<Term> terms;
    int64_t constant = 0, column = 0;
    Range range{0, 0}; ///< of the elements that are used, without wrapping
    mlir::Operation *division = nullptr;
    int64_t divisionFactor = 0;

    /// The range at column 0, without the division. It may exceed the range of the elements: the
    /// form of a remainder on one side of a split is extended to columns of the other side.
    Range firstRange() const;
    bool operator==(const Linear &other) const;
  };
  /// x / C and x mod C of one linear x.
  struct Division {
    Linear dividend;
    mlir::Value divisor;
  };
  /// x / C and x mod C for a small C. Let x' = x if x rises with the column, and -x - 1 otherwise.
  /// Then in column j x' / C = quotient + ⌊(phase + j) / C⌋ and x' mod C = (phase + j) mod C.
  struct Residue {
    MaskTraits::Period period;
    mlir::Value quotient, phase;
    Range ofQuotient;
    bool isFalling;
  };
  /// Predicate, left, right.
  using Comparison = std::tuple<unsigned, mlir::Value, mlir::Value>;
  /// The choices that splits have made for quotients and remainders.
  struct Scope {
    llvm::DenseMap<mlir::Value, Linear> remainders;
    mlir::IRMapping quotients;
    unsigned depth = 0;

    // Caches: a value may be used any number of times.
    llvm::DenseMap<mlir::Value, bool> ofRow;
    llvm::DenseMap<mlir::Value, std::optional<Linear>> forms;
    llvm::DenseMap<mlir::Value, mlir::Value> formulas;
    llvm::DenseMap<Comparison, mlir::Value> comparisons;
    /// The key is a dividend of the hook and a translated divisor.
    llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, Residue> residues;
    mlir::IRMapping elements;
  };
  /// Whether a sum that leaves i32 wraps, or is clamped to i32.
  enum class Ends { wrap, hold };
  /// Each split division doubles the formula.
  static constexpr unsigned mostDivisions = 2;
  /// A sum with more terms is computed element by element, as written.
  static constexpr size_t mostTerms = 16;

  static std::optional<int64_t> constantOf(mlir::Value value);
  /// a ⋈ b is b swapped(⋈) a.
  static mlir::arith::CmpIPredicate swapped(mlir::arith::CmpIPredicate predicate);
  bool isOfRow(mlir::Value value, Scope &scope);
  bool isUniform(mlir::Value translated) { return translated.getParentBlock() != body.getBlock(); }
  bool isPositive(mlir::Value divisor);
  Range rangeOf(mlir::Value value);

  static std::optional<Linear> combined(const Linear &a, const Linear &b, int64_t sign);
  std::optional<Linear> linear(mlir::Value value, Scope &scope);
  std::optional<Linear> findLinear(mlir::Value value, Scope &scope);
  std::optional<Division> divisionOf(mlir::Operation &op, Scope &scope);
  /// divisionOf, if the divisor may be large enough to be split.
  std::optional<Division> longDivision(mlir::Operation &op, Scope &scope);
  /// divisionOf, if the divisor is large enough to be split.
  std::optional<Division> splittable(mlir::Operation &op, Scope &scope);

  mlir::Value translate(Scope scope);
  mlir::Value split(const Division &division, Scope &scope);
  /// The quotient and the remainder of `dividend`, which is in `range`.
  std::pair<mlir::Value, mlir::Value> divide(mlir::Value dividend, Range range,
                                             mlir::Value divisor);
  /// The same for an unsigned dividend, by a product with ⌊(2^32 - 1) / divisor⌋.
  std::pair<mlir::Value, mlir::Value> divideByProduct(mlir::Value dividend, mlir::Value divisor,
                                                      mlir::Value reciprocal);
  mlir::Value formula(mlir::Value value, Scope &scope);
  mlir::Value writeFormula(mlir::Value value, Scope &scope);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value left, mlir::Value right,
                      Scope &scope);
  mlir::Value writeComparison(mlir::arith::CmpIPredicate predicate, mlir::Value left,
                              mlir::Value right, Scope &scope);
  /// Whether difference ⋈ 0. The coefficient of its column is 1 or -1.
  mlir::Value compareColumn(mlir::arith::CmpIPredicate predicate, const Linear &difference,
                            Scope &scope);
  mlir::Value element(mlir::Value value, Scope &scope);
  mlir::Value writeElement(mlir::Value value, Scope &scope);
  /// Writes `sign` times `form` at column 0, before the map if possible.
  mlir::Value emitFirst(const Linear &form, int64_t sign, Ends ends, Scope &scope);
  mlir::Value joined(bool isAnd, mlir::Value a, mlir::Value b);

  // MaskPeriods.cpp
  std::optional<MaskTraits::Period> periodOf(mlir::Value divisor);
  /// divisionOf, if the divisor gives a period.
  std::optional<Division> shortDivision(mlir::Operation &op, Scope &scope);
  std::pair<mlir::Value, mlir::Value> divideBy(mlir::Value dividend,
                                               const MaskTraits::Period &period);
  /// For `dividend`, a value of the hook that has this form.
  Residue residueOf(mlir::Value dividend, const Linear &form, const MaskTraits::Period &period,
                    Scope &scope);
  mlir::Value phaseOf(mlir::Value start, mlir::Value period, mlir::Value factor);
  mlir::Value remainderOf(const Residue &residue);
  mlir::Value quotientOf(const Residue &residue);
  /// Returns null if `op` has no period.
  mlir::Value periodicElement(mlir::Operation &op, Scope &scope);
  /// Whether difference ⋈ 0. It has a division with the factor 1 or -1, and no column.
  mlir::Value compareDivision(mlir::arith::CmpIPredicate predicate, const Linear &difference,
                              Scope &scope);
  mlir::Value isQuotientLess(const Residue &residue, Linear limit, bool negated, Scope &scope);
  mlir::Value isRemainderLess(const Residue &residue, mlir::Value limit, bool negated);
  /// `isPossible`: the limit is known to be from 0 to divisor - 1.
  mlir::Value isRemainder(const Residue &residue, mlir::Value limit, bool isPossible, bool negated);
  static bool isRemainderBy(const Linear &limit, mlir::Value divisor, const mlir::IRMapping &ofRow);
  mlir::Value negatedIf(bool negated, mlir::Value truth);

  mlir::Block *hook;
  mlir::OpBuilder &before, &body;
  mlir::Value column, columnIndex, firstColumn;
  int64_t columns;
  const MaskTraits &traits;
  const Range ofIndex; ///< the range of indices of queries and keys
  mlir::IRMapping ofRow;
  llvm::DenseSet<mlir::Value> byRow;
  llvm::DenseMap<int64_t, MaskTraits::Period> constantPeriods;
  llvm::DenseMap<mlir::Value, Range> ranges;
};

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_MASKTRANSLATION_H
