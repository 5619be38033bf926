//===- TuneProblem.cpp - The launches that are timed ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/TuneProblem.h"

#include "api/State.h"
#include "check/Elements.h"
#include "check/ReferenceInputs.h"
#include "frontend/Constants.h"
#include "launch/CheckedParameters.h"
#include "tesela/Check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

namespace tesela {

/// The size of all sets together: twice the largest L2 cache of the chips that Tesela knows, 126
/// MB.
static constexpr int64_t rotatedBytes = int64_t(256) << 20;

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

bool maskReadsCaptures(const Variant &variant) {
  auto reads = [&](NodeId root) {
    return std::ranges::any_of(variant.nodesOf(root), [&](NodeId id) {
      return variant.nodes[size_t(id)].op == Operator::read;
    });
  };
  return reads(variant.mask) || (variant.scoreMayMask() && reads(variant.score));
}

static Error invalid(std::string message) {
  return Error(Code::invalidArgument, "tuning: " + std::move(message));
}

static Result<Extents> extentsOf(const TuneShape &shape) {
  if (Status status = checkSizes(shape, 1); !status)
    return status.error().within("tuning");
  return Extents{int32_t(shape.batch), int32_t(shape.heads), int32_t(shape.kvHeads),
                 int32_t(shape.length), int32_t(shape.kvLength)};
}

/// A random tensor for `parameter`: f32 normal, i32 in [0, Sk], bool 0 or 1, as in `tesela
/// run`.
static Result<CaptureArgument> randomCapture(const Parameter &parameter, const Extents &extents,
                                             uint64_t seed,
                                             std::vector<std::unique_ptr<char[]>> &owned) {
  const std::map<std::string, int64_t> known{{"B", extents.B},
                                             {"H", extents.H},
                                             {"Hkv", extents.Hkv},
                                             {"Sq", extents.Sq},
                                             {"Sk", extents.Sk}};
  Tensor tensor;
  tensor.type = parameter.type;
  tensor.rank = int(parameter.extents.size());
  int64_t count = 1;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    const CaptureExtent &extent = parameter.extents[size_t(axis)];
    auto found = known.find(extent.name);
    int64_t value = found != known.end() ? found->second : extents.Sk;
    tensor.extents[size_t(axis)] = std::max<int64_t>(0, extent.coefficient * value + extent.offset);
    tensor.strides[size_t(axis)] = count;
    count *= tensor.extents[size_t(axis)];
  }
  std::unique_ptr<char[]> memory(new (std::nothrow) char[size_t(count) * elementSize(tensor.type)]);
  if (!memory)
    return Error(Code::outOfMemory,
                 fmt::format("no host memory for the captured tensor '{}': tune smaller sizes",
                             parameter.name));
  tensor.data = memory.get();
  if (parameter.type == ElementType::i32)
    fillUniform(tensor, seed, 0, extents.Sk);
  else if (parameter.type == ElementType::boolean)
    fillUniform(tensor, seed, 0, 1);
  else
    fillNormal(tensor, seed);
  owned.push_back(std::move(memory));
  return CaptureArgument{parameter.name, tensor};
}

