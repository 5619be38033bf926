//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "launch/LaunchPlan.h"

#include "backend/EnteredDevice.h"
#include "launch/TensorSpan.h"
#include "launch/TensorTiling.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

namespace tesela {

/// Remedies for a launch that is too large.
static constexpr const char *ofExtents =
    "split the batch, the heads or the queries over several launches";
static constexpr const char *ofCaptures = "put the captured tensor's leading axes together";

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
                                       "', which names a captured tensor that it does not have");
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
      resolved.readsZero = true;
      resolved.index = int(i);
      bool fits =
          slot.kind == Kind::data || (isOfAnAxis && isAxis(artifact.workspaces[i].extents.size()));
      return fits ? Result<Slot>(resolved) : defect();
    }
  if (slot.name.starts_with('$')) {
    resolved.owner = Owner::parameter;
    resolved.readsZero = true;
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
  for (size_t i = 0; i < artifact.tensors.size(); ++i)
    if (slot.name == artifact.tensors[i].name) {
      resolved.index = int(i);
      return fitsTensor(slot, artifact.tensors[i]) ? Result<Slot>(resolved) : defect();
    }
  return defect();
}

bool LaunchPlan::fitsTensor(const ArgumentSlot &slot, const TensorArgument &tensor) {
  using Kind = ArgumentSlot::Kind;
  // Copies in boxes need the axes [batch, head, position, D].
  bool hasBoxes = tensor.extents.size() == 4 && !tensor.contiguous;
  switch (slot.kind) {
  case Kind::data:
    return true;
  case Kind::stride:
  case Kind::extent:
    return slot.axis >= 0 && slot.axis < int(tensor.extents.size());
  case Kind::coordinateStep:
    return hasBoxes && (slot.axis == 0 || slot.axis == 1);
  case Kind::tensorMap: {
    // Several heads of a box share a key/value head, so they must be query heads.
    bool hasQueryHeads = hasBoxes && tensor.extents[1] && tensor.extents[1]->text() == "H";
    return hasBoxes && elementSize(tensor.type) <= 2 && slot.axis >= 1 && slot.axis <= 256 &&
           slot.heads >= 1 && slot.heads <= 256 && (slot.heads == 1 || hasQueryHeads);
  }
  default:
    return false;
  }
}

Result<LaunchPlan> LaunchPlan::create(const Artifact &artifact) {
  LaunchPlan plan;
  Result<Signature> signature = Signature::of(artifact);
  if (!signature)
    return signature.error();
  plan.signature_ = std::move(*signature);
  // A grid's x extent is below 2^31. An expression that overflows 64 bits evaluates to the largest
  // number.
  plan.maxItems = artifact.target.kind == Target::Kind::cuda
                      ? std::numeric_limits<int32_t>::max()
                      : std::numeric_limits<int64_t>::max() - 1;
  for (const Launch &launch : artifact.launches) {
    Result<std::vector<BoundExpression>> extents = bind(launch.extents, artifact);
    if (!extents)
      return extents.error();
    Step step{
        launch.items, *extents, parameterIndex(artifact, launch.summarizes), launch.dependent, {}};
    bool isSummary = !launch.summarizes.empty();
    if ((!extents->empty() && extents->size() != 5) || !launch.items.captureAxes().empty() ||
        (isSummary && (step.summarizes < 0 || artifact.workspaces.empty())))
      return Error(Code::defect, "kernel " + launch.kernel +
                                     " has other extents than B H Hkv Sq Sk, or summarizes a "
                                     "tensor that it does not have");
    int tensorMaps = 0;
    for (const ArgumentSlot &slot : launch.slots) {
      Result<Slot> resolved = resolve(slot, artifact);
      if (!resolved)
        return resolved.error();
      step.slots.push_back(*resolved);
      tensorMaps += slot.kind == ArgumentSlot::Kind::tensorMap;
      plan.usesCounter |= slot.kind == ArgumentSlot::Kind::counter;
    }
    // If a tensor's elements are read one by one, the kernel also takes the last axis' stride.
    for (const Slot &last : step.slots)
      if (last.kind == ArgumentSlot::Kind::stride && last.owner == Owner::tensor &&
          last.axis + 1 == int(artifact.tensors[last.index].extents.size()))
        for (Slot &slot : step.slots)
          slot.readsZero |= slot.owner == Owner::tensor && slot.index == last.index;
    if (tensorMaps > maxTensorMaps)
      return Error(Code::defect, "kernel " + launch.kernel + " has " + std::to_string(tensorMaps) +
                                     " tensor maps, a launch takes " +
                                     std::to_string(maxTensorMaps));
    plan.steps.push_back(std::move(step));
  }
  for (const Workspace &workspace : artifact.workspaces) {
    Result<std::vector<BoundExpression>> extents = bind(workspace.extents, artifact);
    if (!extents)
      return extents.error();
    if (extents->empty() || extents->size() > Tensor::maxRank)
      return Error(Code::defect, "the workspace " + workspace.name + " has " +
                                     std::to_string(extents->size()) + " axes");
    if (workspace.type != ElementType::i32 && workspace.type != ElementType::f32)
      return Error(Code::defect, "the workspace " + workspace.name + " holds " +
                                     std::string(elementTypeName(workspace.type)) +
                                     ", not i32 or f32");
    plan.workspaceShapes.push_back({workspace.name, workspace.type, std::move(*extents)});
  }
  return plan;
}

