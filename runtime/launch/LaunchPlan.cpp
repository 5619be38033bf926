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

Result<LaunchPlan::Slot> LaunchPlan::resolve(const ArgumentSlot &slot, const Artifact &artifact) {
  using Kind = ArgumentSlot::Kind;
  auto defect = [&] {
    return Error(Code::defect, "the artifact of '" + artifact.variantName +
                                   "' has a slot of kind " + std::to_string(int(slot.kind)) +
                                   " for '" + slot.name + "', axis " + std::to_string(slot.axis) +
                                   ", which it does not have");
  };
  Slot resolved{slot.kind, false, -1, slot.axis};
  if (slot.kind == Kind::scale || slot.kind == Kind::counter)
    return resolved;
  if (slot.kind == Kind::extent && slot.name.empty())
    return slot.axis >= 0 && slot.axis < 5 ? Result<Slot>(resolved) : defect();
  if (!slot.name.empty() && slot.name[0] == '$') {
    resolved.isParameter = true;
    for (size_t i = 0; i < artifact.parameters.size(); ++i)
      if (artifact.parameters[i].name == slot.name.substr(1))
        resolved.index = int(i);
    if (resolved.index < 0)
      return defect();
    const Parameter &parameter = artifact.parameters[resolved.index];
    bool axisFits = slot.axis >= 0 && slot.axis < int(parameter.extents.size());
    bool isOfAnAxis = slot.kind == Kind::stride || slot.kind == Kind::extent;
    bool fits = slot.kind == Kind::scalar ? !parameter.isCapture
                : slot.kind == Kind::data ? parameter.isCapture
                                          : parameter.isCapture && isOfAnAxis && axisFits;
    return fits ? Result<Slot>(resolved) : defect();
  }
  constexpr std::string_view tensors[] = {"q", "k", "v", "o", "lse"};
  for (int i = 0; i < 5; ++i)
    if (slot.name == tensors[i])
      resolved.index = i;
  if (slot.kind == Kind::tensorMap) {
    bool fits = elementSize(artifact.inputType) == 2 && resolved.index >= 0 && resolved.index < 4 &&
                slot.axis >= 1 && slot.axis <= 256;
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
    Step step{launch.items, {}};
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
  return plan;
}

/// The slot's value in its first bytes (little-endian machines only, as all of
/// Tesela's are).
uint64_t LaunchPlan::value(const Slot &slot, const CheckedArguments &arguments,
                           const LoadedCode &code) {
  using Kind = ArgumentSlot::Kind;
  if (slot.kind == Kind::scale)
    return std::bit_cast<uint32_t>(arguments.scale);
  if (slot.kind == Kind::scalar)
    return arguments.scalarBits[slot.index];
  const Extents &extents = arguments.extents;
  if (slot.index < 0) {
    const int32_t values[] = {extents.B, extents.H, extents.Hkv, extents.Sq, extents.Sk};
    return uint32_t(values[slot.axis]);
  }
  const Tensor &tensor =
      slot.isParameter ? arguments.captures[slot.index] : arguments.tensors[slot.index];
  // A capture without elements reads as zero wherever a kernel asks (ArgumentSlot::Kind::data).
  bool readsZero = slot.isParameter && hasNoElements(tensor);
  switch (slot.kind) {
  case Kind::data:
    return readsZero ? code.addressOfZero() : reinterpret_cast<uintptr_t>(tensor.data);
  case Kind::stride:
    return readsZero ? 0 : uint64_t(tensor.strides[slot.axis]);
  case Kind::coordinateStep:
    return uint32_t(coordinateStep(tensor, slot.axis));
  default:
    return uint32_t(tensor.extents[slot.axis]);
  }
}

Status LaunchPlan::checkItems(const Extents &extents) const {
  for (const Step &step : steps)
    if (int64_t items = step.items.evaluate(extents); items > maxItems)
      return Error(Code::unsupported, "the launch has " + std::to_string(items) +
                                          " work items, this device takes " +
                                          std::to_string(maxItems) +
                                          ": split the batch, the heads or the queries over "
                                          "several launches");
  return Status::success();
}

Status LaunchPlan::launch(const LoadedCode &code, const CheckedArguments &arguments,
                          void *stream) const {
  std::vector<uint64_t> values;
  std::vector<void *> pointers;
  TensorMap maps[maxTensorMaps];
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i];
    int64_t items = step.items.evaluate(arguments.extents);
    if (items <= 0)
      continue;
    values.resize(step.slots.size());
    pointers.resize(step.slots.size());
    TensorMap *map = maps;
    for (size_t index = 0; index < step.slots.size(); ++index) {
      const Slot &slot = step.slots[index];
      if (slot.kind == ArgumentSlot::Kind::tensorMap) {
        Result<TensorTiling> tiling =
            tensorTiling(arguments, slot.index, slot.axis, code.addressOfZero());
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
        values[index] = value(slot, arguments, code);
        pointers[index] = &values[index];
      }
    }
    if (Status status = code.launch(i, items, pointers.data(), stream); !status)
      return status;
  }
  return Status::success();
}

} // namespace tesela
