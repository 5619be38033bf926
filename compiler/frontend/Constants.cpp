//===- Constants.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Constants.h"

#include "frontend/Parser.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace tesela {
namespace {

Error invalid(const std::string &message) { return Error(Code::invalidArgument, message); }

/// The end of a message, for example "; the variant has the const parameters window, cap".
std::string knownConstants(const Variant &variant) {
  std::string names;
  for (const Parameter &parameter : variant.parameters)
    if (parameter.isConstant)
      names += (names.empty() ? "" : ", ") + parameter.name;
  return names.empty() ? "; the variant has none" : "; the variant has " + names;
}

Status checkNames(const Variant &variant, const std::vector<ConstantValue> &values) {
  for (const ConstantValue &value : values) {
    auto named = [&](const auto &each) { return each.name == value.name; };
    auto parameter = std::find_if(variant.parameters.begin(), variant.parameters.end(), named);
    if (parameter == variant.parameters.end())
      return invalid("there is no const parameter '" + value.name + "'" + knownConstants(variant));
    if (!parameter->isConstant)
      return invalid("the parameter '" + value.name +
                     "' is not const: pass it to the launch, or write 'const' before it");
    if (std::count_if(values.begin(), values.end(), named) > 1)
      return invalid("the const parameter '" + value.name + "' is given twice: pass it once");
  }
  return Status::success();
}

/// The value of a const parameter, as a number of its type.
Result<double> valueOf(const Parameter &parameter, const std::vector<ConstantValue> &values) {
  std::optional<double> value = parameter.defaultValue;
  for (const ConstantValue &given : values)
    if (given.name == parameter.name)
      value = given.value;
  if (!value)
    return invalid("the const parameter '" + parameter.name +
                   "' has no default: pass it among the kernel's constants");
  std::string is = "the const parameter '" + parameter.name + "' is " + std::to_string(*value);
  if (parameter.type == ElementType::i32) {
    if (!(*value >= std::numeric_limits<int32_t>::min() &&
          *value <= std::numeric_limits<int32_t>::max()) ||
        *value != std::floor(*value))
      return invalid(is + ", it must be a whole number that fits 32 bits");
    return *value;
  }
  constexpr double limit = 0x1.ffffffp127; // numbers from here on would round to an infinite f32
  if (std::isfinite(*value) && std::fabs(*value) >= limit)
    return invalid(is + ", it must fit f32: at most 3.4028235e38, or infinity itself");
  return double(float(*value));
}

} // namespace

Result<Variant> bindConstants(Variant variant, const std::vector<ConstantValue> &values) {
  if (Status status = checkNames(variant, values); !status)
    return status.error();
  std::vector<double> constants(variant.parameters.size());
  std::vector<int32_t> numbers; // the new numbers of the remaining parameters
  int32_t left = 0;
  for (size_t i = 0; i < variant.parameters.size(); ++i) {
    const Parameter &parameter = variant.parameters[i];
    numbers.push_back(left);
    left += !parameter.isConstant;
    if (!parameter.isConstant)
      continue;
    Result<double> value = valueOf(parameter, values);
    if (!value)
      return value.error();
    constants[i] = *value;
  }
  for (Node &node : variant.nodes) {
    if (node.op != Operator::scalar && node.op != Operator::read)
      continue;
    int32_t number = node.integer;
    node.integer = numbers[number];
    if (!variant.parameters[number].isConstant)
      continue;
    node.op = Operator::constant;
    if (node.type == ScalarType::i32)
      node.integer = static_cast<int32_t>(constants[number]);
    else
      node.number = static_cast<float>(constants[number]);
  }
  for (BoundExtent &bound : variant.boundExtents)
    bound.parameter = numbers[bound.parameter];
  std::erase_if(variant.parameters, [](const Parameter &each) { return each.isConstant; });
  return variant;
}

Result<Variant> parseVariant(std::string_view text, std::string_view file,
                             const std::vector<ConstantValue> &values) {
  Result<Variant> variant = parseVariant(text, file);
  if (!variant)
    return variant.error();
  return bindConstants(std::move(*variant), values);
}

} // namespace tesela
