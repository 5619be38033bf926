//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "launch/CheckedArguments.h"

#include "launch/CheckedParameters.h"
#include "launch/TensorSpan.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <span>

namespace tesela {

namespace {

constexpr const char *axisNames[] = {"batch", "head", "length", "head dimension"};

/// Kernels keep extents in i32.
constexpr int64_t maxExtent = std::numeric_limits<int32_t>::max();
/// Kernels add a block's rows, keys or prefetched blocks to a position in i32.
constexpr int64_t maxLength = (int64_t(1) << 31) - 4096;

Error invalid(const std::string &message) { return Error(Code::invalidArgument, message); }

/// A tensor of rank 4 in the kernel's type, with extents that kernels can count.
Status checkShape(const char *name, const Tensor &tensor, ElementType type) {
  auto is = [&] { return std::string(name) + " is " + describe(tensor); };
  if (tensor.type != type)
    return invalid(is() + ", the kernel was compiled for " + std::string(elementTypeName(type)) +
                   ": convert it, or compile for " + std::string(elementTypeName(tensor.type)));
  if (tensor.rank != 4)
    return invalid(is() + ", its rank must be 4: [batch, heads, length, head dimension]");
  for (int axis = 0; axis < 4; ++axis) {
    int64_t limit = axis == 2 ? maxLength : maxExtent;
    if (tensor.extents[axis] < 0 || tensor.extents[axis] > limit)
      return invalid(is() + ", its " + axisNames[axis] + " extent must lie in [0, " +
                     std::to_string(limit) + "]: split what is longer over several launches");
  }
  return Status::success();
}

Status checkExtent(const char *name, int axis, int64_t actual, int64_t expected,
                   const char *source) {
  if (actual == expected)
    return Status::success();
  return invalid(std::string(name) + " has the " + axisNames[axis] + " extent " +
                 std::to_string(actual) + ", " + source + " has " + std::to_string(expected) +
                 ": they must agree");
}

/// Address and strides of q, k, v or o. Sets the strides of extents of 1 to 0 (the last to 1).
Status checkLayout(const char *name, Tensor &tensor, int alignment, bool written) {
  for (int axis = 0; axis < 4; ++axis)
    if (tensor.extents[axis] == 1)
      tensor.strides[axis] = axis == 3 ? 1 : 0;
  if (hasNoElements(tensor))
    return Status::success();
  if (!tensor.data)
    return invalid(std::string(name) + " has no address: pass the " + describe(tensor) +
                   " in the device's memory");
  int64_t elementBytes = elementSize(tensor.type);
  int64_t needed = alignment ? alignment : elementBytes;
  if (uint64_t address = reinterpret_cast<uintptr_t>(tensor.data); address % needed)
    return invalid(std::string(name) + "'s address is " + std::to_string(address % needed) +
                   " bytes past a multiple of " + std::to_string(needed) +
                   ": copy the tensor to aligned memory");
  if (tensor.strides[3] != 1)
    return invalid(std::string(name) + "'s last stride is " + std::to_string(tensor.strides[3]) +
                   ", it must be 1: make the head dimension contiguous");
  auto strideIs = [&](int axis) {
    return std::string(name) + "'s " + axisNames[axis] + " stride is " +
           std::to_string(tensor.strides[axis]) + " elements";
  };
  for (int axis = 0; axis < 3; ++axis)
    if (tensor.strides[axis] < 0)
      return invalid(strideIs(axis) + ", it must not be negative: copy the tensor");
  // From here a stride in bytes fits 63 bits.
  if (!spanFits(tensor))
    return checkSpan(std::string(name) + " is " + describe(tensor), tensor);
  for (int axis = 0; axis < 3; ++axis) {
    int64_t stride = tensor.strides[axis];
    if (stride * elementBytes % needed)
      return invalid(strideIs(axis) + " = " + std::to_string(stride * elementBytes) +
                     " bytes, it must be a multiple of " + std::to_string(needed) +
                     " bytes: pad the rows or copy the tensor");
    if (written && stride == 0 && tensor.extents[axis] > 1)
      return invalid(strideIs(axis) + ", so several results share one place: give each its own");
  }
  return Status::success();
}

Status checkLse(const Tensor &lse, const Extents &extents) {
  int64_t expected[] = {extents.B, extents.H, extents.Sq};
  auto is = [&] { return "lse is " + describe(lse); };
  auto shape = [&] { return fmt::format("[{}, {}, {}]", expected[0], expected[1], expected[2]); };
  bool fits = lse.type == ElementType::f32 && lse.rank == 3;
  for (int axis = 0; fits && axis < 3; ++axis)
    fits = lse.extents[axis] == expected[axis];
  if (!fits)
    return invalid(is() + ", it must be f32" + shape() + ": [batch, heads, queries]");
  if (hasNoElements(lse))
    return Status::success();
  if (!spanFits(lse))
    return checkSpan(is(), lse);
  if (!lse.data)
    return invalid("lse has no address: pass f32" + shape() + " in the device's memory");
  if (reinterpret_cast<uintptr_t>(lse.data) % 4)
    return invalid("lse's address must be a multiple of 4 bytes");
  int64_t stride = 1;
  for (int axis = 2; axis >= 0; --axis) {
    if (lse.extents[axis] != 1 && lse.strides[axis] != stride)
      return invalid("lse's stride of axis " + std::to_string(axis) + " is " +
                     std::to_string(lse.strides[axis]) + ", it must be " + std::to_string(stride) +
                     ": lse is written without gaps");
    stride *= lse.extents[axis];
  }
  return Status::success();
}

Result<float> checkScale(std::optional<double> scale, int headDim) {
  if (!scale)
    return float(1.0 / std::sqrt(double(headDim)));
  float rounded = float(*scale);
  auto is = [&] { return "the scale is " + fmt::format("{}", *scale); };
  if (!std::isfinite(rounded))
    return invalid(is() + ", it must be finite");
  if (*scale < 0)
    return invalid(is() + ", it must be positive: negate q and pass " + fmt::format("{}", -*scale));
  constexpr float least = 0x1p-100f; // its inverse scales the other terms of a score
  if (rounded < least)
    return invalid(
        is() + fmt::format(", it must be at least {}: for equal weights pass q of zeros", least));
  return rounded;
}

} // namespace

Status checkArguments(const Signature &signature, const LaunchArguments &arguments,
                      const ArgumentRules &rules, CheckedArguments &checked) {
  checked.tensors = {arguments.q, arguments.k, arguments.v, arguments.o, arguments.lse};
  auto &[q, k, v, o, lse] = checked.tensors;
  struct Named {
    const char *name;
    Tensor *tensor;
    bool written;
  };
  const Named all[] = {{"q", &q, false}, {"k", &k, false}, {"v", &v, false}, {"o", &o, true}};
  const std::span<const Named> looked(all, rules.checkResults ? 4 : 3);
  for (const Named &each : looked)
    if (Status status = checkShape(each.name, *each.tensor, signature.inputType); !status)
      return status;

  struct Agreement {
    const char *name;
    const Tensor *tensor;
    int axis;
    int64_t expected;
    const char *source;
  };
  const Agreement agreements[] = {
      {"q", &q, 3, signature.headDimQk, "the kernel"},
      {"k", &k, 0, q.extents[0], "q"},
      {"k", &k, 3, signature.headDimQk, "the kernel"},
      {"v", &v, 0, q.extents[0], "q"},
      {"v", &v, 1, k.extents[1], "k"},
      {"v", &v, 2, k.extents[2], "k"},
      {"v", &v, 3, signature.headDimV, "the kernel"},
      {"o", &o, 0, q.extents[0], "q"},
      {"o", &o, 1, q.extents[1], "q"},
      {"o", &o, 2, q.extents[2], "q"},
      {"o", &o, 3, signature.headDimV, "the kernel"},
  };
  for (const Agreement &each : std::span(agreements, rules.checkResults ? 11 : 7))
    if (Status status = checkExtent(each.name, each.axis, each.tensor->extents[each.axis],
                                    each.expected, each.source);
        !status)
      return status;

  int64_t heads = q.extents[1], kvHeads = k.extents[1];
  if (heads > 0 && (kvHeads == 0 || heads % kvHeads))
    return invalid("q has " + std::to_string(heads) + " heads and k has " +
                   std::to_string(kvHeads) + ": the first must be a multiple of the second");
  checked.extents = {int32_t(q.extents[0]), int32_t(heads), int32_t(kvHeads), int32_t(q.extents[2]),
                     int32_t(k.extents[2])};

  for (const Named &each : looked)
    if (Status status = checkLayout(each.name, *each.tensor, rules.alignment, each.written);
        !status)
      return status;
  if (rules.checkResults)
    if (Status status = checkLse(lse, checked.extents); !status)
      return status;

  Result<float> scale = checkScale(arguments.scale, signature.headDimQk);
  if (!scale)
    return scale.error();
  checked.scale = *scale;
  checked.capturesUnchanged = arguments.capturesUnchanged;
  return checkParameters(signature.parameters, arguments, checked);
}

Result<CheckedArguments> checkArguments(const Signature &signature,
                                        const LaunchArguments &arguments,
                                        const ArgumentRules &rules) {
  CheckedArguments checked;
  if (Status status = checkArguments(signature, arguments, rules, checked); !status)
    return status.error();
  return checked;
}

} // namespace tesela
