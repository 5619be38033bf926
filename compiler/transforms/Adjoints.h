//===- Adjoints.h - The sums of a reverse sweep -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The adjoint of a value v is ∂y / ∂v, a sum with one term for each use of v. A term is kept as a
// product of factors until it is written, so that equal factors above and below the fraction bar
// cancel: cap · (1 - t²) / cap is 1 - t².
//
// A term has a guard: the conditions of the surrounding `?:` under which this use is computed. A
// product is never used where its guard is false, because its factors may be NaN or infinite
// there: `s > 0 ? log(s) : 0` has the derivative `s > 0 ? 1 / s : 0`, and not
// `(s > 0 ? 1 : 0) / s`, which is NaN at s = 0. Guards form a tree. The terms of both sides of a
// condition are joined in the parent node.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_ADJOINTS_H
#define TESELA_COMPILER_TRANSFORMS_ADJOINTS_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace tesela {

/// coefficient · Π over / Π under.
struct Product {
  double coefficient = 1;
  llvm::SmallVector<mlir::Value, 4> over, under;

  Product times(mlir::Value value) const;
  Product dividedBy(mlir::Value value) const;
  Product times(double number) const;
  Product times(const Product &other) const;
  size_t size() const { return over.size() + under.size(); }
};

/// A condition that must be true (or false) inside another guard. Equal guards are one object.
struct Guard {
  const Guard *outer; ///< null for the root, which always holds
  mlir::Value condition;
  bool holds;
  int depth;
};

/// `product` where the guard holds, and 0 elsewhere.
struct Term {
  const Guard *guard;
  Product product;
};

/// Collects terms and writes them at the insertion point of a builder.
class Adjoints {
public:
  /// `isUniform` says whether a value is the same for all pairs of a tile. Such factors are
  /// multiplied first, so that a kernel multiplies them once for a tile.
  Adjoints(mlir::OpBuilder &builder, std::function<bool(mlir::Value)> isUniform)
      : loc(builder.getUnknownLoc()), builder(builder), isUniform(std::move(isUniform)) {}

  const Guard *always() const { return &root; }
  const Guard *where(const Guard *outer, mlir::Value condition, bool holds);

  /// The terms of each value's adjoint, in the order of the sweep.
  using Terms = llvm::MapVector<mlir::Value, llvm::SmallVector<Term>>;
  void add(mlir::Value value, Term term);
  /// Joins all terms of `value` into one and forgets them. Without terms the adjoint is 0, and the
  /// result is nullopt. `isLast`: the adjoint is a result and will not be multiplied further.
  std::optional<Term> take(mlir::Value value, bool isLast = false);
  const Terms &collected() const { return terms; }

  mlir::Value write(const Product &product);
  /// Writes 0 where the guard is false.
  mlir::Value write(const Term &term);
  mlir::Value number(double value);

  /// While this object lives, code may be written into another region, and has its own terms.
  class Region {
  public:
    explicit Region(Adjoints &adjoints)
        : adjoints(adjoints), insertion(adjoints.builder), conditions(adjoints.conditions),
          terms(std::exchange(adjoints.terms, {})) {}
    ~Region() {
      adjoints.conditions = std::move(conditions);
      adjoints.terms = std::move(terms);
    }

  private:
    Adjoints &adjoints;
    mlir::OpBuilder::InsertionGuard insertion;
    llvm::DenseMap<const Guard *, mlir::Value> conditions;
    Terms terms;
  };

  mlir::Location loc; ///< of the ops that are written

private:
  /// A sum of products.
  using Sum = llvm::SmallVector<Product, 2>;
  /// A sum for each guard.
  using Sums = llvm::MapVector<const Guard *, Sum>;

  static void add(Sum &sum, const Product &product);
  bool joinDeepest(Sums &sums, bool isLast);
  Term joinApart(const Sums &sums);
  Product product(const Sum &sum);
  /// `chosen` where the condition of `guard` is as the guard says, `other` elsewhere.
  mlir::Value select(const Guard *guard, mlir::Value chosen, mlir::Value other);
  /// The guard as an i1, without the conditions of `from`, which is an outer guard.
  mlir::Value condition(const Guard *guard, const Guard *from);
  mlir::Value negation(mlir::Value condition);
  mlir::Value magnitude(const Product &product);
  mlir::Value multiplied(mlir::ValueRange factors, mlir::Value first = {});

  mlir::OpBuilder &builder;
  std::function<bool(mlir::Value)> isUniform;
  const Guard root{nullptr, {}, true, 0};
  std::deque<Guard> guards;
  std::map<std::tuple<const Guard *, void *, bool>, const Guard *> guardOf;
  llvm::DenseMap<const Guard *, mlir::Value> conditions; ///< already written
  Terms terms;
};

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_ADJOINTS_H
