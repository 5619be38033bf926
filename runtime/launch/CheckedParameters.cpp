//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "launch/CheckedParameters.h"

#include "frontend/Dropout.h"

#include "launch/TensorSpan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string_view>

namespace tesela {

namespace {

Error invalid(const std::string &message) { return Error(Code::invalidArgument, message); }

/// "; the variant has the scalars window, cap" or "; the variant has no scalars".
std::string knownParameters(const std::vector<Parameter> &parameters, bool captures) {
  std::string names;
  for (const Parameter &parameter : parameters)
    if (parameter.isCapture == captures)
      names += (names.empty() ? "" : ", ") + parameter.name;
  std::string kind = captures ? "captured tensors" : "scalars";
  return names.empty() ? "; the variant has no " + kind
                       : "; the variant has the " + kind + " " + names;
}

/// The argument named `name`, or null; an error if there are several.
template <typename Argument>
Result<const Argument *> find(const std::vector<Argument> &arguments, const std::string &name) {
  const Argument *found = nullptr;
  for (const Argument &argument : arguments) {
    if (argument.name != name)
      continue;
    if (found)
      return invalid("the parameter '" + name + "' is given twice: pass it once");
    found = &argument;
  }
  return found;
}

template <typename Argument>
Status checkNames(const std::vector<Argument> &arguments, const std::vector<Parameter> &parameters,
                  bool captures) {
  for (const Argument &argument : arguments) {
    auto named = std::find_if(parameters.begin(), parameters.end(),
                              [&](const Parameter &each) { return each.name == argument.name; });
    if (named == parameters.end())
      return invalid("there is no parameter '" + argument.name + "'" +
                     knownParameters(parameters, captures));
    if (named->isCapture != captures)
      return invalid("the parameter '" + argument.name + "' is a " +
                     (named->isCapture ? "captured tensor: pass a tensor, not a number"
                                       : "scalar: pass a number, not a tensor"));
  }
  return Status::success();
}

/// The bits of a scalar of dropout: the probability, a word of the seed or offset, or a first
/// position.
Result<uint32_t> dropoutBits(const Parameter &parameter, double value) {
  if (parameter.type == ElementType::f32) {
    if (value >= 0 && value <= 1)
      return std::bit_cast<uint32_t>(float(value));
    return invalid(fmt::format("the probability of dropout is {}, it must lie in [0, 1]", value));
  }
  bool isPosition = parameter.name.starts_with("dropout.first_");
  if (isPosition && !(value >= 0 && value <= std::numeric_limits<int32_t>::max() &&
                      value == std::floor(value / 16) * 16))
    return invalid(fmt::format("the parameter '{}' is {}, it must be a multiple of 16 below 2^31: "
                               "pairs are dropped in squares of 16 x 16 positions",
                               parameter.name, value));
  if (value >= 0 && value <= std::numeric_limits<uint32_t>::max() && value == std::floor(value))
    return uint32_t(value);
  return invalid(fmt::format("the parameter '{}' is {}, it must be a whole number of 32 bits, from "
                             "0 to 4294967295: half of a seed or of an offset",
                             parameter.name, value));
}

Result<uint32_t> scalarBits(const Parameter &parameter, double value) {
  auto is = [&] { return "the parameter '" + parameter.name + "' is " + fmt::format("{}", value); };
  if (isDropoutParameter(parameter))
    return dropoutBits(parameter, value);
  if (parameter.type == ElementType::i32) {
    if (!(value >= std::numeric_limits<int32_t>::min() &&
          value <= std::numeric_limits<int32_t>::max()) ||
        value != std::floor(value))
      return invalid(is() + ", it must be a whole number that fits 32 bits");
    return uint32_t(int32_t(value));
  }
  // Finite values from here on would round to infinity in f32.
  constexpr double limit = 0x1.ffffffp127;
  if (std::isfinite(value) && std::fabs(value) >= limit)
    return invalid(is() + ", it must fit f32: at most 3.4028235e38, or infinity itself");
  return std::bit_cast<uint32_t>(float(value));
}

/// "2*Sk+1".
std::string extentText(const CaptureExtent &extent) {
  if (extent.coefficient == 0)
    return std::to_string(extent.offset);
  std::string text = extent.name;
  if (extent.coefficient != 1)
    text = fmt::format("{}*{}", extent.coefficient, extent.name);
  if (extent.offset)
    text += fmt::format("{:+}", extent.offset);
  return text;
}

} // namespace

std::string atPositions(std::string_view extent) {
  if (extent != "Sq" && extent != "Sk")
    return "";
  std::string ofKeys;
  if (extent == "Sk")
    ofKeys = ". Behind a cache, queries are at positions among the keys, so Sq counts as Sk; with "
             "positions=begin it counts queries from 0";
  return fmt::format(
      "; {0} is the largest length of a sequence in this launch, and the variant "
      "reads the tensor at positions in the sequence{1}. If the tensor has an "
      "element for each token of all sequences, declare it with an extent of its "
      "own, as f32[T], and read it at starts[b] + {2}, where starts is captured, too",
      extent, ofKeys, extent == "Sk" ? "k" : "q");
}

namespace {

class CaptureChecker {
public:
  /// `given`: the extents that the launch gives by name, of sequences.
  CaptureChecker(const Extents &extents, const std::vector<Parameter> &parameters,
                 const std::vector<NamedExtent> &given)
      : given(given) {
    size_t axes = 0;
    for (const Parameter &parameter : parameters)
      axes += parameter.extents.size();
    known.reset(5 + axes); // at most one name per axis
    for (Named named : {Named{"B", extents.B}, Named{"H", extents.H}, Named{"Hkv", extents.Hkv},
                        Named{"Sq", extents.Sq}, Named{"Sk", extents.Sk}})
      known[knownCount++] = named;
  }

