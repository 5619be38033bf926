//===- ScoreTranslation.h - A score's normal form ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A score is evaluated for each pair of a query and a key, and a tensor core leaves about 16
// instructions of a thread for each at D 128. So its arithmetic is brought into a normal form
// first:
//
//   Σ cᵢ · vᵢ + u
//
// where u and the cᵢ are the same for the whole tile and each vᵢ is the product of q and k, a
// position as f32, or what no rule covers. Sums, differences, negation, products with and quotients
// by what is the same for the tile keep the form. Scores may be rounded in another order than they
// are written in (docs/numerics.md); masks never come here.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_SCORETRANSLATION_H
#define TESELA_COMPILER_TRANSFORMS_SCORETRANSLATION_H

#include "analysis/Positions.h"

#include "mlir/IR/IRMapping.h"

#include <limits>

namespace tesela {

/// The sum of the terms and of `constant`, which is the same for the whole tile and may be null.
struct Linear {
  /// coefficient · value; without a coefficient, the value itself.
  struct Term {
    mlir::Value coefficient; ///< the same for the whole tile
    mlir::Value value;       ///< of the element
  };
  llvm::SmallVector<Term> terms;
  mlir::Value constant;
};

/// Translates the ops of one hook. What is the same for the whole tile is written at `uniforms`,
/// the rest into the body of a tile.map at `body`.
class ScoreTranslation {
public:
  /// `product`, `row`, `column`: of the element: q · k, and where it stands in the tile, its row by
  /// its position.
  /// `exact`: f32 is computed as the hook writes it.
  ScoreTranslation(mlir::Block *hook, bool exact, mlir::OpBuilder &uniforms, mlir::OpBuilder &body,
                   mlir::Value product, mlir::Value row, mlir::Value column)
      : hook(hook), exact(exact), uniforms(uniforms), body(body), product(product), row(row),
        column(column) {}

  void setUniform(mlir::Value value, mlir::Value outside) { uniform.map(value, outside); }
  /// `value` is the index of a query or of a key: less than an extent, which is an i32.
  void setIndex(mlir::Value value, Position position) {
    positions[value] = position;
    ranges[value] = {0, std::numeric_limits<int32_t>::max() - 1};
  }
  /// `value` is `element` of the body.
  void setElement(mlir::Value value, mlir::Value element) { elements.map(value, element); }
  void setLinear(mlir::Value value, Linear form) { forms[value] = std::move(form); }

  /// After the ops that give its operands.
  void translate(mlir::Operation &op);

  /// The normal form of a value of the hook.
  Linear linear(mlir::Value value);
  /// The element of a normal form, written into the body.
  mlir::Value element(const Linear &form);

  Linear scaled(const Linear &form, mlir::Value factor);
  /// The argument of the tanh that gave `value` (of the body), or null.
  const Linear *tanhArgument(mlir::Value value) const;
  /// tanh of `argument`, written into the body.
  Linear tanh(const Linear &argument, mlir::Location loc);

private:
  /// Values that an i32 takes which is formed without leaving i32.
  struct Range {
    int64_t low, high;
  };

  /// What stands outside of the hook is the same for the tile by construction.
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
  mlir::IRMapping uniform;  ///< of the hook's values, those that are the same for the tile
  mlir::IRMapping elements; ///< those written into the body
  llvm::DenseMap<mlir::Value, Position> positions;
  llvm::DenseMap<mlir::Value, Range> ranges;
  llvm::DenseMap<mlir::Value, Linear> forms, tanhArguments;
};

/// Whether what the body of a map computes is finite where its sources are: with no quotient,
/// logarithm or element of a tensor in it.
bool isSurelyFinite(mlir::Block &body);

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_SCORETRANSLATION_H
