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

/// One derivative, as text of the language. With y the score or the sink, and without indices,
///
///     ∂y / ∂by = text
///
/// With indices it is what one read of a captured tensor adds: the indices are clamped as a read's
/// are, several may name one tensor, and each of `rounds` gives its own:
///
///     for each of rounds:  ∂y / ∂by[indices] += text
struct PartialDerivative {
  std::string by;                   ///< "s", or a parameter's name
  std::vector<std::string> indices; ///< one an axis: "h", "k - q"
  std::vector<std::string> rounds;  ///< of the sums around the read, outermost first: "i < 8"
  /// A number, of the names in scope where the read stands and of `lets`. "0": it does not depend
  /// on `by`; such a tensor has no indices.
  std::string text;
};

/// The derivatives of a score or a sink.
struct Derivatives {
  std::vector<std::string> lets; ///< statements that come before the texts: "let t1 = tanh(s)"
  /// By `s` (of a score), by the f32 scalars in their order, by the f32, f16 and bf16 tensors.
  std::vector<PartialDerivative> partials;
};

/// The derivatives of a variant. `const` parameters are numbers in it.
struct VariantGradient {
  std::string name; ///< the variant's
  Derivatives score;
  std::optional<Derivatives> sink; ///< where there is one
  /// Where the text has an int() or a floor that passes no derivative on: each as
  /// `file:line:column: note: ...` with a caret. Empty where there is none.
  std::string notes;
};

} // namespace tesela

#endif // TESELA_VARIANTGRADIENT_H
