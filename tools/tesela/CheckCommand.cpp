//===- CheckCommand.cpp - `tesela check` and `tesela variants` -----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "ExitCode.h"
#include "StandardOutput.h"
#include "VariantFile.h"

#include "tesela/Variant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace tesela::tool {

/// "2*Sk+1", "n", "4".
static std::string format(const VariantExtent &extent) {
  if (extent.coefficient == 0 || extent.name.empty())
    return std::to_string(extent.offset);
  std::string text = extent.coefficient == 1 ? "" : fmt::format("{}*", extent.coefficient);
  text += extent.name;
  if (extent.offset != 0)
    text += fmt::format("{:+}", extent.offset);
  return text;
}

/// "window: i32 = 1024", "const window: i32" or "slope: f32[H]".
static std::string format(const VariantParameter &parameter) {
  std::string text = fmt::format("{}{}: {}", parameter.isConstant ? "const " : "", parameter.name,
                                 elementTypeName(parameter.type));
  if (parameter.isCapture) {
    for (size_t i = 0; i < parameter.extents.size(); ++i)
      text += (i == 0 ? "[" : ", ") + format(parameter.extents[i]);
    return text + "]";
  }
  // An f32 has enough digits to be unique among f32 values; an i32 is exact in double.
  if (parameter.defaultValue && parameter.type == ElementType::f32)
    text += fmt::format(" = {}", static_cast<float>(*parameter.defaultValue));
  else if (parameter.defaultValue)
    text += fmt::format(" = {}", *parameter.defaultValue);
  return text;
}

static std::string format(const VariantInfo &variant) {
  std::string text = variant.name + "(";
  for (size_t i = 0; i < variant.parameters.size(); ++i)
    text += (i == 0 ? "" : ", ") + format(variant.parameters[i]);
  return text + ")";
}

int check(const std::vector<std::string> &names) {
  int exitCode = exitSuccess;
  for (const std::string &name : names) {
    Result<OpenedVariant> opened = openVariant(name);
    if (!opened) {
      exitCode = std::max<int>(exitCode, reportBadInput(opened.error()));
      continue;
    }
    const auto &[file, variant] = *opened;
    print(fmt::format("{}: {}: no errors\n", file.path, format(variant)));
  }
  return exitCode;
}

int variants() {
  std::vector<std::string> names = libraryVariants();
  if (names.empty())
    return report(Error(Code::notFound,
                        "the library's folder share/tesela/variants was not found "
                        "next to the executable's folder: install the package again."));
  for (const std::string &name : names) {
    Result<VariantFile> file = readVariant(name);
    if (!file)
      return report(file.error());
    Result<VariantInfo> variant = checkVariant(file->text, file->path);
    if (!variant)
      return report(variant.error());
    print(fmt::format("{:<20} {}\n", name, format(*variant)));
  }
  return exitSuccess;
}

} // namespace tesela::tool
