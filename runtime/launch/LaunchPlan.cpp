//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "launch/LaunchPlan.h"

#include "launch/TensorSpan.h"
#include "launch/TensorTiling.h"

#include <bit>
#include <limits>

namespace tesela {

int LaunchPlan::parameterIndex(const Artifact &artifact, std::string_view name) {
  for (size_t i = 0; i < artifact.parameters.size(); ++i)
    if (name == "$" + artifact.parameters[i].name)
      return int(i);
  return -1;
}

Result<std::vector<LaunchPlan::BoundExpression>>
LaunchPlan::bind(const std::vector<Expression> &expressions, const Artifact &artifact) {
  std::vector<BoundExpression> bound;
  for (const Expression &expression : expressions) {
    BoundExpression &each = bound.emplace_back(BoundExpression{expression, {}});
    for (const CaptureAxis &axis : expression.captureAxes()) {
      int index = parameterIndex(artifact, axis.name);
      if (index < 0 || !artifact.parameters[index].isCapture ||
          axis.axis >= int(artifact.parameters[index].extents.size()))
        return Error(Code::defect, "the artifact of '" + artifact.variantName +
                                       "' has the expression '" + expression.text() +
                                       "', and no such captured tensor");
      each.captureAxes.emplace_back(index, axis.axis);
    }
  }
  return bound;
}

Result<LaunchPlan::Slot> LaunchPlan::resolve(const ArgumentSlot &slot, const Artifact &artifact) {
  using Kind = ArgumentSlot::Kind;
  auto defect = [&] {
    return Error(Code::defect, "the artifact of '" + artifact.variantName +
                                   "' has a slot of kind " + std::to_string(int(slot.kind)) +
                                   " for '" + slot.name + "', axis " + std::to_string(slot.axis) +
                                   ", which it does not have");
  };
  Slot resolved{slot.kind, Owner::extents, -1, slot.axis, slot.heads};
  if (slot.kind == Kind::scale || slot.kind == Kind::counter)
    return resolved;
  if (slot.kind == Kind::extent && slot.name.empty())
    return slot.axis >= 0 && slot.axis < 5 ? Result<Slot>(resolved) : defect();
  auto isAxis = [&](size_t rank) { return slot.axis >= -1 && slot.axis < int(rank); };
  bool isOfAnAxis = slot.kind == Kind::stride || slot.kind == Kind::extent;
  for (size_t i = 0; i < artifact.workspaces.size(); ++i)
    if (artifact.workspaces[i].name == slot.name) {
      resolved.owner = Owner::workspace;
      resolved.index = int(i);
      bool fits =
          slot.kind == Kind::data || (isOfAnAxis && isAxis(artifact.workspaces[i].extents.size()));
      return fits ? Result<Slot>(resolved) : defect();
    }
  if (slot.name.starts_with('$')) {
    resolved.owner = Owner::parameter;
    resolved.index = parameterIndex(artifact, slot.name);
    if (resolved.index < 0)
      return defect();
    const Parameter &parameter = artifact.parameters[resolved.index];
    bool fits = slot.kind == Kind::scalar ? !parameter.isCapture
                : slot.kind == Kind::data
                    ? parameter.isCapture
                    : parameter.isCapture && isOfAnAxis && isAxis(parameter.extents.size());
    return fits ? Result<Slot>(resolved) : defect();
  }
  resolved.owner = Owner::tensor;
  constexpr std::string_view tensors[] = {"q", "k", "v", "o", "lse"};
  for (int i = 0; i < 5; ++i)
    if (slot.name == tensors[i])
      resolved.index = i;
  if (slot.kind == Kind::tensorMap) {
    bool fits = elementSize(artifact.inputType) == 2 && resolved.index >= 0 && resolved.index < 4 &&
                slot.axis >= 1 && slot.axis <= 256 && slot.heads >= 1 && slot.heads <= 256 &&
                (slot.heads == 1 || slot.name == "q" || slot.name == "o");
    return fits ? Result<Slot>(resolved) : defect();
  }
  if (slot.kind == Kind::coordinateStep) {
    bool fits = resolved.index >= 0 && resolved.index < 4 && (slot.axis == 0 || slot.axis == 1);
    return fits ? Result<Slot>(resolved) : defect();
  }
  bool axisFits = slot.axis >= 0 && slot.axis < (resolved.index == 4 ? 3 : 4);
  if (resolved.index < 0 || slot.kind == Kind::scalar || (slot.kind != Kind::data && !axisFits))
    return defect();
  return resolved;
}

Result<LaunchPlan> LaunchPlan::create(const Artifact &artifact) {
  LaunchPlan plan;
  plan.signature_ = {artifact.inputType, artifact.headDimQk, artifact.headDimV,
                     artifact.parameters};
  // A grid's x extent is below 2^31. Expressions hold what leaves 64 bits at the largest number.
  plan.maxItems = artifact.target.kind == Target::Kind::cuda
                      ? std::numeric_limits<int32_t>::max()
                      : std::numeric_limits<int64_t>::max() - 1;
  for (const Launch &launch : artifact.launches) {
    Result<std::vector<BoundExpression>> extents = bind(launch.extents, artifact);
    if (!extents)
      return extents.error();
    Step step{launch.items, *extents, parameterIndex(artifact, launch.summarizes), {}};
    bool isSummary = !launch.summarizes.empty();
    if ((!extents->empty() && extents->size() != 5) || !launch.items.captureAxes().empty() ||
        (isSummary && (step.summarizes < 0 || artifact.workspaces.empty())))
      return Error(Code::defect, "kernel " + launch.kernel +
                                     " has other extents than B H Hkv Sq Sk, or summarizes what is "
                                     "not there");
    int tensorMaps = 0;
    for (const ArgumentSlot &slot : launch.slots) {
      Result<Slot> resolved = resolve(slot, artifact);
      if (!resolved)
        return resolved.error();
      step.slots.push_back(*resolved);
      tensorMaps += slot.kind == ArgumentSlot::Kind::tensorMap;
    }
    if (tensorMaps > maxTensorMaps)
      return Error(Code::defect, "kernel " + launch.kernel + " has " + std::to_string(tensorMaps) +
                                     " tensor maps, a launch takes " +
                                     std::to_string(maxTensorMaps));
    plan.steps.push_back(std::move(step));
  }
  for (const Workspace &workspace : artifact.workspaces) {
    Result<std::vector<BoundExpression>> shape = bind(workspace.extents, artifact);
    if (!shape)
      return shape.error();
    if (shape->empty() || shape->size() > Tensor::maxRank)
      return Error(Code::defect, "the workspace " + workspace.name + " has " +
                                     std::to_string(shape->size()) + " axes");
    plan.workspaceShapes.push_back(std::move(*shape));
  }
  return plan;
}

int64_t LaunchPlan::BoundExpression::evaluate(const CheckedArguments &arguments) const {
  std::vector<int64_t> values;
  for (auto [parameter, axis] : captureAxes)
    values.push_back(arguments.captures[parameter].extents[axis]);
  return expression.evaluate(arguments.extents, values);
}

Result<Extents> LaunchPlan::extentsOf(const Step &step, const CheckedArguments &arguments) {
  if (step.extents.empty())
    return arguments.extents;
  int32_t values[5];
  for (int i = 0; i < 5; ++i) {
    int64_t value = step.extents[i].evaluate(arguments);
    if (value < 0 || value > std::numeric_limits<int32_t>::max())
      return Error(Code::unsupported,
                   "the summary of a captured tensor has an extent of " + std::to_string(value) +
                       ", it must lie in [0, 2147483647]: put the tensor's leading axes together");
    values[i] = int32_t(value);
  }
  return Extents{values[0], values[1], values[2], values[3], values[4]};
}

Result<std::pair<std::vector<Tensor>, size_t>>
LaunchPlan::layOut(const CheckedArguments &arguments) const {
  std::vector<Tensor> tensors;
  int64_t end = 0;
  for (const Shape &shape : workspaceShapes) {
    Tensor tensor;
    tensor.data = reinterpret_cast<void *>(end);
    tensor.type = ElementType::i32;
    tensor.rank = int(shape.size());
    int64_t elements = 1, bytes;
    bool fits = true;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      int64_t extent = shape[axis].evaluate(arguments);
      fits &= extent >= 0 && extent <= std::numeric_limits<int32_t>::max();
      tensor.extents[axis] = extent;
      tensor.strides[axis] = elements;
      fits &= !__builtin_mul_overflow(elements, extent, &elements);
    }
    fits &= !__builtin_mul_overflow(elements, 4, &bytes) &&
            !__builtin_add_overflow(bytes, workspaceAlignment - 1, &bytes) &&
            !__builtin_add_overflow(end, bytes / workspaceAlignment * workspaceAlignment, &end);
    if (!fits)
      return Error(Code::unsupported, "the summary of a captured tensor has more elements than 64 "
                                      "bits can count the bytes of: make the tensor smaller");
    tensors.push_back(tensor);
  }
  return std::pair(std::move(tensors), size_t(end));
}

