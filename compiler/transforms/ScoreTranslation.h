//===- ScoreTranslation.h - A score's normal form ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A score is evaluated for each pair of a query and a key. While tensor cores compute, a thread has
// about 16 instructions for each pair at D 128. So the score's arithmetic is first brought into a
// normal form:
//
//   Σ cᵢ · vᵢ + u
//
// u and the cᵢ are the same for the whole tile. Each vᵢ is the product of Q and K, a position as
// f32, or a value that no rule covers. Sums, differences and negations keep the form, and so do
// products with and quotients by values that are the same for the tile. Scores may be rounded in
// another order than written (docs/numerics.md). Masks are not translated here.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_SCORETRANSLATION_H
#define TESELA_COMPILER_TRANSFORMS_SCORETRANSLATION_H

#include "analysis/Positions.h"

#include "mlir/IR/IRMapping.h"

#include <limits>

namespace tesela {

/// The sum of the terms and of `constant`. `constant` is the same for the whole tile; may be null.
struct Linear {
  /// coefficient · value; without a coefficient, the value itself.
  struct Term {
    mlir::Value coefficient; ///< the same for the whole tile
    mlir::Value value;       ///< differs between elements
  };
  llvm::SmallVector<Term> terms;
  mlir::Value constant;
};

/// Translates the ops of one hook. Values that are the same for the whole tile are written at
/// `uniforms`, all others into the body of a tile.map at `body`.
class ScoreTranslation {
public:
  /// `product` is the element's q · k. `row` and `column` are its place in the tile; the row counts
  /// positions.
  /// `exact`: f32 values are computed as the hook writes them.
  ScoreTranslation(mlir::Block *hook, bool exact, mlir::OpBuilder &uniforms, mlir::OpBuilder &body,
                   mlir::Value product, mlir::Value row, mlir::Value column)
      : hook(hook), exact(exact), uniforms(uniforms), body(body), product(product), row(row),
        column(column) {}

  void setUniform(mlir::Value value, mlir::Value outside) { uniform.map(value, outside); }
  /// `value` is the index of a query or a key. It is less than an extent, which is an i32.
  void setIndex(mlir::Value value, Position position) {
    positions[value] = position;
    ranges[value] = {0, std::numeric_limits<int32_t>::max() - 1};
  }
  /// `element` of the body is the translation of `value`.
  void setElement(mlir::Value value, mlir::Value element) { elements.map(value, element); }
  void setLinear(mlir::Value value, Linear form) { forms[value] = std::move(form); }

  /// Translates `op`. The ops of its operands must have been translated before.
  void translate(mlir::Operation &op);

  /// The normal form of a value of the hook.
  Linear linear(mlir::Value value);
  /// Writes the value of a normal form into the body.
  mlir::Value element(const Linear &form);

  Linear scaled(const Linear &form, mlir::Value factor);
  /// The argument of the tanh whose result is `value` (of the body), or null.
  const Linear *tanhArgument(mlir::Value value) const;
  /// Writes tanh of `argument` into the body.
  Linear tanh(const Linear &argument, mlir::Location loc);

private:
  /// The range of an i32 whose computation does not wrap.
  struct Range {
    int64_t low, high;
  };

  /// Values from outside the hook are always the same for the tile.
  bool isUniform(mlir::Value value) {
    return value.getParentBlock() != hook || uniform.contains(value);
  }
  std::optional<Position> position(mlir::Value value);
  std::optional<Range> range(mlir::Value value);
  void translateInteger(mlir::Operation &op);
  mlir::Value offsetOf(const Position &position, mlir::Location loc);
  mlir::Value toFloat(const Position &position, mlir::Location loc);
  std::optional<Linear> fromInteger(mlir::Value source, mlir::Location loc);
  Linear sum(const Linear &a, const Linear &b, mlir::Location loc);
  std::optional<Linear> floatArithmetic(mlir::Operation &op);
  mlir::Value element(mlir::Value value);
  mlir::Value number(mlir::Location loc, float value);

  mlir::Block *hook;
  bool exact;
  mlir::OpBuilder &uniforms, &body;
  mlir::Value product, row, column;
  mlir::IRMapping uniform;  ///< values of the hook that are the same for the tile
  mlir::IRMapping elements; ///< values of the hook that are written into the body
  llvm::DenseMap<mlir::Value, Position> positions;
  llvm::DenseMap<mlir::Value, Range> ranges;
  llvm::DenseMap<mlir::Value, Linear> forms, tanhArguments;
};

/// Whether the result of a map's body is finite if its sources are finite: the body has no
/// quotient, no logarithm and no read of a tensor.
bool isSurelyFinite(mlir::Block &body);

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_SCORETRANSLATION_H
