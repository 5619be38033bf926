//===- Gradient.cpp -------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Gradient.h"

#include "frontend/Constants.h"
#include "system/UnfinishedWork.h"
#include "tesela/compiler/Gradient.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tesela {

Result<VariantGradient> variantGradient(std::string_view text, std::string_view file,
                                        const std::vector<ScalarArgument> &constants) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  std::vector<ConstantValue> values;
  values.reserve(constants.size());
  for (const ScalarArgument &constant : constants)
    values.push_back({constant.name, constant.value});
  Result<Variant> variant = parseVariant(text, file, values);
  if (!variant)
    return variant.error();
  return gradientOf(*variant, text);
}

static std::string lineOf(const PartialDerivative &partial, const char *of) {
  std::string by = partial.by;
  if (!partial.indices.empty())
    by += fmt::format("[{}]", fmt::join(partial.indices, ", "));
  std::string rounds;
  if (!partial.rounds.empty())
    rounds = fmt::format("    for {}", fmt::join(partial.rounds, ", "));
  return fmt::format("d {} / d {} = {}{}\n", of, by, partial.text, rounds);
}

static std::string linesOf(const Derivatives &derivatives, const char *of) {
  std::string text;
  for (const std::string &let : derivatives.lets)
    text += let + "\n";
  for (const PartialDerivative &partial : derivatives.partials)
    text += lineOf(partial, of);
  return text;
}

std::string gradientText(const VariantGradient &gradient) {
  std::string text = linesOf(gradient.score, "score");
  if (gradient.sink)
    text += linesOf(*gradient.sink, "sink");
  return text;
}

} // namespace tesela
