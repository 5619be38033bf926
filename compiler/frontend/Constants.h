//===- Constants.h - const parameters become numbers ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_CONSTANTS_H
#define TESELA_FRONTEND_CONSTANTS_H

#include "frontend/Variant.h"
#include "tesela/Status.h"

#include <string_view>
#include <vector>

namespace tesela {

/// Replaces each `const` parameter of `variant` by its value in `values`, or by its default. The
/// remaining parameters, in their order, are those of a launch. Errors: Code::invalidArgument if a
/// value is missing, is given twice, is not a number of the parameter's type, or belongs to no
/// `const` parameter.
Result<Variant> bindConstants(Variant variant, const std::vector<ConstantValue> &values);

/// Parses a text and binds its constants: parseVariant, then bindConstants.
Result<Variant> parseVariant(std::string_view text, std::string_view file,
                             const std::vector<ConstantValue> &values);

} // namespace tesela

#endif // TESELA_FRONTEND_CONSTANTS_H
