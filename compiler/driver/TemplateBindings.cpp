//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/TemplateBindings.h"

#include "driver/GradientSums.h"
#include "schedule/Schedule.h"
#include "schedule/Workers.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

using namespace mlir;

namespace tesela {

static Error invalid(const std::string &message) { return Error(Code::invalidArgument, message); }

Places placesOf(const KernelSpecification &specification) {
  Places place;
  for (const std::string &binding : specification.bindings) {
    auto [name, value] = StringRef(binding).split('=');
    if (name == "queries")
      place.queries = value.str();
    else if (name == "keys")
      place.keys = value.str();
    else if (name == "positions")
      place.positions = value.str();
    else if (name == "cache")
      place.cache = value.str();
    else if (name == "scales")
      place.scales = value.str();
    else if (name == "prefix")
      place.prefix = value.str();
    else if (name == "values")
      place.values = value.str();
    else if (name == "page" && value.getAsInteger(10, place.page))
      place.page = -1; // the value is not a number
  }
  if (place.keys != "paged") // then `page` is a parameter of the template
    place.page = 0;
  return place;
}

/// Whether `text` is a number or an element type.
static bool isValue(StringRef text) {
  int64_t number;
  if (!text.getAsInteger(10, number))
    return number >= 0 && number <= std::numeric_limits<int32_t>::max();
  constexpr StringRef types[] = {"f32", "f16", "bf16", "e4m3", "i8", "i32"};
  return llvm::is_contained(types, text);
}

/// The names of all kernels' parameters, each once.
static std::vector<std::string> parametersOf(ArrayRef<tile::KernelOp> kernels) {
  std::vector<std::string> names;
  for (tile::KernelOp kernel : kernels)
    for (Attribute parameter : const_cast<tile::KernelOp &>(kernel).getParameters()) {
      std::string name = cast<StringAttr>(parameter).getValue().str();
      if (!llvm::is_contained(names, name))
        names.push_back(std::move(name));
    }
  return names;
}

/// Checks that the other bindings fit a shared prefix.
static Status checkPrefix(const KernelSpecification &specification) {
  Places place = placesOf(specification);
  if (place.prefix.empty())
    return Status::success();
  if (place.prefix != "shared")
    return invalid(fmt::format("the binding prefix must be 'shared', not '{}': leave it out if "
                               "sequences share no keys",
                               place.prefix));
  if (!specification.isAttention())
    return invalid(fmt::format("only forward and forward_in_parts support prefix=shared, not "
                               "'{}': leave it out",
                               specification.algorithm));
  if (specification.dropout)
    return invalid("prefix=shared does not support dropout, because the rows of the prefix's "
                   "kernels are not tokens: leave out one of them");
  if (place.keys != "paged" || place.queries != "ragged" || place.positions != "end")
    return invalid("prefix=shared needs keys=paged, queries=ragged and positions=end: add "
                   "these bindings");
  return Status::success();
}

Result<std::vector<std::string>> templateBindings(const KernelSpecification &specification,
                                                  ArrayRef<tile::KernelOp> kernels,
                                                  ArrayRef<ParameterGradient> gradients) {
  const std::string &algorithm = specification.algorithm;
  std::vector<std::string> bindings = {
      fmt::format("d_qk={}", specification.headDimQk),
      fmt::format("d_v={}", specification.headDimV),
      fmt::format("padded_qk={}", paddedHeadDim(specification.headDimQk)),
      fmt::format("padded_v={}", paddedValueDim(specification)),
      fmt::format("input={}", elementTypeName(specification.inputType)),
  };
  if (specification.isInParts())
    bindings.push_back(fmt::format("shares_of_equal={}", sharesOfEqual(specification)));
  if (!gradients.empty()) {
    bool sumsBatches = llvm::any_of(gradients, [](auto &each) { return each.sumsBatches; }),
         sumsHeads = llvm::any_of(gradients, [](auto &each) { return each.sumsHeads; });
    bindings.push_back(fmt::format("sum_batches={:d}", sumsBatches));
    bindings.push_back(fmt::format("sum_heads={:d}", sumsHeads));
  }
  // The parameters that have a value. The caller must not give those before `derived`.
  std::vector<std::string> bound = {"block_m", "block_n", "heads"};
  for (const std::string &binding : bindings)
    bound.push_back(binding.substr(0, binding.find('=')));
  size_t derived = bound.size();
  std::vector<std::string> parameters = parametersOf(kernels), own;
  for (const std::string &parameter : parameters)
    if (!llvm::is_contained(bound, parameter))
      own.push_back(parameter);

  if (Places place = placesOf(specification); !place.cache.empty() && place.cache != "e4m3")
    return invalid(
        fmt::format("the binding cache must be 'e4m3', not '{}': leave it out for keys and "
                    "values of the input's type",
                    place.cache));
  if (!specification.hasNarrowKeys() &&
      llvm::any_of(specification.bindings,
                   [](const std::string &each) { return StringRef(each).starts_with("scales="); }))
    return invalid("scales=… needs keys and values of 8 bits: also bind cache=e4m3");
  if (Status status = checkPrefix(specification); !status)
    return status.error();
  if (Places place = placesOf(specification); !place.values.empty() && place.values != "keys")
    return invalid(fmt::format("the binding values must be 'keys', not '{}': leave it out if "
                               "values have their own tensor",
                               place.values));
  if (hasValuesOfKeys(specification) && !specification.isAttention())
    return invalid(fmt::format("only the templates '{}' and '{}' support values=keys, not '{}': "
                               "pass a separate tensor of values",
                               forwardAlgorithm, partsAlgorithm, algorithm));
  std::vector<std::string> places;
  bool isPaged = placesOf(specification).keys == "paged";
  for (const std::string &binding : specification.bindings) {
    if (!gradients.empty() && StringRef(binding).starts_with(gradientBinding))
      continue; // its meaning is in `gradients`
    if (std::string name = StringRef(binding).split('=').first.str();
        llvm::is_contained(placeBindings, std::string_view(name)) || (name == "page" && isPaged)) {
      if (llvm::is_contained(places, name))
        return invalid(fmt::format("the parameter '{}' is bound twice: bind it once", name));
      places.push_back(name);
      continue;
    }
    auto [name, value] = StringRef(binding).split('=');
    if (name.empty() || !isValue(value))
      return invalid(
          fmt::format("the binding '{}' must have the form name=value, where the value is a "
                      "whole number or one of f32, f16, bf16, e4m3, i8 and i32, for example "
                      "columns=64",
                      binding));
    size_t place = llvm::find(bound, name.str()) - bound.begin();
    if (place < derived)
      return invalid(
          fmt::format("the parameter '{}' is set by the kernel's options or its schedule: leave "
                      "it out of the bindings",
                      name.str()));
    if (place < bound.size())
      return invalid(fmt::format("the parameter '{}' is bound twice: bind it once", name.str()));
    if (!llvm::is_contained(own, name))
      return invalid(fmt::format(
          "the template '{}' has no parameter '{}' to bind; {}", algorithm, name.str(),
          own.empty() ? "it has none" : fmt::format("it has {}", fmt::join(own, ", "))));
    bound.push_back(name.str());
    bindings.push_back(binding);
  }
  for (const std::string &parameter : own)
    if (!llvm::is_contained(bound, parameter))
      return invalid(fmt::format("the parameter '{}' of the template '{}' has no value: bind it, "
                                 "for example {}=64",
                                 parameter, algorithm, parameter));
  return bindings;
}

} // namespace tesela