/// The slot's value in its first bytes (little-endian machines only, as all of
/// Tesela's are).
uint64_t LaunchPlan::value(const Slot &slot, const Extents &extents,
                           const CheckedArguments &arguments,
                           const std::vector<Tensor> &workspaceTensors, const LoadedCode &code) {
  using Kind = ArgumentSlot::Kind;
  if (slot.kind == Kind::scale)
    return std::bit_cast<uint32_t>(arguments.scale);
  if (slot.kind == Kind::scalar)
    return arguments.scalarBits[slot.index];
  if (slot.owner == Owner::extents) {
    const int32_t values[] = {extents.B, extents.H, extents.Hkv, extents.Sq, extents.Sk};
    return uint32_t(values[slot.axis]);
  }
  const Tensor &tensor = slot.owner == Owner::tensor      ? arguments.tensors[slot.index]
                         : slot.owner == Owner::parameter ? arguments.captures[slot.index]
                                                          : workspaceTensors[slot.index];
  // A capture without elements reads as zero wherever a kernel asks (ArgumentSlot::Kind::data).
  bool readsZero = slot.owner != Owner::tensor && hasNoElements(tensor);
  switch (slot.kind) {
  case Kind::data:
    return readsZero ? code.addressOfZero() : reinterpret_cast<uintptr_t>(tensor.data);
  case Kind::stride:
    return readsZero || slot.axis < 0 ? 0 : uint64_t(tensor.strides[slot.axis]);
  case Kind::coordinateStep:
    return uint32_t(coordinateStep(tensor, slot.axis));
  default:
    return slot.axis < 0 ? 1 : uint32_t(tensor.extents[slot.axis]);
  }
}