  Status check(const Parameter &parameter, const Tensor &tensor) {
    auto is = [&] { return "the captured tensor '" + parameter.name + "' is " + describe(tensor); };
    if (tensor.type != parameter.type)
      return invalid(is() + ", the variant declares " +
                     std::string(elementTypeName(parameter.type)) + ": convert it");
    if (tensor.rank != int(parameter.extents.size()) || tensor.rank > Tensor::maxRank)
      return invalid(is() + ", the variant declares rank " +
                     std::to_string(parameter.extents.size()));
    if (isDropoutParameter(parameter) && tensor.extents[0] != 0 &&
        tensor.extents[0] != dropoutStateWords)
      return invalid(is() + fmt::format(", it must have {} words, or none", dropoutStateWords));
    for (int axis = 0; axis < tensor.rank; ++axis)
      if (Status status = checkExtent(parameter, axis, tensor.extents[axis], is); !status)
        return status;
    if (hasNoElements(tensor))
      return Status::success();
    if (!spanFits(tensor))
      return checkSpan(is(), tensor);
    if (!tensor.data)
      return invalid(is() + " and has no address: pass it in the device's memory");
    if (reinterpret_cast<uintptr_t>(tensor.data) % elementSize(tensor.type))
      return invalid(is() + ", its address must be a multiple of " +
                     std::to_string(elementSize(tensor.type)) + " bytes: copy it");
    return Status::success();
  }

private:
  struct Named {
    std::string_view name;
    int64_t value;
  };
  const std::vector<NamedExtent> &given;
  /// Extents in scope, and names bound by captures.
  ShortArray<Named, 32> known;
  size_t knownCount = 0;

