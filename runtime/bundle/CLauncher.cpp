//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "bundle/CLauncher.h"

#include "bundle/CLaunches.h"
#include "bundle/CNames.h"
#include "bundle/CTensors.h"
#include "bundle/LauncherTemplates.h"
#include "launch/CheckedParameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace tesela {

namespace {

/// "2*Sk+1"
std::string textOf(const CaptureExtent &extent) {
  if (extent.coefficient == 0)
    return std::to_string(extent.offset);
  std::string text =
      extent.coefficient == 1 ? extent.name : fmt::format("{}*{}", extent.coefficient, extent.name);
  return extent.offset ? text + fmt::format("{:+}", extent.offset) : text;
}

/// "i32[B, Sk]"
std::string shapeOf(const Parameter &capture) {
  std::string text;
  for (const CaptureExtent &extent : capture.extents)
    text += (text.empty() ? "" : ", ") + textOf(extent);
  return std::string(elementTypeName(capture.type)) + "[" + text + "]";
}

/// A float as C writes it, exactly.
std::string floatText(float value) {
  if (std::isnan(value))
    return "NAN";
  if (std::isinf(value))
    return value > 0 ? "HUGE_VALF" : "-HUGE_VALF";
  return fmt::format("{:a}f", value);
}

/// The members of NAME_arguments for the variant's parameters.
std::string parameterFields(const std::vector<Parameter> &parameters,
                            const std::vector<std::string> &members) {
  std::string text;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter &parameter = parameters[i];
    if (parameter.isCapture) {
      text += fmt::format("  struct {{\n    const void *data;\n    int64_t extents[{0}];\n"
                          "    int64_t strides[{0}]; /* in elements */\n  }} {1}; /* {2} */\n",
                          parameter.extents.size(), members[i], shapeOf(parameter));
      continue;
    }
    std::string value =
        parameter.defaultValue ? fmt::format("{}", float(*parameter.defaultValue)) : "none: set it";
    if (parameter.defaultValue && parameter.type == ElementType::i32)
      value = std::to_string(int32_t(*parameter.defaultValue));
    text +=
        fmt::format("  {} {}; /* default: {} */\n",
                    parameter.type == ElementType::i32 ? "int32_t" : "float", members[i], value);
  }
  return text;
}

std::string defaultScalars(const std::vector<Parameter> &parameters,
                           const std::vector<std::string> &members) {
  std::string text;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter &parameter = parameters[i];
    if (parameter.isCapture || !parameter.defaultValue)
      continue;
    // C has no literal for -2^31
    std::string value = parameter.type == ElementType::i32
                            ? fmt::format("(int32_t)({}LL)", int64_t(*parameter.defaultValue))
                            : floatText(float(*parameter.defaultValue));
    text += fmt::format("  arguments->{} = {};\n", members[i], value);
  }
  return text;
}

/// The end of a message about an extent of a captured tensor. It is written into a C string.
std::string ofSequences(const CaptureExtent &extent, const std::vector<int> &asked) {
  auto named = std::ranges::find(extentNames, extent.name);
  bool isAsked = std::ranges::count(asked, named - extentNames.begin());
  return extent.coefficient != 0 && isAsked ? atPositions(extent.name) : "";
}

/// The function check_captures: checks each captured tensor against its declaration, in order. A
/// name that is not an extent of the launch is defined by the first extent that contains it.
/// `asked`: the extents that no tensor defines.
std::string checkCaptures(const std::string &name, const std::vector<Parameter> &parameters,
                          const std::vector<std::string> &members, const std::vector<int> &asked) {
  std::map<std::string, std::string> known{
      {"B", "c->x.B"}, {"H", "c->x.H"}, {"Hkv", "c->x.Hkv"}, {"Sq", "c->x.Sq"}, {"Sk", "c->x.Sk"}};
  std::string declarations, body;
  size_t bound = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter &parameter = parameters[i];
    if (!parameter.isCapture)
      continue;
    std::string declared = "declared_" + parameter.name, view = "c->capture_" + parameter.name;
    declarations += fmt::format("static const capture {} = {{\"{}\", \"{}\", {}, {}}};\n", declared,
                                parameter.name, elementTypeName(parameter.type),
                                elementSize(parameter.type), parameter.extents.size());
    body += fmt::format("  take_view(&{0}, {1}, a->{2}.data, a->{2}.extents, a->{2}.strides);\n",
                        view, parameter.extents.size(), members[i]);
    std::vector<std::string> calls;
    for (size_t axis = 0; axis < parameter.extents.size(); ++axis) {
      const CaptureExtent &extent = parameter.extents[axis];
      bool isBound = extent.coefficient == 0 || known.contains(extent.name);
      std::string value = "0";
      if (extent.coefficient != 0 && !isBound)
        known[extent.name] = fmt::format("bound[{}]", bound++);
      if (extent.coefficient != 0)
        value = (isBound ? "" : "&") + known[extent.name];
      calls.push_back(fmt::format("{}(&{}, &{}, {}, {}, \"{}\", {}, {}, \"{}\"{}, c->error)",
                                  isBound ? "match_extent" : "bind_extent", declared, view, axis,
                                  extent.coefficient, extent.name, value, extent.offset,
                                  textOf(extent),
                                  isBound ? ", \"" + ofSequences(extent, asked) + "\"" : ""));
    }
    calls.push_back(
        fmt::format("check_capture(&{}, &{}, c->kernel->zeros, c->error)", declared, view));
    for (const std::string &call : calls)
      body += fmt::format("  if ((status = {}) != {}_ok)\n    return status;\n", call, name);
  }
  if (body.empty())
    return "";
  std::string text = declarations + "\nstatic int check_captures(call *c) {\n";
  text += fmt::format("  const {}_arguments *a = c->arguments;\n", name);
  if (bound)
    text += fmt::format("  int64_t bound[{}] = {{0}}; /* what captured tensors tell */\n", bound);
  return text + "  int status;\n" + body + fmt::format("  return {}_ok;\n}}\n\n", name);
}