int64_t LaunchPlan::BoundExpression::evaluate(const CheckedArguments &arguments) const {
  ShortArray<int64_t, 8> values;
  values.reset(captureAxes.size());
  for (size_t i = 0; i < captureAxes.size(); ++i) {
    auto [parameter, axis] = captureAxes[i];
    values[i] = arguments.captures[parameter].extents[axis];
  }
  return expression.evaluate(arguments.extents, {values.data(), values.size()});
}

Result<Extents> LaunchPlan::extentsOf(const Step &step, const CheckedArguments &arguments) {
  if (step.extents.empty())
    return arguments.extents;
  int32_t values[5];
  for (int i = 0; i < 5; ++i) {
    int64_t value = step.extents[i].evaluate(arguments);
    if (value < 0 || value > std::numeric_limits<int32_t>::max())
      return Error(
          Code::unsupported,
          (step.summarizes < 0 ? "a launch of the kernel has an extent of "
                               : "the summary of a captured tensor has an extent of ") +
              std::to_string(value) + ", it must lie in [0, 2147483647]: " +
              (step.summarizes < 0 ? ofExtents : "put the tensor's leading axes together"));
    values[i] = int32_t(value);
  }
  return Extents{values[0], values[1], values[2], values[3], values[4]};
}

Status LaunchPlan::layOut(const CheckedArguments &arguments, LaunchSizes &sizes) const {
  sizes.workspaces.reset(workspaceShapes.size());
  int64_t end = 0;
  for (size_t i = 0; i < workspaceShapes.size(); ++i) {
    const BoundWorkspace &workspace = workspaceShapes[i];
    Tensor &tensor = sizes.workspaces[i];
    tensor.data = reinterpret_cast<void *>(end);
    tensor.type = workspace.type;
    tensor.rank = int(workspace.extents.size());
    int64_t elements = 1, bytes;
    bool fits = true;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      int64_t extent = workspace.extents[axis].evaluate(arguments);
      fits &= extent >= 0 && extent <= std::numeric_limits<int32_t>::max();
      tensor.extents[axis] = extent;
      tensor.strides[axis] = elements;
      fits &= !__builtin_mul_overflow(elements, extent, &elements);
    }
    fits &= !__builtin_mul_overflow(elements, int64_t(elementSize(tensor.type)), &bytes) &&
            !__builtin_add_overflow(bytes, workspaceAlignment - 1, &bytes) &&
            !__builtin_add_overflow(end, bytes / workspaceAlignment * workspaceAlignment, &end);
    if (!fits)
      return Error(Code::unsupported,
                   (workspace.isSummary() ? "the summary of a captured tensor"
                                          : "the workspace '" + workspace.name + "'") +
                       " has an extent above 2147483647, or all workspaces together have more than "
                       "2^63 - 1 bytes: " +
                       (workspace.isSummary() ? "make the tensor smaller" : ofExtents));
  }
  sizes.workspaceBytes = size_t(end);
  return Status::success();
}

