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

#include <cstdio>

namespace tesela::tool {

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
  print(gradientText(*gradient));
  std::fputs(gradient->notes.c_str(), stderr);
  return exitSuccess;
}

} // namespace tesela::tool
