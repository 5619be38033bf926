//===- Adjoints.h - What a reverse sweep adds up ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The adjoint of a value v is ∂y / ∂v, a sum with one term for each use of v. A term is kept as a
// product of factors until it has to be written, so that what stands over and under cancels:
// cap · (1 - t²) / cap is 1 - t².
//
// A term has a guard: the conditions of the `?:` around, under which this use was computed. A
// product is never taken where its guard is false, because its factors may be NaN or infinite
// there: `s > 0 ? log(s) : 0` has the derivative `s > 0 ? 1 / s : 0`, and not
// `(s > 0 ? 1 : 0) / s`, which is NaN at s = 0. Guards are nodes of a tree:
// the terms of both sides of a condition join in the node above.
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

/// coefficient · over / under.
struct Product {
  double coefficient = 1;
  llvm::SmallVector<mlir::Value, 4> over, under;

  Product times(mlir::Value value) const;
  Product dividedBy(mlir::Value value) const;
  Product times(double number) const;
  Product times(const Product &other) const;
  size_t size() const { return over.size() + under.size(); }
};

/// A condition that holds, or does not, inside of another guard. There is one object for each.
struct Guard {
  const Guard *outer; ///< null: of the guard that always holds
  mlir::Value condition;
  bool holds;
  int depth;
};

/// `product` where the guard holds, 0 elsewhere.
struct Term {
  const Guard *guard;
  Product product;
};

/// Collects terms, and writes them at the insertion point of a builder.
class Adjoints {
public:
  /// `isUniform`: whether a value is the same for all pairs of a tile; such factors are multiplied
  /// first, so that a kernel does it once.
  Adjoints(mlir::OpBuilder &builder, std::function<bool(mlir::Value)> isUniform)
      : loc(builder.getUnknownLoc()), builder(builder), isUniform(std::move(isUniform)) {}

  const Guard *always() const { return &root; }
  const Guard *where(const Guard *outer, mlir::Value condition, bool holds);

  /// Terms by the value whose adjoint they are part of, in the order of the sweep.
  using Terms = llvm::MapVector<mlir::Value, llvm::SmallVector<Term>>;
  void add(mlir::Value value, Term term);
  /// All terms of `value` in one, which are then forgotten; none: its adjoint is 0.
  /// `isLast`: it is a result, and nothing is multiplied with it any more.
  std::optional<Term> take(mlir::Value value, bool isLast = false);
  const Terms &collected() const { return terms; }

  mlir::Value write(const Product &product);
  /// With 0 where the guard is false.
  mlir::Value write(const Term &term);
  mlir::Value number(double value);

  /// While it lives, what is written may stand in a region of its own, and terms are separate.
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

  mlir::Location loc; ///< of what is written

private:
  /// A sum of products.
  using Sum = llvm::SmallVector<Product, 2>;
  /// Sums by their guard.
  using Sums = llvm::MapVector<const Guard *, Sum>;

  static void add(Sum &sum, const Product &product);
  bool joinDeepest(Sums &sums, bool isLast);
  Term joinApart(const Sums &sums);
  Product product(const Sum &sum);
  /// `chosen` where the literal of `guard` is true, else `other`.
  mlir::Value select(const Guard *guard, mlir::Value chosen, mlir::Value other);
  /// The guard as an i1, inside of `from`, which is one around it.
  mlir::Value condition(const Guard *guard, const Guard *from);
  mlir::Value negation(mlir::Value condition);
  mlir::Value magnitude(const Product &product);
  mlir::Value multiplied(mlir::ValueRange factors, mlir::Value first = {});

  mlir::OpBuilder &builder;
  std::function<bool(mlir::Value)> isUniform;
  const Guard root{nullptr, {}, true, 0};
  std::deque<Guard> guards;
  std::map<std::tuple<const Guard *, void *, bool>, const Guard *> guardOf;
  llvm::DenseMap<const Guard *, mlir::Value> conditions; ///< that are written
  Terms terms;
};

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_ADJOINTS_H
