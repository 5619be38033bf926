//===- CApiArguments.cpp --------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApiArguments.h"

#include "system/ThreadOwn.h"

namespace tesela::c {

namespace {

/// Moves the items of `used`, with the memory of their names, to `unused`.
template <typename T> void putAway(std::vector<T> &used, std::vector<T> &unused) {
  for (T &item : used)
    unused.push_back(std::move(item));
  used.clear();
}

/// Appends an item to `used`, if possible one of `unused`.
template <typename T> T &takeOut(std::vector<T> &unused, std::vector<T> &used) {
  if (unused.empty())
    return used.emplace_back();
  used.push_back(std::move(unused.back()));
  unused.pop_back();
  return used.back();
}

/// The captured tensor that the parameter's fields before `tensor` describe.
Status readFields(const tesela_parameter &parameter, const TensorRole &role, Tensor &tensor) {
  auto refuse = [&](const std::string &why) { return invalid(role.text() + why); };
  if (parameter.rank < 0 || parameter.rank > Tensor::maxRank)
    return refuse(" has rank " + std::to_string(parameter.rank) +
                  ", it must lie in [1, 8]; a scalar has rank 0");
  if (!parameter.extents)
    return refuse(" has no extents");
  tensor = Tensor();
  tensor.data = parameter.data;
  tensor.rank = parameter.rank;
  const int64_t *extentsEnd = parameter.extents + parameter.rank;
  bool isCompact = !parameter.strides; // an empty tensor may have any strides
  bool isEmpty = std::find(parameter.extents, extentsEnd, 0) != extentsEnd;
  int64_t stride = 1;
  for (int axis = parameter.rank - 1; axis >= 0; --axis) {
    tensor.extents[axis] = parameter.extents[axis];
    tensor.strides[axis] = parameter.strides ? parameter.strides[axis] : stride;
    if (isCompact && !isEmpty && __builtin_mul_overflow(stride, parameter.extents[axis], &stride))
      return refuse(" has more than 2^63 - 1 elements: pass smaller extents");
  }
  tesela_type given = parameter.type;
  if (Status status = readLowWords(given, tensor.rank, tensor.strides.data()); !status)
    return status.error().within(role.text());
  Result<ElementType> type = elementType(given);
  if (!type)
    return type.error().within(role.text());
  tensor.type = *type;
  return Status::success();
}

/// Written in place for speed: a launch has five views and takes hundreds of nanoseconds.
void setView(Tensor &tensor, const tesela_view &view, ElementType type, int64_t batch,
             int64_t heads, int64_t length, int64_t headDim) {
  tensor.data = view.data;
  tensor.type = type;
  tensor.rank = 4;
  tensor.extents = {batch, heads, length, headDim};
  tensor.strides = {view.batch_stride, view.head_stride, view.length_stride, 1};
}

} // namespace

ReusedArguments::ReusedArguments() {
  if (Storage *kept = ThreadOwn<Storage>::get())
    storage = std::move(*kept);
  arguments.scalars = std::move(storage.scalars);
  arguments.captures = std::move(storage.captures);
}

ReusedArguments::~ReusedArguments() {
  try {
    putAway(arguments.scalars, storage.unusedScalars);
    putAway(arguments.captures, storage.unusedCaptures);
  } catch (const std::bad_alloc &) { // the next launch then allocates again
  }
  storage.scalars = std::move(arguments.scalars);
  storage.captures = std::move(arguments.captures);
  storage.scalars.clear();
  storage.captures.clear();
  if (Storage *kept = ThreadOwn<Storage>::get())
    *kept = std::move(storage);
}

Status ReusedArguments::addCapture(const tesela_parameter &parameter, std::string_view name,
                                   const Device &device) {
  CaptureArgument &capture = takeOut(storage.unusedCaptures, arguments.captures);
  capture.name = name;
  TensorRole role{capture.name.c_str(), true};
  if (!parameter.tensor)
    return readFields(parameter, role, capture.tensor);
  return readTensor(parameter.tensor, role, device, capture.tensor);
}

Status ReusedArguments::addParameters(const tesela_parameter *parameters, size_t count,
                                      const Device &device,
                                      const std::vector<VariantParameter> *inOrder) {
  if (count > 0 && !parameters)
    return noArray("parameters", "parameter_count", count);
  if (inOrder && count != inOrder->size())
    return invalid("parameters_in_order is set and parameter_count is " + std::to_string(count) +
                   ", the kernel has " + std::to_string(inOrder->size()) +
                   ": pass a value for each");
  for (size_t i = 0; i < count; ++i) {
    const tesela_parameter &parameter = parameters[i];
    if (!parameter.name && !inOrder)
      return invalid("parameter " + std::to_string(i) + " has no name: set its name");
    std::string_view name = inOrder ? std::string_view((*inOrder)[i].name) : parameter.name;
    if (parameter.tensor || parameter.rank != 0) {
      if (Status status = addCapture(parameter, name, device); !status)
        return status;
      continue;
    }
    if (parameter.data)
      return invalid("the parameter '" + std::string(name) +
                     "' has an address and rank 0: set its rank and extents, or leave data NULL "
                     "where it is a scalar");
    ScalarArgument &scalar = takeOut(storage.unusedScalars, arguments.scalars);
    scalar.name = name;
    scalar.value = parameter.scalar;
  }
  return Status::success();
}

Status ReusedArguments::read(const tesela_launch_arguments *from, const KernelInfo &info,
                             const Device &device) {
  tesela_launch_arguments given;
  if (Status status = readSized(from, given, "tesela_launch_arguments"); !status)
    return status;
  ElementType type = info.inputType;
  setView(arguments.q, given.q, type, given.batch, given.heads, given.length, info.headDimQk);
  setView(arguments.k, given.k, type, given.batch, given.kv_heads, given.kv_length, info.headDimQk);
  setView(arguments.v, given.v, type, given.batch, given.kv_heads, given.kv_length, info.headDimV);
  setView(arguments.o, given.o, type, given.batch, given.heads, given.length, info.headDimV);
  arguments.lse =
      Tensor::contiguous(given.lse, ElementType::f32, {given.batch, given.heads, given.length});
  if (given.scale != 0)
    arguments.scale = given.scale;
  arguments.capturesUnchanged = given.captures_unchanged != 0;
  arguments.workspace = {given.workspace, given.workspace_bytes};
  return addParameters(given.parameters, given.parameter_count, device,
                       given.parameters_in_order ? &info.parameters : nullptr);
}

Status ReusedArguments::read(const tesela_tensor_arguments *from, const KernelInfo *info,
                             const Signature *signature, const Device &device) {
  tesela_tensor_arguments given;
  if (Status status = readSized(from, given, "tesela_tensor_arguments"); !status)
    return status;
  struct Given {
    TensorRole role;
    const tesela_tensor *from;
    Tensor *to;
    bool isResult = false;
  };
  auto isDeclared = [&](const char *name) {
    return !signature || std::ranges::count(signature->tensors, name, &DeclaredTensor::name) > 0;
  };
  for (const Given &each :
       {Given{{"q"}, given.q, &arguments.q}, Given{{"k"}, given.k, &arguments.k},
        Given{{"v"}, given.v, &arguments.v}, Given{{"o"}, given.o, &arguments.o, true},
        Given{{"lse"}, given.lse, &arguments.lse, true}}) {
    bool isIgnored = each.isResult && !info;
    auto mayLack = [&] {
      return given.tensor_count > 0 || each.to == &arguments.lse || !isDeclared(each.role.name);
    };
    if (isIgnored || (!each.from && mayLack()))
      continue;
    if (Status status = readTensor(each.from, each.role, device, *each.to); !status)
      return status;
  }
  if (given.scale != 0)
    arguments.scale = given.scale;
  arguments.capturesUnchanged = given.captures_unchanged != 0;
  arguments.workspace = {given.workspace, given.workspace_bytes};
  if (Status status = addNamed(given, device); !status)
    return status;
  if (given.parameters_in_order && !info)
    return invalid("parameters_in_order is set, but there is no kernel that defines the order: "
                   "pass the parameters by name");
  return addParameters(given.parameters, given.parameter_count, device,
                       given.parameters_in_order ? &info->parameters : nullptr);
}

Status ReusedArguments::addNamed(const tesela_tensor_arguments &given, const Device &device) {
  if (given.tensor_count > 0 && !given.tensors)
    return noArray("tensors", "tensor_count", given.tensor_count);
  for (size_t i = 0; i < given.tensor_count; ++i) {
    const tesela_named_tensor &from = given.tensors[i];
    if (!from.name)
      return invalid("tensor " + std::to_string(i) + " has no name: set its name");
    NamedTensor &to = arguments.tensors.emplace_back(NamedTensor{from.name, {}});
    if (Status status = readTensor(from.tensor, {from.name}, device, to.tensor); !status)
      return status;
  }
  if (given.extent_count > 0 && !given.extents)
    return noArray("extents", "extent_count", given.extent_count);
  for (size_t i = 0; i < given.extent_count; ++i) {
    if (!given.extents[i].name)
      return invalid("extent " + std::to_string(i) + " has no name: set its name");
    arguments.extents.push_back({given.extents[i].name, given.extents[i].value});
  }
  return Status::success();
}

} // namespace tesela::c
