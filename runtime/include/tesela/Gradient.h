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

/// The derivatives of the score and of the sink of the variant in `text`, as text of the language.
/// `file` names it in diagnostics. `constants` are its `const` parameters; those with a default may
/// be left out. No GPU is needed. May be called from any thread.
///
/// Errors: Code::invalidVariant with all diagnostics; Code::invalidArgument if a constant is
/// missing or is not a number of its type; Code::unsupported if a derivative exceeds the language's
/// size limit for a text.
TESELA_EXPORT Result<VariantGradient>
variantGradient(std::string_view text, std::string_view file,
                const std::vector<ScalarArgument> &constants = {});

/// The derivatives as lines, as `tesela gradient` prints them: first the `let` statements, then a
/// line for each derivative, "d score / d a[h, i] = c[h, i, k]    for i < 8". The sink's lines
/// follow the score's.
TESELA_EXPORT std::string gradientText(const VariantGradient &gradient);

} // namespace tesela

#endif // TESELA_GRADIENT_H
