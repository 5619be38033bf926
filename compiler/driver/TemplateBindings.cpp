//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/TemplateBindings.h"

#include "driver/GradientSums.h"
#include "schedule/Schedule.h"
#include "schedule/Workers.h"
#include "tesela/NearestName.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

/// Whether `text` is a whole number of any size, with or without a sign.
static bool isInDigits(StringRef text) {
  text.consume_front("-");
  return !text.empty() && text.find_first_not_of("0123456789") == StringRef::npos;
}

/// "; did you mean 'paged'?" Empty if no candidate is near.
static std::string suggestion(std::string_view name,
                              const std::vector<std::string_view> &candidates) {
  std::string_view near = nearestName(name, candidates);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

/// Checks the value of a binding that has only some values. `leftOut`: what it means to leave the
/// binding out.
static Status checkValue(StringRef name, std::string_view value,
                         const std::vector<std::string_view> &values, const char *leftOut) {
  if (llvm::is_contained(values, value))
    return Status::success();
  std::string list;
  for (size_t i = 0; i < values.size(); ++i)
    list += fmt::format("{}'{}'", i == 0 ? "" : i + 1 < values.size() ? ", " : " or ", values[i]);
  if (value.empty())
    return invalid(fmt::format(
        "the binding {0} has no value, it must be {1}: bind {0}={2}, or leave it out for {3}",
        name.str(), list, values.back(), leftOut));
  std::string remedy = suggestion(value, values);
  if (remedy.empty())
    remedy = fmt::format(": leave it out for {}", leftOut);
  return invalid(
      fmt::format("the binding {} must be {}, not '{}'{}", name.str(), list, value, remedy));
}

/// Checks the rows of a page. Without keys=paged, `page` may be a parameter of the template: then
/// `isOwn` is true.
static Status checkPage(const KernelSpecification &specification, bool isPaged, bool isOwn) {
  auto isPage = [](const std::string &each) { return StringRef(each).split('=').first == "page"; };
  auto page = llvm::find_if(specification.bindings, isPage);
  bool isGiven = page != specification.bindings.end();
  if (!isPaged)
    return isGiven && !isOwn
               ? Status(invalid(fmt::format(
                     "the binding '{}' is the number of rows of a page, which needs keys=paged: "
                     "bind both, or leave it out",
                     *page)))
               : Status::success();
  if (!isGiven)
    return invalid("keys=paged needs the binding page, the number of rows of a page: add it, for "
                   "example page=64");
  StringRef value = StringRef(*page).split('=').second;
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (int64_t rows; !value.getAsInteger(10, rows) && rows >= 1 && rows <= most)
    return Status::success();
  return invalid(fmt::format("the binding page, the number of rows of a page, is '{}': it must be "
                             "a whole number from 1 to {}, for example page=64",
                             value.str(), most));
}

/// Checks the values of the bindings that every template has (Places).
static Status checkPlaces(const KernelSpecification &specification, bool hasOwnPage) {
  struct Values {
    StringRef name;
    std::vector<std::string_view> values;
    const char *leftOut;
  };
  const Values all[] = {
      {"queries", {"dense", "ragged"}, "queries of one length"},
      {"keys", {"dense", "ragged", "paged"}, "keys of one length"},
      {"positions", {"begin", "end", "given"}, "queries whose positions begin at 0"},
      {"cache", {"e4m3"}, "keys and values of the input's type"},
      {"scales", {"head", "page"}, "a scale for each head"},
      {"prefix", {"shared"}, "sequences that share no keys"},
      {"values", {"keys"}, "values with a tensor of their own"},
  };
  for (const std::string &binding : specification.bindings) {
    auto [name, value] = StringRef(binding).split('=');
    const Values *found = llvm::find_if(all, [&](const Values &each) { return each.name == name; });
    if (found == std::end(all))
      continue;
    if (Status status = checkValue(name, value, found->values, found->leftOut); !status)
      return status;
  }
  return checkPage(specification, placesOf(specification).keys == "paged", hasOwnPage);
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

/// The parameters that say among how many workers kernels deal query heads (`tile.work dealt to`).
static std::vector<std::string> dealtParameters(ArrayRef<tile::KernelOp> kernels) {
  std::vector<std::string> names;
  for (tile::KernelOp kernel : kernels)
    const_cast<tile::KernelOp &>(kernel).walk([&](tile::WorkOp work) {
      auto symbol = dyn_cast_or_null<tile::SymbolAttr>(work.getWorkersAttr());
      if (symbol && !llvm::is_contained(names, symbol.getName()))
        names.push_back(symbol.getName().str());
    });
  return names;
}

/// Among how many workers kernels deal query heads.
static int64_t keyWorkers(const KernelSpecification &specification,
                          ArrayRef<tile::KernelOp> kernels) {
  bool addInTurn = llvm::any_of(kernels, [](tile::KernelOp kernel) {
    tile::ScheduleAttr schedule = kernel.getScheduleAttr();
    return schedule && schedule->addInTurn;
  });
  return addInTurn ? keyWorkersInTurn(specification.target) : keyWorkersFor(specification.target);
}

/// Checks that the other bindings fit a shared prefix.
static Status checkPrefix(const KernelSpecification &specification) {
  Places place = placesOf(specification);
  if (place.prefix.empty())
    return Status::success();
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

/// The error for a binding that no template has and that names none of the template's `own`
/// parameters.
static Error unknownBinding(const std::string &algorithm, StringRef name,
                            const std::vector<std::string> &own) {
  std::vector<std::string_view> names(own.begin(), own.end());
  names.insert(names.end(), placeBindings.begin(), placeBindings.end());
  names.push_back("page");
  if (algorithm == "backward_parameters")
    names.push_back("gradient");
  std::string remedy = suggestion(std::string_view(name), names);
  if (remedy.empty())
    remedy =
        own.empty() ? "; it has none of its own" : fmt::format("; it has {}", fmt::join(own, ", "));
  return invalid(fmt::format("the template '{}' has no parameter '{}' to bind{}", algorithm,
                             name.str(), remedy));
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

  if (Status status = checkPlaces(specification, llvm::is_contained(own, "page")); !status)
    return status.error();
  if (!specification.hasNarrowKeys() &&
      llvm::any_of(specification.bindings,
                   [](const std::string &each) { return StringRef(each).starts_with("scales="); }))
    return invalid("scales=… needs keys and values of 8 bits: also bind cache=e4m3");
  if (Status status = checkPrefix(specification); !status)
    return status.error();
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
    bool isNamed = llvm::is_contained(bound, name) || llvm::is_contained(own, name);
    if (!name.empty() && !isNamed)
      return unknownBinding(algorithm, name, own);
    if (!name.empty() && isInDigits(value) && !isValue(value))
      return invalid(
          fmt::format("the binding '{}' is outside of the limits: a number must lie in [0, {}]",
                      binding, std::numeric_limits<int32_t>::max()));
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
    bound.push_back(name.str());
    bindings.push_back(binding);
  }
  for (std::string &parameter : dealtParameters(kernels))
    if (!llvm::is_contained(bound, parameter)) {
      bindings.push_back(fmt::format("{}={}", parameter, keyWorkers(specification, kernels)));
      bound.push_back(std::move(parameter));
    }
  for (const std::string &parameter : own)
    if (!llvm::is_contained(bound, parameter))
      return invalid(fmt::format("the parameter '{0}' of the template '{1}' has no value: bind it "
                                 "to a number or to an element type, for example {0}=64 or "
                                 "{0}=bf16",
                                 parameter, algorithm));
  return bindings;
}

} // namespace tesela