static Error tooManyItems(int64_t items, int64_t maxItems, const char *remedy) {
  return Error(Code::unsupported, "the launch has " + std::to_string(items) +
                                      " work items, this device takes " + std::to_string(maxItems) +
                                      ": " + remedy);
}

Status LaunchPlan::checkItems(const Extents &extents) const {
  for (const Step &step : steps)
    if (int64_t items = step.items.evaluate(extents); step.extents.empty() && items > maxItems)
      return tooManyItems(items, maxItems,
                          "split the batch, the heads or the queries over several launches");
  return Status::success();
}

Status LaunchPlan::checkCaptures(const CheckedArguments &arguments) const {
  for (const Step &step : steps) {
    if (step.extents.empty())
      continue;
    Result<Extents> extents = extentsOf(step, arguments);
    if (!extents)
      return extents.error();
    if (int64_t items = step.items.evaluate(*extents); items > maxItems)
      return tooManyItems(items, maxItems, "put the captured tensor's leading axes together");
  }
  if (workspaceShapes.empty())
    return Status::success();
  auto layout = layOut(arguments);
  return layout ? Status::success() : Status(layout.error());
}

/// From which tensor a summary was made.
static std::vector<int64_t> describeSource(const Tensor &tensor) {
  std::vector<int64_t> source = {int64_t(reinterpret_cast<uintptr_t>(tensor.data))};
  for (int axis = 0; axis < tensor.rank; ++axis) {
    source.push_back(tensor.extents[axis]);
    source.push_back(tensor.strides[axis]);
  }
  return source;
}

