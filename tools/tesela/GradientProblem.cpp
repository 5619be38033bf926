//===- GradientProblem.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "GradientProblem.h"
#include "Safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace tesela::tool {

static bool isResult(const std::string &name) {
  return name == "dq" || name == "dk" || name == "dv";
}

Tensor GradientProblem::view(const Problem &problem, const NamedTensor &named) const {
  const Tensor &like = named.first == "do"   ? problem.oView
                       : named.first == "dq" ? problem.qView
                       : named.first == "dk" ? problem.kView
                       : named.first == "dv" ? problem.vView
                                             : problem.lse.view();
  return like.at(named.second.data());
}

LaunchArguments GradientProblem::arguments(const Problem &problem,
                                           const LaunchArguments &forward) const {
  LaunchArguments arguments = forward;
  for (const NamedTensor &each : tensors)
    arguments.tensors.push_back({each.first, view(problem, each)});
  return arguments;
}

Result<std::vector<std::pair<std::string, Comparison>>>
GradientProblem::compare(const Problem &problem, const GradientReference &reference) const {
  std::vector<std::pair<std::string, Comparison>> comparisons;
  for (const NamedTensor &each : tensors) {
    if (!isResult(each.first))
      continue;
    const Reference &of = each.first == "dq"   ? reference.dq
                          : each.first == "dk" ? reference.dk
                                               : reference.dv;
    Result<Comparison> comparison = compareGradient(of, view(problem, each), each.first);
    if (!comparison)
      return comparison.error();
    comparisons.emplace_back(each.first, std::move(*comparison));
  }
  return comparisons;
}

/// Reads the tensor `name` of the file, which must have the type and extents of `like`. Empty if
/// the file has none.
static Result<std::optional<HostTensor>> readGradient(const SafetensorsFile &file,
                                                      const std::string &path, const char *name,
                                                      const Tensor &like) {
  if (!file.contains(name))
    return std::optional<HostTensor>();
  Result<HostTensor> read = file.read(name);
  if (!read)
    return read.error();
  const Tensor &given = read->view();
  if (given.type != like.type || given.rank != like.rank ||
      !std::equal(given.extents.begin(), given.extents.begin() + given.rank, like.extents.begin()))
    return Error(Code::invalidArgument,
                 fmt::format("{}: '{}' is {}, it must be {}, as {} is.", path, name,
                             describe(given), describe(like),
                             std::string(name) == "do" ? "the result" : "lse"));
  return std::optional(std::move(*read));
}

Result<GradientProblem> makeGradientProblem(const RunOptions &options, const Problem &problem) {
  GradientProblem result;
  std::optional<HostTensor> dO, dlse;
  if (!options.input.empty()) {
    Result<SafetensorsFile> file = SafetensorsFile::open(options.input);
    if (!file)
      return file.error();
    for (auto [name, like, to] : {std::tuple("do", &problem.o.view(), &dO),
                                  std::tuple("dlse", &problem.lse.view(), &dlse)}) {
      Result<std::optional<HostTensor>> read = readGradient(*file, options.input, name, *like);
      if (!read)
        return read.error();
      *to = std::move(*read);
    }
  }
  bool isRandom = !dO;
  auto add = [&](const char *name, const Tensor &shape) -> Status {
    Result<HostTensor> made = HostTensor::allocate(shape);
    if (!made)
      return made.error();
    result.tensors.push_back({name, std::move(*made)});
    return Status::success();
  };
  if (dO)
    result.tensors.push_back({"do", std::move(*dO)});
  else if (Status status = add("do", problem.o.view()); !status)
    return status.error();
  // By logical index, so that both layouts get the same numbers. Other tensors use lower seeds.
  if (isRandom)
    fillNormal(result.view(problem, result.tensors[0]), options.seed * 1000 + 999);
  if (dlse)
    result.tensors.push_back({"dlse", std::move(*dlse)});
  for (auto [name, like] :
       {std::pair("dq", &problem.q), std::pair("dk", &problem.k), std::pair("dv", &problem.v)})
    if (Status status = add(name, like->view()); !status)
      return status.error();
  return result;
}

Result<DeviceGradients> DeviceGradients::create(const Context &context,
                                                const GradientProblem &host) {
  DeviceGradients device;
  for (const NamedTensor &each : host.tensors) {
    Result<Buffer> buffer = context.allocate(each.second.bytes());
    if (!buffer)
      return buffer.error();
    Status status = isResult(each.first)
                        ? context.fill(*buffer, 0xff) // NaN shows what a kernel does not write
                        : context.copyToDevice(*buffer, each.second.data(), each.second.bytes());
    if (!status)
      return status.error();
    device.buffers.push_back(std::move(*buffer));
  }
  return device;
}

void DeviceGradients::place(LaunchArguments &arguments) const {
  for (size_t i = 0; i < buffers.size(); ++i)
    arguments.tensors[i].tensor = arguments.tensors[i].tensor.at(buffers[i].data());
}

Status DeviceGradients::copyResults(const Context &context, GradientProblem &host) const {
  if (Status status = context.synchronize(); !status)
    return status;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const HostTensor &to = host.tensors[i].second;
    if (!isResult(host.tensors[i].first))
      continue;
    if (Status status = context.copyToHost(to.data(), buffers[i], to.bytes()); !status)
      return status;
  }
  return Status::success();
}

} // namespace tesela::tool
