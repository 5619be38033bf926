//===- Parameters.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Parameters.h"

#include "tesela/Check.h"
#include "tesela/NearestName.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <map>

namespace tesela::tool {

static Error invalid(std::string message) {
  return Error(Code::invalidArgument, std::move(message));
}

Result<LaunchExtents> extentsOf(const LaunchShape &shape) {
  LaunchExtents extents{shape.batch, shape.heads, shape.kvHeads.value_or(shape.heads), shape.length,
                        shape.kvLength.value_or(shape.length)};
  if (extents.H < 1 || extents.Hkv < 1)
    return invalid(
        fmt::format("{} 0: at least 1 head is needed.", extents.H < 1 ? "--heads" : "--kv-heads"));
  if (extents.H % extents.Hkv != 0)
    return invalid(fmt::format("--heads {} is not a multiple of --kv-heads {}: each key/value head "
                               "serves the same number of query heads.",
                               extents.H, extents.Hkv));
  return extents;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

static Result<double> parseScalar(const std::string &name, ElementType type,
                                  const std::string &text) {
  if (type == ElementType::i32) {
    int32_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      return invalid(fmt::format("--param {}={}: '{}' is i32: give a whole number from -2^31 to "
                                 "2^31 - 1.",
                                 name, text, name));
    return double(value);
  }
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0')
    return invalid(fmt::format("--param {}={}: '{}' is {}: give a number.", name, text, name,
                               elementTypeName(type)));
  return value;
}

/// The scalar parameter that `name` may misspell, else all of them.
static std::string scalarNames(const VariantInfo &variant, const std::string &name) {
  std::string names;
  std::vector<std::string_view> known;
  for (const VariantParameter &parameter : variant.parameters)
    if (!parameter.isCapture) {
      names += (names.empty() ? "" : ", ") + parameter.name;
      known.push_back(parameter.name);
    }
  if (std::string_view near = nearestName(name, known); !near.empty())
    return fmt::format("did you mean '{}'?", near);
  return names.empty() ? "it has none." : fmt::format("it has: {}.", names);
}

/// `kind`: what messages call the parameters of `variant`.
static Result<std::vector<ScalarArgument>>
parseAssignments(const std::vector<std::string> &assignments, const VariantInfo &variant,
                 const char *kind) {
  std::vector<ScalarArgument> scalars;
  for (const std::string &assignment : assignments) {
    size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0)
      return invalid(fmt::format("--param {}: write it as name=value.", assignment));
    std::string name = assignment.substr(0, equals);
    auto parameter =
        std::find_if(variant.parameters.begin(), variant.parameters.end(),
                     [&](const VariantParameter &candidate) { return candidate.name == name; });
    if (parameter == variant.parameters.end())
      return invalid(fmt::format("--param {}: {} has no {} parameter '{}'; {}", assignment,
                                 variant.name, kind, name, scalarNames(variant, name)));
    if (parameter->isCapture)
      return invalid(fmt::format("--param {}: '{}' is a captured tensor: put it into the file of "
                                 "--input, under its name.",
                                 assignment, name));
    if (std::any_of(scalars.begin(), scalars.end(),
                    [&](const ScalarArgument &earlier) { return earlier.name == name; }))
      return invalid(fmt::format("--param {}: '{}' is given twice.", assignment, name));
    Result<double> value = parseScalar(name, parameter->type, assignment.substr(equals + 1));
    if (!value)
      return value.error();
    scalars.push_back({name, *value});
  }
  for (const VariantParameter &parameter : variant.parameters)
    if (!parameter.isCapture && !parameter.defaultValue &&
        std::none_of(scalars.begin(), scalars.end(),
                     [&](const ScalarArgument &scalar) { return scalar.name == parameter.name; }))
      return invalid(fmt::format("{}: the parameter '{}' ({}) has no default: give it with --param "
                                 "{}=VALUE.",
                                 variant.name, parameter.name, elementTypeName(parameter.type),
                                 parameter.name));
  return scalars;
}

Result<std::vector<ScalarArgument>> parseScalars(const std::vector<std::string> &assignments,
                                                 const VariantInfo &variant) {
  return parseAssignments(assignments, variant, "scalar");
}

Result<std::vector<ScalarArgument>> parseConstants(const std::vector<std::string> &assignments,
                                                   const VariantInfo &variant) {
  for (const VariantParameter &parameter : variant.parameters) {
    bool isGiven =
        std::any_of(assignments.begin(), assignments.end(), [&](const std::string &assignment) {
          return assignment.starts_with(parameter.name + "=");
        });
    if (!isGiven || parameter.isConstant)
      continue;
    std::string remedy = parameter.isCapture
                             ? ""
                             : fmt::format(", or declare it `const {}: {}`", parameter.name,
                                           elementTypeName(parameter.type));
    return invalid(fmt::format("--param {0}: '{0}' of {1} is an argument of the launch and not "
                               "compiled in: leave --param out{2}.",
                               parameter.name, variant.name, remedy));
  }
  VariantInfo constants = variant;
  std::erase_if(constants.parameters,
                [](const VariantParameter &parameter) { return !parameter.isConstant; });
  return parseAssignments(assignments, constants, "const");
}

std::vector<ScalarArgument> takeConstants(std::vector<ScalarArgument> &scalars,
                                          const VariantInfo &variant) {
  auto isConstant = [&](const ScalarArgument &scalar) {
    return std::any_of(variant.parameters.begin(), variant.parameters.end(),
                       [&](const VariantParameter &parameter) {
                         return parameter.isConstant && parameter.name == scalar.name;
                       });
  };
  std::vector<ScalarArgument> constants;
  std::copy_if(scalars.begin(), scalars.end(), std::back_inserter(constants), isConstant);
  std::erase_if(scalars, isConstant);
  return constants;
}

//===----------------------------------------------------------------------===//
// Captures
//===----------------------------------------------------------------------===//

static Result<HostTensor> randomCapture(const VariantParameter &parameter,
                                        const LaunchExtents &launch, uint64_t seed) {
  const std::map<std::string, int64_t> known{
      {"B", launch.B}, {"H", launch.H}, {"Hkv", launch.Hkv}, {"Sq", launch.Sq}, {"Sk", launch.Sk}};
  std::vector<int64_t> extents;
  for (const VariantExtent &extent : parameter.extents) {
    auto found = known.find(extent.name);
    int64_t value = found != known.end() ? found->second : launch.Sk;
    extents.push_back(std::max<int64_t>(0, extent.coefficient * value + extent.offset));
  }
  Result<HostTensor> tensor = HostTensor::allocate(rowMajor(parameter.type, extents));
  if (!tensor)
    return tensor.error().within("capture '" + parameter.name + "'");
  if (parameter.type == ElementType::i32)
    fillUniform(tensor->view(), seed, 0, launch.Sk);
  else if (parameter.type == ElementType::boolean)
    fillUniform(tensor->view(), seed, 0, 1);
  else
    fillNormal(tensor->view(), seed);
  return tensor;
}

Result<std::vector<NamedTensor>> randomCaptures(const VariantInfo &variant,
                                                const LaunchExtents &extents, uint64_t seed) {
  std::vector<NamedTensor> captures;
  uint64_t number = seed * 1000 + 4; // each tensor has its own seed; q, k and v have the first ones
  for (const VariantParameter &parameter : variant.parameters) {
    if (!parameter.isCapture)
      continue;
    Result<HostTensor> capture = randomCapture(parameter, extents, number++);
    if (!capture)
      return capture.error();
    captures.emplace_back(parameter.name, std::move(*capture));
  }
  return captures;
}

Result<std::vector<NamedTensor>> readCaptures(const SafetensorsFile &file,
                                              const VariantInfo &variant) {
  std::vector<NamedTensor> captures;
  for (const VariantParameter &parameter : variant.parameters) {
    if (!parameter.isCapture)
      continue;
    Result<HostTensor> capture = file.read(parameter.name);
    if (!capture)
      return capture.error().within(fmt::format("{} captures '{}'", variant.name, parameter.name));
    captures.emplace_back(parameter.name, std::move(*capture));
  }
  return captures;
}

} // namespace tesela::tool