  template <typename Is>
  Status checkExtent(const Parameter &parameter, int axis, int64_t actual, const Is &is) {
    const CaptureExtent &extent = parameter.extents[axis];
    if (actual < 0 || actual > std::numeric_limits<int32_t>::max())
      return invalid(is() + ", its extents must lie in [0, 2147483647]");
    const Named *end = known.begin() + knownCount;
    const Named *named =
        extent.coefficient == 0
            ? end
            : std::find_if<const Named *>(
                  known.begin(), end, [&](const Named &each) { return each.name == extent.name; });
    if (extent.coefficient != 0 && named == end) {
      // A variant may compute with the name, so the extent and the number it is divided from must
      // fit i32.
      int64_t rest = actual - extent.offset;
      if (rest % extent.coefficient || rest < 0 || rest > std::numeric_limits<int32_t>::max())
        return invalid(is() + ", its extent of axis " + std::to_string(axis) + " must be " +
                       extentText(extent) + " for a whole " + extent.name + " of at least 0" +
                       (rest > 0 ? " that fits 32 bits" : ""));
      known[knownCount++] = {extent.name, rest / extent.coefficient};
      return Status::success();
    }
    int64_t expected = extent.offset;
    if (extent.coefficient != 0)
      expected += extent.coefficient * named->value;
    expected = std::max<int64_t>(expected, 0);
    if (actual == expected)
      return Status::success();
    std::string text = extentText(extent);
    std::string why;
    if (extent.coefficient != 0)
      why = " = " + std::to_string(expected);
    if (extent.coefficient != 0 && text != extent.name)
      why += " (" + extent.name + " is " + std::to_string(named->value) + ")";
    if (extent.coefficient != 0 && std::ranges::count(given, extent.name, &NamedExtent::name))
      why += atPositions(extent.name);
    return invalid(is() + ", its extent of axis " + std::to_string(axis) + " must be " + text +
                   why);
  }
};

} // namespace

/// Whether there is an argument for each parameter, in the parameters' order. Then no name has to
/// be searched.
static bool areInOrder(const std::vector<Parameter> &parameters, const LaunchArguments &arguments) {
  if (arguments.scalars.size() + arguments.captures.size() != parameters.size())
    return false;
  auto scalar = arguments.scalars.begin();
  auto capture = arguments.captures.begin();
  for (const Parameter &parameter : parameters) {
    bool isNext = parameter.isCapture
                      ? capture != arguments.captures.end() && capture++->name == parameter.name
                      : scalar != arguments.scalars.end() && scalar++->name == parameter.name;
    if (!isNext)
      return false;
  }
  return true;
}

static Status checkInOrder(const std::vector<Parameter> &parameters,
                           const LaunchArguments &arguments, CaptureChecker &captureChecker,
                           CheckedArguments &checked) {
  auto scalar = arguments.scalars.begin();
  auto capture = arguments.captures.begin();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].isCapture) {
      if (Status status = captureChecker.check(parameters[i], capture->tensor); !status)
        return status;
      checked.captures[i] = capture++->tensor;
      continue;
    }
    Result<uint32_t> bits = scalarBits(parameters[i], scalar++->value);
    if (!bits)
      return bits.error();
    checked.scalarBits[i] = *bits;
  }
  return Status::success();
}

Status checkParameters(const std::vector<Parameter> &parameters, const LaunchArguments &arguments,
                       CheckedArguments &checked) {
  if (areInOrder(parameters, arguments)) {
    checked.scalarBits.reset(parameters.size());
    checked.captures.reset(parameters.size());
    CaptureChecker captureChecker(checked.extents, parameters, arguments.extents);
    return checkInOrder(parameters, arguments, captureChecker, checked);
  }
  if (Status status = checkNames(arguments.scalars, parameters, false); !status)
    return status;
  if (Status status = checkNames(arguments.captures, parameters, true); !status)
    return status;
  checked.scalarBits.reset(parameters.size());
  checked.captures.reset(parameters.size());
  CaptureChecker captureChecker(checked.extents, parameters, arguments.extents);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter &parameter = parameters[i];
    if (parameter.isCapture) {
      Result<const CaptureArgument *> argument = find(arguments.captures, parameter.name);
      if (!argument)
        return argument.error();
      if (!*argument && isDropoutParameter(parameter)) { // without it, the tensor has no elements
        checked.captures[i] = Tensor::contiguous(nullptr, parameter.type, {0});
        continue;
      }
      if (!*argument)
        return invalid("the captured tensor '" + parameter.name +
                       "' is missing: pass it by its name");
      if (Status status = captureChecker.check(parameter, (*argument)->tensor); !status)
        return status;
      checked.captures[i] = (*argument)->tensor;
      continue;
    }
    Result<const ScalarArgument *> argument = find(arguments.scalars, parameter.name);
    if (!argument)
      return argument.error();
    if (!*argument && !parameter.defaultValue)
      return invalid("the parameter '" + parameter.name +
                     "' is missing and has no default: pass it among the scalars");
    Result<uint32_t> bits =
        scalarBits(parameter, *argument ? (*argument)->value : *parameter.defaultValue);
    if (!bits)
      return bits.error();
    checked.scalarBits[i] = *bits;
  }
  return Status::success();
}

} // namespace tesela
