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

/// `variant` with a number in the place of each `const` parameter: its value in `values`, else its
/// default. What is left are a launch's parameters, in their order. Errors: Code::invalidArgument
/// where a value is missing, given twice, no number of the parameter's type, or of no `const`
/// parameter.
Result<Variant> bindConstants(Variant variant, const std::vector<ConstantValue> &values);

/// The variant of a text, with its constants: parseVariant, then bindConstants.
Result<Variant> parseVariant(std::string_view text, std::string_view file,
                             const std::vector<ConstantValue> &values);

} // namespace tesela

#endif // TESELA_FRONTEND_CONSTANTS_H
