//===- Gradient.h - The derivatives of a variant ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_GRADIENT_H
#define TESELA_GRADIENT_H

#include "tesela/Export.h"
#include "tesela/Status.h"
#include "tesela/Variant.h"
#include "tesela/VariantGradient.h"

#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// The derivatives of the score and of the sink of the variant in `text`, as texts of the language.
/// `file` names it in diagnostics; `constants` are its `const` parameters, those with a default may
/// be left out. No GPU is needed. May be called from any thread.
///
/// Errors: Code::invalidVariant with all diagnostics; Code::invalidArgument where a constant is
/// missing or is no number of its type; Code::unsupported where a derivative is larger than a text
/// of the language may be.
TESELA_EXPORT Result<VariantGradient>
variantGradient(std::string_view text, std::string_view file,
                const std::vector<ScalarArgument> &constants = {});

/// The derivatives as lines, as `tesela gradient` prints them: the `let` statements, then one for
/// each derivative, "d score / d a[h, i] = c[h, i, k]    for i < 8"; those of the sink behind those
/// of the score.
TESELA_EXPORT std::string gradientText(const VariantGradient &gradient);

} // namespace tesela

#endif // TESELA_GRADIENT_H
