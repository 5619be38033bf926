//===- GradientCommand.cpp - `tesela gradient` ----------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "ExitCode.h"
#include "Parameters.h"
#include "StandardOutput.h"
#include "VariantFile.h"

#include "tesela/Gradient.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

namespace tesela::tool {

/// "d score / d a[h, i] = c[h, i, k]    for i < 8".
static std::string format(const PartialDerivative &partial, const char *of) {
  std::string by = partial.by;
  if (!partial.indices.empty())
    by += fmt::format("[{}]", fmt::join(partial.indices, ", "));
  std::string rounds;
  if (!partial.rounds.empty())
    rounds = fmt::format("    for {}", fmt::join(partial.rounds, ", "));
  return fmt::format("d {} / d {} = {}{}\n", of, by, partial.text, rounds);
}

static std::string format(const Derivatives &derivatives, const char *of) {
  std::string text;
  for (const std::string &let : derivatives.lets)
    text += let + "\n";
  for (const PartialDerivative &partial : derivatives.partials)
    text += format(partial, of);
  return text;
}

int gradient(const GradientOptions &options) {
  Result<OpenedVariant> opened = openVariant(options.variant);
  if (!opened)
    return reportBadInput(opened.error());
  const auto &[file, variant] = *opened;
  Result<std::vector<ScalarArgument>> constants = parseConstants(options.constants, variant);
  if (!constants)
    return reportBadInput(constants.error());
  Result<VariantGradient> gradient = variantGradient(file.text, file.path, *constants);
  if (!gradient)
    return report(gradient.error());
  std::string text = format(gradient->score, "score");
  if (gradient->sink)
    text += format(*gradient->sink, "sink");
  print(text);
  std::fputs(gradient->notes.c_str(), stderr);
  return exitSuccess;
}

} // namespace tesela::tool
