//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "launch/Signature.h"

#include <algorithm>

namespace tesela {

/// The captured tensor's axis, if the expression is just that; else null.
static const CaptureAxis *captureAxis(const Expression &extent) {
  const std::vector<CaptureAxis> &axes = extent.captureAxes();
  bool isOne = axes.size() == 1 &&
               extent.text() == axes.front().name + "." + std::to_string(axes.front().axis);
  return isOne ? &axes.front() : nullptr;
}

static DeclaredAxis declaredAxis(const std::optional<Expression> &extent,
                                 const std::vector<Parameter> &parameters) {
  if (!extent)
    return {};
  if (const CaptureAxis *captured = captureAxis(*extent)) {
    auto parameter = std::ranges::find(parameters, captured->name.substr(1), &Parameter::name);
    return {DeclaredAxis::Kind::captured, parameter - parameters.begin(), {}, captured->axis};
  }
  if (std::optional<int> index = extent->extentIndex())
    return {DeclaredAxis::Kind::extent, *index, {}};
  if (std::optional<int64_t> number = extent->constant())
    return {DeclaredAxis::Kind::number, *number, {}};
  return {DeclaredAxis::Kind::computed, 0, *extent};
}

static DeclaredTensor declaredTensor(const TensorArgument &argument,
                                     const std::vector<Parameter> &parameters = {}) {
  DeclaredTensor tensor{argument.name, argument.type, argument.role == TensorArgument::Role::out,
                        argument.contiguous, argument.optional};
  for (const std::optional<Expression> &extent : argument.extents)
    tensor.axes.push_back(declaredAxis(extent, parameters));
  for (const TensorMember &each : tensorMembers)
    if (tensor.name == each.name)
      tensor.member = each.member;
  return tensor;
}

/// Whether the expression is an axis of a captured tensor that exists.
static bool isOfCapture(const Expression &extent, const std::vector<Parameter> &parameters) {
  const CaptureAxis *axis = captureAxis(extent);
  return axis && std::ranges::any_of(parameters, [&](const Parameter &parameter) {
           return "$" + parameter.name == axis->name && parameter.isCapture &&
                  axis->axis < int(parameter.extents.size());
         });
}

/// The extents that grids of the plan's launches and captured tensors need, but no tensor defines.
/// Hkv is H if nothing defines it.
static std::vector<int> askedExtents(const Artifact &artifact) {
  std::array<bool, extentNames.size()> isTold{}, isNeeded{};
  for (const TensorArgument &tensor : artifact.tensors)
    for (const std::optional<Expression> &extent : tensor.extents)
      if (std::optional<int> index = extent ? extent->extentIndex() : std::nullopt)
        isTold[*index] = true;
  for (const Launch &launch : artifact.launches)
    for (int index : launch.extents.empty() ? launch.items.extents() : std::vector<int>())
      isNeeded[index] = true;
  for (const Parameter &parameter : artifact.parameters)
    for (const CaptureExtent &extent : parameter.extents)
      if (auto index = std::ranges::find(extentNames, extent.name); index != extentNames.end())
        isNeeded[index - extentNames.begin()] = true;
  std::vector<int> asked;
  for (int index = 0; index < int(extentNames.size()); ++index)
    if (isNeeded[index] && !isTold[index] && extentNames[index] != "Hkv")
      asked.push_back(index);
  return asked;
}

Result<Signature> Signature::of(const Artifact &artifact) {
  Signature signature;
  for (const TensorArgument &argument : artifact.tensors) {
    auto defect = [&](const std::string &what) {
      return Error(Code::defect, "the artifact of '" + artifact.variantName +
                                     "' declares the tensor '" + argument.name + "' " + what);
    };
    if (argument.extents.empty() || argument.extents.size() > Tensor::maxRank)
      return defect("with " + std::to_string(argument.extents.size()) + " axes");
    if (std::ranges::any_of(signature.tensors,
                            [&](const DeclaredTensor &each) { return each.name == argument.name; }))
      return defect("twice");
    for (const std::optional<Expression> &extent : argument.extents)
      if (extent && !extent->captureAxes().empty() && !isOfCapture(*extent, artifact.parameters))
        return defect("with the extent '" + extent->text() + "'");
    signature.tensors.push_back(declaredTensor(argument, artifact.parameters));
  }
  signature.parameters = artifact.parameters;
  for (const Launch &launch : artifact.launches)
    for (const ArgumentSlot &slot : launch.slots)
      if (slot.kind == ArgumentSlot::Kind::scale)
        signature.headDimQk = artifact.headDimQk;
  signature.asked = askedExtents(artifact);
  return signature;
}

Signature Signature::ofAttention(ElementType inputType, int headDimQk, int headDimV,
                                 std::vector<Parameter> parameters) {
  using Role = TensorArgument::Role;
  auto tensor = [](const char *name, ElementType type, Role role,
                   const std::vector<std::string> &extents, bool isOfRows = false) {
    TensorArgument argument{name, type, role, {}, /*contiguous=*/isOfRows, /*optional=*/isOfRows};
    for (const std::string &extent : extents)
      argument.extents.emplace_back(Expression::parse(extent).value());
    return declaredTensor(argument);
  };
  std::string qk = std::to_string(headDimQk), v = std::to_string(headDimV);
  return {{tensor("q", inputType, Role::in, {"B", "H", "Sq", qk}),
           tensor("k", inputType, Role::in, {"B", "Hkv", "Sk", qk}),
           tensor("v", inputType, Role::in, {"B", "Hkv", "Sk", v}),
           tensor("o", inputType, Role::out, {"B", "H", "Sq", v}),
           tensor("lse", ElementType::f32, Role::out, {"B", "H", "Sq"}, /*isOfRows=*/true)},
          std::move(parameters),
          headDimQk};
}

std::string Signature::names() const {
  std::string text;
  for (const DeclaredTensor &tensor : tensors)
    text += (text.empty() ? "" : ", ") + tensor.name;
  return text;
}

bool Signature::isPool(const DeclaredTensor &tensor) const {
  return tensor.axes.size() == 4 && tensor.axes[0].kind == DeclaredAxis::Kind::any &&
         tensor.axes[rowsOfPage].kind == DeclaredAxis::Kind::number &&
         std::ranges::find(tensors, "table", &DeclaredTensor::name) != tensors.end();
}

} // namespace tesela