Status LaunchPlan::launch(const LoadedCode &code, const CheckedArguments &arguments, void *stream,
                          Workspaces *workspaces) const {
  if (workspaceShapes.empty())
    return launchSteps(code, arguments, stream, {}, nullptr);
  if (!workspaces)
    return Error(Code::defect, "a plan with workspaces was launched without any");
  auto layout = layOut(arguments);
  if (!layout)
    return layout.error();
  auto &[tensors, bytes] = *layout;
  Result<StreamWorkspace *> workspace = workspaces->of(stream);
  if (!workspace)
    return workspace.error();
  std::lock_guard lock((*workspace)->mutex);
  if (Status status = workspaces->reserve(**workspace, bytes, stream); !status)
    return status;
  std::vector<int64_t> extents;
  for (Tensor &tensor : tensors) {
    extents.insert(extents.end(), tensor.extents.begin(), tensor.extents.begin() + tensor.rank);
    tensor.data =
        static_cast<char *>((*workspace)->address) + reinterpret_cast<uintptr_t>(tensor.data);
  }
  if ((*workspace)->layout != extents) {
    (*workspace)->layout = std::move(extents);
    (*workspace)->summarized.clear();
  }
  (*workspace)->summarized.resize(signature_.parameters.size());
  return launchSteps(code, arguments, stream, tensors, *workspace);
}

Status LaunchPlan::launchSteps(const LoadedCode &code, const CheckedArguments &arguments,
                               void *stream, const std::vector<Tensor> &workspaceTensors,
                               StreamWorkspace *workspace) const {
  // Which summaries stand, by parameter, before this call writes any.
  std::vector<bool> stands(workspace ? signature_.parameters.size() : 0);
  for (const Step &step : steps)
    if (int parameter = step.summarizes; parameter >= 0) {
      std::vector<int64_t> source = describeSource(arguments.captures[parameter]);
      std::vector<int64_t> &known = workspace->summarized[parameter];
      stands[parameter] = stands[parameter] || (arguments.capturesUnchanged && known == source);
      if (!stands[parameter])
        known.clear(); // until all of its launches have been started
    }
  std::vector<uint64_t> values;
  std::vector<void *> pointers;
  TensorMap maps[maxTensorMaps];
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i];
    if (step.summarizes >= 0 && stands[step.summarizes])
      continue;
    Result<Extents> extents = extentsOf(step, arguments);
    if (!extents)
      return extents.error();
    int64_t items = step.items.evaluate(*extents);
    if (items <= 0)
      continue;
    values.resize(step.slots.size());
    pointers.resize(step.slots.size());
    TensorMap *map = maps;
    for (size_t index = 0; index < step.slots.size(); ++index) {
      const Slot &slot = step.slots[index];
      if (slot.kind == ArgumentSlot::Kind::tensorMap) {
        Result<TensorTiling> tiling =
            tensorTiling(arguments, slot.index, slot.axis, slot.heads, code.addressOfZero());
        if (!tiling)
          return tiling.error();
        if (Status status = code.encodeTensorMap(*tiling, *map); !status)
          return status;
        pointers[index] = map++;
      } else if (slot.kind == ArgumentSlot::Kind::counter) {
        Result<uint64_t> counter = code.counter(stream);
        if (!counter)
          return counter.error();
        values[index] = *counter;
        pointers[index] = &values[index];
      } else {
        values[index] = value(slot, *extents, arguments, workspaceTensors, code);
        pointers[index] = &values[index];
      }
    }
    if (Status status = code.launch(i, items, pointers.data(), stream); !status)
      return status;
  }
  for (const Step &step : steps)
    if (int parameter = step.summarizes; parameter >= 0)
      workspace->summarized[parameter] = describeSource(arguments.captures[parameter]);
  return Status::success();
}

} // namespace tesela
