//===- VariantGradient.h - The derivatives of a variant ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_VARIANTGRADIENT_H
#define TESELA_VARIANTGRADIENT_H

#include <optional>
#include <string>
#include <vector>

namespace tesela {

/// One derivative, as text of the language. Without indices, where y is the score or the sink:
///
///     ∂y / ∂by = text
///
/// With indices it is what one read of a captured tensor contributes. Indices are clamped as in a
/// read. Several reads may use the same tensor. Each of `rounds` contributes separately:
///
///     for each of rounds:  ∂y / ∂by[indices] += text
struct PartialDerivative {
  std::string by;                   ///< "s", or a parameter's name
  std::vector<std::string> indices; ///< one per axis: "h", "k - q"
  std::vector<std::string> rounds;  ///< of the reductions around the read, outermost first: "i < 8"
  /// A number that may use `lets` and the names in scope at the read. "0": the score or sink does
  /// not depend on `by`; for a tensor, `indices` is then empty.
  std::string text;
};

/// The derivatives of a score or a sink.
struct Derivatives {
  std::vector<std::string> lets; ///< statements that come before the texts: "let t1 = tanh(s)"
  /// By `s` (score only), then by each f32 scalar, then by each f32, f16 and bf16 tensor.
  std::vector<PartialDerivative> partials;
};

/// The derivatives of a variant. Its `const` parameters appear as numbers.
struct VariantGradient {
  std::string name; ///< the variant's
  Derivatives score;
  std::optional<Derivatives> sink; ///< if the variant has one
  /// A note for each int() or floor through which no derivative passes, as `file:line:column: note:
  /// ...` with a caret. Empty if there is none.
  std::string notes;
};

} // namespace tesela

#endif // TESELA_VARIANTGRADIENT_H
