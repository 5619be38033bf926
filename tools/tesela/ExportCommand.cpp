//===- ExportCommand.cpp - `tesela export` --------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "ExitCode.h"
#include "Parameters.h"
#include "StandardOutput.h"
#include "VariantFile.h"

#include "tesela/Bundle.h"

#include <fmt/format.h>

namespace tesela::tool {

static Result<BundleOptions> bundleOptions(const ExportOptions &options, const VariantFile &file,
                                           const VariantInfo &variant) {
  Result<std::vector<ScalarArgument>> constants = parseConstants(options.constants, variant);
  if (!constants)
    return constants.error();
  std::optional<ElementType> type = parseElementType(options.dtype);
  if (!type)
    return Error(Code::invalidArgument,
                 fmt::format("--dtype {}: q, k and v are bf16, f16 or f32.", options.dtype));
  BundleOptions bundle;
  bundle.kernel.variantText = file.text;
  bundle.kernel.variantFile = file.path;
  bundle.kernel.inputType = *type;
  bundle.kernel.headDimQk = static_cast<int>(options.headDim);
  bundle.kernel.headDimV = static_cast<int>(options.headDimV.value_or(options.headDim));
  bundle.kernel.expectedQueries = options.length.value_or(0);
  bundle.kernel.expectedLength = options.kvLength.value_or(options.length.value_or(0));
  bundle.kernel.schedule = options.schedule;
  bundle.kernel.constants = std::move(*constants);
  bundle.targets = options.targets;
  bundle.kernel.algorithm = options.algorithm;
  bundle.kernel.bindings = options.bindings;
  bundle.kernel.dropout = options.dropout;
  // Other algorithms get a suffix, so that a program can use the bundles of both passes together.
  bool isNamed = !options.name.empty() || options.algorithm == "forward";
  bundle.name = isNamed ? options.name : variant.name + "_" + options.algorithm;
  bundle.ptx = options.ptx;
  bundle.noLauncher = options.noLauncher;
  return bundle;
}

int exportBundle(const ExportOptions &options) {
  Result<OpenedVariant> opened = openVariant(options.variant);
  if (!opened)
    return reportBadInput(opened.error());
  const auto &[file, variant] = *opened;
  Result<BundleOptions> bundle = bundleOptions(options, file, variant);
  if (!bundle)
    return reportBadInput(bundle.error());
  useTemplateFolder(options.templateFolder);
  Result<BundleInfo> info = tesela::exportBundle(*bundle, options.folder);
  if (!info)
    return report(info.error());
  bool forC = false;
  for (const BundleTarget &target : info->targets) {
    forC |= target.target != "host" && !options.noLauncher;
    print(fmt::format("{:<8} {:<7} {:>8} bytes  {}/{}\n         {}\n", target.target,
                      target.codeFormat, target.bytes, options.folder, target.file,
                      target.schedule));
  }
  if (forC)
    print(fmt::format("C        {0}/{1}.h, {0}/{1}.c\n", options.folder, info->name));
  return exitSuccess;
}

} // namespace tesela::tool