/// The slot's value, in the first bytes of the result (all supported machines are
/// little-endian).
uint64_t LaunchPlan::value(const Slot &slot, const Extents &extents, const Call &call) {
  using Kind = ArgumentSlot::Kind;
  const CheckedArguments &arguments = call.arguments;
  if (slot.kind == Kind::scale)
    return std::bit_cast<uint32_t>(arguments.scale);
  if (slot.kind == Kind::scalar)
    return arguments.scalarBits[slot.index];
  if (slot.kind == Kind::counter)
    return call.counter;
  if (slot.owner == Owner::extents) {
    const int32_t values[] = {extents.B, extents.H, extents.Hkv, extents.Sq, extents.Sk};
    return uint32_t(values[slot.axis]);
  }
  const Tensor &tensor = slot.owner == Owner::tensor      ? arguments.tensors[slot.index]
                         : slot.owner == Owner::parameter ? arguments.captures[slot.index]
                                                          : call.sizes.workspaces[slot.index];
  bool readsZero = slot.readsZero && hasNoElements(tensor);
  switch (slot.kind) {
  case Kind::data:
    if (readsZero)
      return call.code.addressOfZero();
    return (slot.owner == Owner::workspace ? call.workspaces : 0) +
           reinterpret_cast<uintptr_t>(tensor.data);
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
      return tooManyItems(items, maxItems, ofExtents);
  return Status::success();
}

Status LaunchPlan::measure(const CheckedArguments &arguments, LaunchSizes &sizes) const {
  sizes.steps.reset(steps.size());
  for (bool summaries : {false, true}) // first the launches with the plan's own extents
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step &step = steps[i];
      if ((step.summarizes >= 0) != summaries)
        continue;
      Result<Extents> extents = extentsOf(step, arguments);
      if (!extents)
        return extents.error();
      int64_t items = step.items.evaluate(*extents);
      if (items > maxItems)
        return tooManyItems(items, maxItems, summaries ? ofCaptures : ofExtents);
      sizes.steps[i] = {*extents, items};
    }
  return layOut(arguments, sizes);
}

Status LaunchPlan::checkWorkspace(const LaunchSizes &sizes, const LaunchWorkspace &given) const {
  if (!given.address && given.bytes == 0)
    return Status::success();
  size_t needed = workspaceBytes(sizes);
  if (needed > given.bytes)
    return Error(Code::invalidArgument,
                 "the workspace has " + std::to_string(given.bytes) + " bytes, this launch needs " +
                     std::to_string(needed) +
                     ": ask the kernel for the bytes of these arguments, and pass as many");
  if (needed == 0)
    return Status::success();
  if (!given.address)
    return Error(Code::invalidArgument,
                 "the workspace of " + std::to_string(given.bytes) +
                     " bytes has no address: pass device memory, or no bytes");
  if (auto past = reinterpret_cast<uintptr_t>(given.address) % workspaceAlignment)
    return Error(Code::invalidArgument, "the workspace's address is " + std::to_string(past) +
                                            " bytes past a multiple of " +
                                            std::to_string(workspaceAlignment) +
                                            ": pass memory that is aligned to it");
  return Status::success();
}

/// Whether a summary of `a` is valid for `b`, if no element changes.
static bool sameView(const Tensor &a, const Tensor &b) {
  return a.data == b.data && a.rank == b.rank &&
         std::equal(a.extents.begin(), a.extents.begin() + a.rank, b.extents.begin()) &&
         std::equal(a.strides.begin(), a.strides.begin() + a.rank, b.strides.begin());
}

namespace {

/// What a captured launch needs as long as its graph exists. `code` is destroyed last, with its
/// backend.
struct GraphOwned {
  std::shared_ptr<const LoadedCode> code;
  LaunchCounter counter;
  std::shared_ptr<StreamWorkspace> workspace;
};

} // namespace

Status LaunchPlan::launch(const LoadedCode &code, const CheckedArguments &arguments,
                          const LaunchSizes &sizes, void *stream, Workspaces *workspaces,
                          const LaunchWorkspace &given) const {
  EnteredDevice device(code);
  if (Status status = device.status(); !status)
    return status;
  Call call{.code = code, .arguments = arguments, .sizes = sizes, .stream = stream};
  Result<StreamUse> use = code.streamUse(stream, usesCounter || !workspaceShapes.empty());
  if (!use)
    return use.error();
  GraphOwned owned;
  if (usesCounter) {
    Result<LaunchCounter> found = code.counter(*use);
    if (!found)
      return found.error();
    owned.counter = std::move(*found);
    call.counter = owned.counter.address;
  }
  if (!workspaceShapes.empty()) {
    if (!workspaces)
      return Error(Code::defect, "a plan with workspaces was launched without any");
    if (given.address && !arguments.capturesUnchanged)
      workspaces->capturesChanged();
    owned.workspace =
        given.address ? workspaces->of(*use, given) : workspaces->of(*use, sizes.workspaceBytes);
  }
  StreamWorkspace *workspace = owned.workspace.get();
  std::shared_ptr<const GraphOwned> held; // during this call, too
  if (use->isCaptured) {
    owned.code = code.weak_from_this().lock();
    held = std::make_shared<GraphOwned>(std::move(owned));
    if (Status status = code.keepForGraph(*use, held); !status)
      return status;
  }
  return workspace ? launchKept(call, *workspaces, *workspace) : launchSteps(call);
}

