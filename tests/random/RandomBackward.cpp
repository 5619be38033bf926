//===- RandomBackward.cpp -------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "RandomBackward.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tesela {

/// Streams of RandomSource, after those of RandomLaunch.cpp.
static constexpr uint64_t gradientOptionStream = 8, gradientLaunchStream = 9;

KernelOptions randomGradientOptions(uint64_t seed, bool isGpu, const std::string &algorithm) {
  RandomSource random(seed, gradientOptionStream);
  using enum ElementType;
  const ElementType types[] = {bf16, f16, isGpu ? bf16 : f32};
  const int headDims[] = {64, 64, 64, 64, 128, 128, 128, 128, 32, 40, 72, 96, 256};
  KernelOptions options;
  options.algorithm = algorithm;
  options.variantFile = "seed " + std::to_string(seed);
  options.inputType = random.pick(types);
  options.headDimQk = options.headDimV = random.pick(headDims);
  if (random.chance(10))
    options.headDimV = random.pick(headDims);
  return options;
}

Result<std::unique_ptr<RandomLaunch>> RandomBackward::create(const Context &context,
                                                             const KernelOptions &options,
                                                             const VariantInfo &info, uint64_t seed,
                                                             int number) {
  std::unique_ptr<RandomBackward> launch(new RandomBackward(context, options));
  if (Status status = launch->prepare(info, seed, number); !status)
    return status.error();
  if (Status status = launch->prepareGradients(seed, number); !status)
    return status.error();
  return Result<std::unique_ptr<RandomLaunch>>(std::move(launch));
}

static void store(const Tensor &tensor, int64_t index, double value) {
  int64_t offset = 0;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    offset += index % tensor.extents[axis] * tensor.strides[axis];
    index /= tensor.extents[axis];
  }
  float number = float(value);
  if (tensor.type == ElementType::f32)
    static_cast<float *>(tensor.data)[offset] = number;
  else
    static_cast<uint16_t *>(tensor.data)[offset] =
        tensor.type == ElementType::f16 ? floatToF16(number) : floatToBf16(number);
}

Status RandomBackward::attend() {
  KernelOptions attention = options;
  attention.algorithm = KernelOptions().algorithm;
  Result<Reference> forward = hostReference(attention, arguments(/*onDevice=*/false), 1);
  if (!forward)
    return forward.error();
  // Not the base: at jumps of a score it belongs to other pairs.
  for (size_t i = 0; i < forward->ref.size(); ++i)
    store(o.host(), int64_t(i), forward->ref[i]);
  for (size_t row = 0; row < forward->lse.size(); ++row)
    store(lse.host(), int64_t(row), forward->lse[row]);
  return Status::success();
}

Status RandomBackward::prepareGradients(uint64_t seed, int number) {
  RandomSource random(seed, gradientLaunchStream + uint64_t(number));
  hasDlse = random.chance(33);
  const std::pair<Held *, Tensor> views[] = {
      {&dO, heads(H, Sq, options.headDimV, random)},
      {&dlse, Tensor::contiguous(nullptr, ElementType::f32, {B, H, Sq})},
      {&dq, heads(H, Sq, options.headDimQk, random)},
      {&dk, heads(Hkv, Sk, options.headDimQk, random)},
      {&dv, heads(Hkv, Sk, options.headDimV, random)}};
  for (const auto &[held, view] : views)
    if (Status status = allocate(*held, view); !status)
      return status;
  if (Status status = attend(); !status)
    return status;
  fillNormal(dO.host(), random.next() % 1000000);
  fillNormal(dlse.host(), random.next() % 1000000);
  // The logarithm of a row without keys has no gradient.
  const auto *logarithms = static_cast<const float *>(lse.host().data);
  for (int64_t row = 0; row < B * H * Sq; ++row)
    if (logarithms[row] == -std::numeric_limits<float>::infinity() && random.chance(50))
      store(dlse.host(), row, std::numeric_limits<float>::quiet_NaN());
  for (Held *held : {&o, &lse, &dO, &dlse})
    if (Status status = upload(*held); !status)
      return status;
  return Status::success();
}

LaunchArguments RandomBackward::gradientArguments(bool onDevice) {
  LaunchArguments result = arguments(onDevice);
  auto where = [&](Held &held) { return onDevice ? held.device() : held.host(); };
  result.tensors = {{"do", where(dO)}, {"dq", where(dq)}, {"dk", where(dk)}, {"dv", where(dv)}};
  if (hasDlse)
    result.tensors.push_back({"dlse", where(dlse)});
  return result;
}

Status RandomBackward::launch(const Kernel &kernel, std::mutex &device) {
  std::lock_guard lock(device);
  for (Held *held : {&dq, &dk, &dv})
    if (Status status = context.fill(held->buffer, 0xff); !status)
      return status;
  LaunchArguments given = gradientArguments(/*onDevice=*/true);
  Result<size_t> bytes = kernel.workspaceBytes(given);
  if (!bytes)
    return bytes.error();
  Buffer workspace;
  if (*bytes > 0) {
    Result<Buffer> allocated = context.allocate(*bytes);
    if (!allocated)
      return allocated.error();
    workspace = std::move(*allocated);
    if (Status status = context.fill(workspace, 0xff); !status)
      return status;
    given.workspace = {workspace.data(), *bytes};
  }
  if (Status status = kernel.launch(given); !status)
    return status;
  if (Status status = context.synchronize(); !status)
    return status;
  for (Held *held : {&dq, &dk, &dv})
    if (Status status = fetch(*held); !status)
      return status;
  return Status::success();
}

static bool isFinite(const Reference &reference) {
  auto finite = [](double value) { return std::isfinite(value); };
  return std::all_of(reference.ref.begin(), reference.ref.end(), finite) &&
         std::all_of(reference.base.begin(), reference.base.end(), finite);
}

std::string RandomBackward::check() {
  for (const Held *held : {&dq, &dk, &dv})
    if (!guardIsIntact(*held))
      return "the kernel writes behind its output";
  Result<GradientReference> expected =
      hostGradientReference(options, gradientArguments(/*onDevice=*/false), 1);
  if (!expected)
    return "the reference: " + expected.error().message();
  pairs = B * H * Sq * Sk;
  keptPairs = expected->dq.keptPairs;
  isUndefined = !isFinite(expected->dq) || !isFinite(expected->dk) || !isFinite(expected->dv);
  if (isUndefined)
    return "";
  struct Part {
    const char *name;
    const Reference *reference;
    Held *held;
  };
  for (const Part &part : {Part{"dq", &expected->dq, &dq}, Part{"dk", &expected->dk, &dk},
                           Part{"dv", &expected->dv, &dv}}) {
    Result<Comparison> comparison = compareGradient(*part.reference, part.held->host(), part.name);
    if (!comparison)
      return comparison.error().message();
    if (!comparison->passed)
      return comparison->failure;
  }
  return "";
}

} // namespace tesela