Result<TuneInputs> tuneInputs(const KernelOptions &options, const TuneShape &shape) {
  Result<Variant> variant =
      parseVariant(options.variantText, options.variantFile, constantsOf(options));
  if (!variant)
    return variant.error();
  Result<Extents> extents = extentsOf(shape);
  if (!extents)
    return extents.error();
  TuneInputs inputs{std::move(*variant), {}, shape.captures, {}};
  uint64_t seed = 4; // q, k and v have seeds 1 to 3
  for (const Parameter &parameter : inputs.variant.parameters) {
    bool isGiven = std::ranges::any_of(
        shape.captures, [&](const CaptureArgument &each) { return each.name == parameter.name; });
    if (!parameter.isCapture || isGiven)
      continue;
    if (maskReadsCaptures(inputs.variant))
      return invalid(
          fmt::format("the mask of {} reads captured tensors, which decide how many tiles "
                      "are computed: pass '{}'",
                      inputs.variant.name, parameter.name));
    Result<CaptureArgument> capture = randomCapture(parameter, *extents, seed++, inputs.owned);
    if (!capture)
      return capture.error();
    inputs.captures.push_back(std::move(*capture));
  }
  CheckedArguments checked;
  checked.extents = *extents;
  LaunchArguments launch;
  launch.scalars = shape.scalars;
  launch.captures = inputs.captures;
  if (Status status = checkParameters(inputs.variant.parameters, launch, checked); !status)
    return status.error();
  inputs.bindings = bindingsOf(inputs.variant, checked);
  return inputs;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Repeated normal numbers: neither a kernel's path nor its power depends on more different ones.
static std::vector<char> randomBytes(ElementType type, size_t bytes, uint64_t seed) {
  constexpr int64_t period = int64_t(1) << 18;
  int64_t size = int64_t(elementSize(type));
  std::vector<char> data(bytes);
  int64_t count = std::min(int64_t(bytes) / size, period);
  fillNormal(Tensor::contiguous(data.data(), type, {count}), seed);
  for (size_t done = size_t(count * size); done < bytes;) {
    size_t more = std::min(done, bytes - done);
    std::memcpy(data.data() + done, data.data(), more);
    done += more;
  }
  return data;
}

Result<TuneProblem> TuneProblem::create(const Context &context, const KernelOptions &options,
                                        const TuneShape &shape, const TuneInputs &inputs,
                                        int64_t memoryBytes) {
  const Extents &e = inputs.bindings.extents;
  TuneProblem problem;
  problem.type = options.inputType;
  auto tensor = [&](int64_t heads, int64_t length, int64_t headDim) {
    return Tensor::bhsd(nullptr, options.inputType, e.B, heads, length, headDim);
  };
  Tensor shapes[] = {tensor(e.H, e.Sq, options.headDimQk), tensor(e.Hkv, e.Sk, options.headDimQk),
                     tensor(e.Hkv, e.Sk, options.headDimV), tensor(e.H, e.Sq, options.headDimV),
                     Tensor::contiguous(nullptr, ElementType::f32, {e.B, e.H, e.Sq})};
  bool isBackward = options.algorithm == backwardAlgorithm;
  int64_t setBytes = 0;
  for (const Tensor &each : shapes)
    setBytes += int64_t(each.spanBytes());
  if (isBackward) // do, dq, dk and dv are added
    setBytes *= 2;
  if (setBytes > memoryBytes)
    return Error(Code::outOfMemory,
                 fmt::format("tuning: the tensors of a launch take {} MiB, {} may be used: tune "
                             "smaller sizes, or allow more memory",
                             setBytes >> 20, memoryBytes >> 20));
  int64_t count =
      std::clamp(rotatedBytes / std::max<int64_t>(setBytes, 1) + 1, int64_t(2), int64_t(64));
  count = std::max<int64_t>(1, std::min(count, memoryBytes / std::max<int64_t>(setBytes, 1)));

  std::shared_ptr<Backend> backend = context.internal()->backend;
  Result<void *> stream = backend->createStream();
  if (!stream)
    return stream.error();
  if (*stream)
    problem.queue = std::shared_ptr<void>(*stream, [backend](void *stream) {
      (void)backend->synchronize(stream); // its failure is that of the launches, which was already
                                          // reported
      backend->destroyStream(stream);
    });

  auto upload = [&](const void *data, size_t bytes) -> Result<void *> {
    Result<Buffer> buffer = context.allocate(bytes);
    if (!buffer)
      return buffer.error();
    if (Status status = context.copyToDevice(*buffer, data, bytes, *stream); !status)
      return status.error();
    problem.buffers.push_back(std::move(*buffer));
    return problem.buffers.back().data();
  };
  std::vector<CaptureArgument> captures = inputs.captures;
  for (CaptureArgument &capture : captures) {
    Result<void *> address = upload(capture.tensor.data, capture.tensor.spanBytes());
    if (!address)
      return address.error();
    capture.tensor = capture.tensor.at(*address);
  }
  std::vector<char> dO;
  std::optional<Kernel> attention;
  if (isBackward) {
    KernelOptions forward = options;
    forward.algorithm = forwardAlgorithm;
    forward.schedule.clear();
    Result<Kernel> compiled = context.compile(forward);
    if (!compiled)
      return compiled.error();
    attention = std::move(*compiled);
    dO = randomBytes(options.inputType, shapes[3].spanBytes(), 999); // its own seed
  }
  std::vector<char> random[3];
  for (int i = 0; i < 3; ++i)
    random[i] = randomBytes(options.inputType, shapes[i].spanBytes(), uint64_t(i) + 1);
  for (int64_t number = 0; number < count; ++number) {
    Set set;
    LaunchArguments &arguments = set.arguments;
    Tensor *tensors[] = {&arguments.q, &arguments.k, &arguments.v, &arguments.o, &arguments.lse};
    for (int i = 0; i < 5; ++i) {
      size_t bytes = shapes[i].spanBytes();
      if (i < 3) {
        Result<void *> address = upload(random[i].data(), bytes);
        if (!address)
          return address.error();
        *tensors[i] = shapes[i].at(*address);
        continue;
      }
      Result<Buffer> buffer = context.allocate(bytes);
      if (!buffer)
        return buffer.error();
      // The first access to unwritten pages is slow, so write them now.
      if (Status status = context.fill(*buffer, 0xff, *stream); !status)
        return status.error();
      *tensors[i] = shapes[i].at(buffer->data());
      (i == 3 ? set.o : set.lse) = problem.buffers.size();
      problem.buffers.push_back(std::move(*buffer));
    }
    arguments.scalars = shape.scalars;
    arguments.captures = captures;
    if (isBackward)
      if (Status status = problem.addGradients(context, *attention, dO, set); !status)
        return status.error();
    problem.sets.push_back(std::move(set));
  }
  return problem;
}

Status TuneProblem::addGradients(const Context &context, const Kernel &attention,
                                 const std::vector<char> &dO, Set &set) {
  LaunchArguments &arguments = set.arguments;
  if (Status status = attention.launch(arguments, stream()); !status)
    return status;
  for (auto [name, like] : {std::pair("do", &arguments.o), std::pair("dq", &arguments.q),
                            std::pair("dk", &arguments.k), std::pair("dv", &arguments.v)}) {
    Result<Buffer> buffer = context.allocate(like->spanBytes());
    if (!buffer)
      return buffer.error();
    bool isResult = std::string_view(name) != "do";
    Status status = isResult ? context.fill(*buffer, 0xff, stream())
                             : context.copyToDevice(*buffer, dO.data(), dO.size(), stream());
    if (!status)
      return status;
    arguments.tensors.push_back({name, like->at(buffer->data())});
    if (isResult)
      set.gradients.push_back(buffers.size());
    buffers.push_back(std::move(*buffer));
  }
  return Status::success();
}

const LaunchArguments &TuneProblem::next() {
  turn = (turn + 1) % sets.size();
  return sets[turn].arguments;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Result<TuneProblem::Results> TuneProblem::resultsOf(const Context &context, const Kernel &kernel,
                                                    const std::vector<size_t> &places) const {
  for (size_t place : places)
    if (Status status = context.fill(buffers[place], 0xff, stream()); !status)
      return status.error();
  if (Status status = kernel.launch(sets[0].arguments, stream()); !status)
    return status.error();
  if (Status status = context.synchronize(stream()); !status)
    return status.error();
  Results results;
  for (size_t place : places) {
    std::vector<char> &to = results.emplace_back(buffers[place].size());
    if (Status status = context.copyToHost(to.data(), buffers[place], to.size(), stream()); !status)
      return status.error();
  }
  return results;
}

/// How far two correct results can differ: twice the distance from the exact result that
/// docs/numerics.md allows, with the largest |v| as an upper bound of the sum of p|v|.
static double tolerance(ElementType type, double largestLse, double largest) {
  double unit = type == ElementType::f32 ? 0x1p-24 : type == ElementType::f16 ? 0x1p-11 : 0x1p-8;
  double factor = type == ElementType::f32 ? 16 + 2 * largestLse : 8;
  return 2 * factor * unit * largest;
}

/// How far gradients of two kernels may differ, relative to the largest number of one of them.
/// Roundings amount to a few units of it; a wrong tile to all of it.
static double gradientTolerance(ElementType type) {
  return type == ElementType::f32 ? 0x1p-14 : type == ElementType::f16 ? 0x1p-6 : 0x1p-3;
}

Status TuneProblem::compareGradients(const Context &context, const Kernel &kernel,
                                     const Kernel &trusted) const {
  const Set &set = sets[0];
  Result<Results> expected = resultsOf(context, trusted, set.gradients);
  if (!expected)
    return expected.error();
  Result<Results> found = resultsOf(context, kernel, set.gradients);
  if (!found)
    return found.error();
  for (size_t i = 0; i < set.gradients.size(); ++i) {
    const NamedTensor &gradient = set.arguments.tensors[i + 1]; // the first tensor is do
    double largest = 0, error = 0;
    for (int64_t n = 0; n < gradient.tensor.elementCount(); ++n) {
      double want = loadFloat((*expected)[i].data(), type, n);
      double difference = std::abs(want - double(loadFloat((*found)[i].data(), type, n)));
      largest = std::max(largest, std::abs(want));
      error = std::max(error, std::isnan(difference) ? HUGE_VAL : difference);
    }
    double allowed = gradientTolerance(type) * largest;
    if (error > allowed)
      return Error(
          Code::defect,
          fmt::format("its result differs from that of the heuristic's schedule by {:.3g} in "
                      "{}; {:.3g} is allowed",
                      error, gradient.name, allowed));
  }
  return Status::success();
}

Status TuneProblem::compare(const Context &context, const Kernel &kernel,
                            const Kernel &trusted) const {
  const Set &set = sets[0];
  if (!set.gradients.empty())
    return compareGradients(context, kernel, trusted);
  const std::vector<size_t> places = {set.o, set.lse};
  Result<Results> expected = resultsOf(context, trusted, places);
  if (!expected)
    return expected.error();
  Result<Results> found = resultsOf(context, kernel, places);
  if (!found)
    return found.error();

  double largestLse = 0, lseError = 0;
  for (int64_t i = 0; i < set.arguments.lse.elementCount(); ++i) {
    double want = loadFloat((*expected)[1].data(), ElementType::f32, i),
           have = loadFloat((*found)[1].data(), ElementType::f32, i);
    if (std::isfinite(want))
      largestLse = std::max(largestLse, std::abs(want));
    if (want == have) // also equal infinities, of rows without keys
      continue;
    // Each may differ by 1e-3 and 4 units in the last place (docs/numerics.md). A NaN never passes.
    double allowed = 2 * (1e-3 + 4 * 0x1p-23 * std::abs(want));
    if (!(std::abs(want - have) <= allowed))
      lseError = std::max(lseError, std::isfinite(have) ? std::abs(want - have) : HUGE_VAL);
  }
  constexpr double largestValue = 6; // the largest |v| among 2^18 normal numbers
  double allowed =
      tolerance(type, largestLse + std::log(double(set.arguments.k.extents[2])), largestValue);
  double error = 0;
  int64_t count = set.arguments.o.elementCount();
  for (int64_t i = 0; i < count; ++i) {
    double difference = std::abs(double(loadFloat((*expected)[0].data(), type, i)) -
                                 double(loadFloat((*found)[0].data(), type, i)));
    error = std::max(error, std::isnan(difference) ? HUGE_VAL : difference);
  }
  if (error <= allowed && lseError == 0)
    return Status::success();
  return Error(
      Code::defect,
      fmt::format("its result differs from that of the heuristic's schedule by {:.3g} in o "
                  "and by {:.3g} in lse; {:.3g} is allowed in o, and 0 in lse",
                  error, lseError, allowed));
}

} // namespace tesela
