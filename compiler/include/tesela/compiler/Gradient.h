//===- Gradient.h - The derivatives of a variant as text --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_GRADIENT_H
#define TESELA_COMPILER_GRADIENT_H

#include "frontend/Variant.h"
#include "tesela/Status.h"
#include "tesela/VariantGradient.h"

#include <string_view>

namespace tesela {

/// The derivatives of `variant`, which was parsed from `text` and must have no `const` parameters
/// left. Error: Code::unsupported if a derivative is larger than a text of the language may be.
Result<VariantGradient> gradientOf(const Variant &variant, std::string_view text);

} // namespace tesela

#endif // TESELA_COMPILER_GRADIENT_H