Status LaunchPlan::launch(const LoadedCode &code, const CheckedArguments &arguments, void *stream,
                          Workspaces *workspaces, const LaunchWorkspace &given) const {
  LaunchSizes sizes;
  if (Status status = measure(arguments, sizes); !status)
    return status;
  return launch(code, arguments, sizes, stream, workspaces, given);
}

/// Whether the memory was laid out for `tensors`. `layout` contains all their extents.
static bool isLayout(std::span<const int64_t> layout, std::span<const Tensor> tensors) {
  for (const Tensor &tensor : tensors) {
    if (layout.size() < size_t(tensor.rank) ||
        !std::equal(layout.begin(), layout.begin() + tensor.rank, tensor.extents.begin()))
      return false;
    layout = layout.subspan(tensor.rank);
  }
  return layout.empty();
}

Status LaunchPlan::launchKept(Call &call, Workspaces &workspaces,
                              StreamWorkspace &workspace) const {
  std::lock_guard lock(workspace.mutex);
  if (Status status = Workspaces::reserve(workspace, call.sizes.workspaceBytes); !status)
    return status;
  call.workspaces = reinterpret_cast<uintptr_t>(workspace.address);
  uint64_t changes = workspaces.changes();
  if (std::exchange(workspace.changes, changes) != changes)
    workspace.summaries.clear();
  if (!isLayout(workspace.layout, call.sizes.workspaces)) {
    workspace.layout.clear();
    for (const Tensor &tensor : call.sizes.workspaces)
      workspace.layout.insert(workspace.layout.end(), tensor.extents.begin(),
                              tensor.extents.begin() + tensor.rank);
    workspace.summaries.clear();
  }
  workspace.summaries.resize(signature_.parameters.size());
  call.kept = &workspace;
  return launchSteps(call);
}

Status LaunchPlan::launchSteps(const Call &call) const {
  const CheckedArguments &arguments = call.arguments;
  // Which summaries are still valid, by parameter, before this call computes any.
  ShortArray<bool, usualParameters> stands;
  stands.reset(signature_.parameters.size());
  for (const Step &step : steps)
    if (int parameter = step.summarizes; call.kept && parameter >= 0) {
      StreamWorkspace::Summary &summary = call.kept->summaries[parameter];
      stands[parameter] =
          stands[parameter] || (arguments.capturesUnchanged && summary.made &&
                                sameView(summary.source, arguments.captures[parameter]));
      if (!stands[parameter])
        summary.made = false; // until all launches that compute it have been started
    }
  // The first launch waits for all earlier work on the stream; only later ones may overlap another.
  bool isBehindAnother = false;
  for (size_t i = 0; i < steps.size(); ++i) {
    bool isMade = steps[i].summarizes >= 0 && stands[steps[i].summarizes];
    if (isMade || call.sizes.steps[i].items <= 0)
      continue;
    if (Status status = launchStep(i, call, isBehindAnother && steps[i].dependent); !status)
      return status;
    isBehindAnother = true;
  }
  for (const Step &step : steps)
    if (int parameter = step.summarizes; call.kept && parameter >= 0)
      call.kept->summaries[parameter] = {true, arguments.captures[parameter]};
  return Status::success();
}

Status LaunchPlan::launchStep(size_t index, const Call &call, bool overlaps) const {
  const Step &step = steps[index];
  const auto &[extents, items] = call.sizes.steps[index];
  ShortArray<uint64_t, usualSlots> values;
  ShortArray<void *, usualSlots> pointers;
  values.reset(step.slots.size());
  pointers.reset(step.slots.size());
  TensorMap maps[maxTensorMaps];
  TensorMap *map = maps;
  for (size_t i = 0; i < step.slots.size(); ++i) {
    const Slot &slot = step.slots[i];
    if (slot.kind != ArgumentSlot::Kind::tensorMap) {
      values[i] = value(slot, extents, call);
      pointers[i] = &values[i];
      continue;
    }
    Result<TensorTiling> tiling =
        tensorTiling(call.arguments, slot.index, signature_.tensors[slot.index].name, slot.axis,
                     slot.heads, call.code.addressOfZero());
    if (!tiling)
      return tiling.error();
    if (Status status = call.code.encodeTensorMap(*tiling, *map); !status)
      return status;
    pointers[i] = map++;
  }
  return call.code.launch(index, items, pointers.data(), call.stream, overlaps);
}

} // namespace tesela