std::string captureViews(const std::vector<Parameter> &parameters) {
  std::string text;
  for (const Parameter &parameter : parameters)
    if (parameter.isCapture)
      text += "  view capture_" + parameter.name + ";\n";
  return text;
}

/// The code as 64-bit words, little-endian like the target machines; at least one zero byte
/// follows.
std::string wordsOf(const std::string &code) {
  std::string text;
  for (size_t at = 0; at <= code.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, code.data() + at, std::min<size_t>(8, code.size() - at));
    text += fmt::format("{:#x},{}", word, at / 8 % 5 == 4 ? "\n" : " ");
  }
  return text + "\n";
}

/// A template's text with `@key@` replaced. Leaves out the lines between `@if function` and `@end`
/// if `generated` does not call that function, and the lines between `@unless function` and `@end`
/// if it does.
std::string fill(std::string_view text, const std::map<std::string, std::string> &values,
                 const std::string &generated) {
  std::string filled;
  bool isLeftOut = false;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string line(text.substr(begin, end - begin));
    begin = end + 1;
    if (line.starts_with("@if ")) {
      isLeftOut = generated.find(line.substr(4) + "(") == generated.npos;
      continue;
    }
    if (line.starts_with("@unless ")) {
      isLeftOut = generated.find(line.substr(8) + "(") != generated.npos;
      continue;
    }
    if (line == "@end") {
      isLeftOut = false;
      continue;
    }
    if (isLeftOut)
      continue;
    for (const auto &[key, value] : values) {
      std::string mark = "@" + key + "@";
      if (line == mark && value.empty()) // an empty value on its own line removes the line
        line = "@";
      for (size_t at = line.find(mark); at != line.npos; at = line.find(mark, at + value.size()))
        line.replace(at, mark.size(), value);
    }
    if (line != "@")
      filled += line + (line.ends_with('\n') ? "" : "\n");
  }
  return filled;
}

} // namespace

Result<std::vector<TextFile>> makeCLauncher(const std::string &name, const std::string &version,
                                            const std::vector<CLauncherTarget> &targets) {
  const Artifact &any = *targets.front().artifact;
  for (const Parameter &parameter : any.parameters)
    if (parameter.name.find('.') != std::string::npos) // the parameters of dropout
      return noLauncherFor(any,
                           "the parameter '" + parameter.name + "', whose name is not valid in C");
  MemberNames names = memberNames(any.tensors, any.parameters, name);
  std::vector<const Artifact *> artifacts;
  artifacts.reserve(targets.size());
  for (const CLauncherTarget &target : targets)
    artifacts.push_back(target.artifact);
  const std::vector<int> asked = askedExtents(artifacts);
  Result<CTensors> tensors = writeTensors(name, any, asked, names);
  if (!tensors)
    return tensors.error();
  const std::vector<std::string> &members = names.parameters;
  std::string launches, rows, list;
  size_t mostLaunches = 1, mostWorkspaces = 1;
  std::vector<TextFile> files;
  for (const CLauncherTarget &target : targets) {
    Result<CLaunches> written = writeLaunches(name, target, names);
    if (!written)
      return written.error();
    launches += written->functions;
    rows += written->row;
    std::string targetName = target.artifact->target.name();
    list += (list.empty() ? "" : ", ") + targetName;
    mostLaunches = std::max(mostLaunches, target.artifact->launches.size());
    mostWorkspaces = std::max(mostWorkspaces, target.artifact->workspaces.size());
    files.push_back({name + "_" + targetName + ".inc", wordsOf(target.artifact->code)});
  }
  std::string captures = checkCaptures(name, any.parameters, members, asked);
  const std::map<std::string, std::string> values{
      {"name", name},
      {"variant", any.variantName},
      {"version", version},
      {"targets", list},
      {"target_list", list},
      {"kind", tensors->hasScale ? "Attention" : "The kernel"},
      {"head_dim_qk", std::to_string(any.headDimQk)},
      {"first_tensor", names.tensors.front()},
      {"tensor_types", tensors->types},
      {"tensor_fields", tensors->fields},
      {"tensor_defaults", tensors->defaults},
      {"extent_defaults",
       tensors->defaults.empty() ? "" : "extents to -1 where you have to set them, else to 1, "},
      {"tensor_views", tensors->views},
      {"tensor_declarations", tensors->declarations},
      {"tensor_checks", tensors->checks},
      {"late_tensor_checks", tensors->lateChecks},
      {"parameter_fields", parameterFields(any.parameters, members)},
      {"capture_views", captureViews(any.parameters)},
      {"most_launches", std::to_string(mostLaunches)},
      {"most_workspaces", std::to_string(mostWorkspaces)},
      {"check_captures", captures},
      {"launches", launches},
      {"target_table", rows},
      {"default_scale", floatText(float(1.0 / std::sqrt(double(any.headDimQk))))},
      {"default_scalars", defaultScalars(any.parameters, members)},
  };
  std::string generated = launches + captures + tensors->checks + tensors->lateChecks, source;
  for (const char *part : {launcherDriver, launcherChecks, launcherLaunches, launcherFunctions})
    source += fill(part, values, generated);
  files.insert(files.begin(), {{name + ".h", fill(launcherHeader, values, generated)},
                               {name + ".c", std::move(source)}});
  return files;
}

} // namespace tesela
