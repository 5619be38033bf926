//===- Gradient.cpp -------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Gradient.h"

#include "frontend/Constants.h"
#include "system/UnfinishedWork.h"
#include "tesela/compiler/Gradient.h"

namespace tesela {

Result<VariantGradient> variantGradient(std::string_view text, std::string_view file,
                                        const std::vector<ScalarArgument> &constants) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  std::vector<ConstantValue> values;
  for (const ScalarArgument &constant : constants)
    values.push_back({constant.name, constant.value});
  Result<Variant> variant = parseVariant(text, file, values);
  if (!variant)
    return variant.error();
  return gradientOf(*variant, text);
}

} // namespace tesela
