//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "launch/CheckedArguments.h"

#include "bundle/CExpressions.h"
#include "launch/CheckedParameters.h"
#include "launch/TensorSpan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace tesela {

namespace {

/// Kernels store extents in i32.
constexpr int64_t maxExtent = std::numeric_limits<int32_t>::max();
/// Kernels add indices within a block, and of prefetched blocks, to a position in i32.
constexpr int64_t maxLength = (int64_t(1) << 31) - 4096;

/// The indices of the launch's extents.
enum ExtentIndex { batch, heads, kvHeads, queries, keys };

Error invalid(const std::string &message) { return Error(Code::invalidArgument, message); }

/// Views of rank 4 are [batch, head, position, D].
std::string axisName(const DeclaredTensor &declared, int axis) {
  constexpr const char *names[] = {"batch", "head", "length", "head dimension"};
  return declared.axes.size() == 4 ? names[axis] : "axis " + std::to_string(axis);
}

int64_t limitOf(const DeclaredAxis &axis) {
  bool isLength = axis.kind == DeclaredAxis::Kind::extent && axis.value >= queries;
  return isLength ? maxLength : maxExtent;
}

const char *meaningOf(int extent) {
  constexpr const char *meanings[] = {
      "the number of sequences", "the number of query heads", "the number of key/value heads",
      "the most queries of a sequence", "the most keys of a sequence"};
  return meanings[extent];
}

std::string is(const DeclaredTensor &declared, const Tensor &tensor) {
  return declared.name + " is " + describe(tensor);
}

/// Whether kernels are compiled for several types of the tensor, and `type` may be one of them.
/// Tensors of rows [batch, head, position, D] have the input's type or the cache's; all others
/// (starts, lengths, tables, scales) have one type in every kernel.
bool mayCompileFor(const DeclaredTensor &declared, ElementType type) {
  constexpr ElementType types[] = {ElementType::f32, ElementType::f16, ElementType::bf16,
                                   ElementType::e4m3};
  return declared.axes.size() == 4 && std::ranges::find(types, type) != std::end(types);
}

/// What to pass as a tensor of rows, in the order of the kernel's axes. Callers of serving kernels
/// have the axes in another order, so it also says how to see those.
std::string shapeOfRows(const DeclaredTensor &declared, bool isPool) {
  constexpr int tokens = 2;
  const DeclaredAxis &sequences = declared.axes[0];
  if (isPool)
    return "[pages, heads, rows of a page, head dimension], a view of [pages, page, heads, head "
           "dimension]";
  if (sequences.kind == DeclaredAxis::Kind::number && sequences.value == 1 &&
      declared.axes[tokens].kind == DeclaredAxis::Kind::any)
    return "[1, heads, tokens, head dimension], a view of [tokens, heads, head dimension]";
  return "[batch, heads, length, head dimension]";
}

/// Checks type and rank, and that kernels can count the extents.
Status checkShape(const DeclaredTensor &declared, const Tensor &tensor, bool isPool) {
  if (tensor.type != declared.type) {
    std::string type(elementTypeName(declared.type));
    if (!mayCompileFor(declared, tensor.type))
      return invalid(is(declared, tensor) + ", its elements must be " + type + ": convert it to " +
                     type);
    return invalid(is(declared, tensor) + ", the kernel was compiled for " + type +
                   ": convert it, or compile for " + std::string(elementTypeName(tensor.type)));
  }
  int rank = int(declared.axes.size());
  if (tensor.rank != rank)
    return invalid(is(declared, tensor) + ", its rank must be " + std::to_string(rank) +
                   (rank == 4 ? ": " + shapeOfRows(declared, isPool) : ""));
  for (int axis = 0; axis < rank; ++axis) {
    int64_t limit = limitOf(declared.axes[axis]);
    if (tensor.extents[axis] < 0 || tensor.extents[axis] > limit)
      return invalid(is(declared, tensor) + ", its " + axisName(declared, axis) +
                     " extent must lie in [0, " + std::to_string(limit) + "]: " +
                     (tensor.extents[axis] < 0 ? "pass an extent that is not negative"
                                               : "split the problem into several launches"));
  }
  return Status::success();
}

/// The axes whose strides alone let two elements have the same address; nullopt: there are none.
/// No layout without such elements is refused. An overlap of three axes together is not found.
std::optional<std::pair<int, int>> overlappingAxes(const Tensor &tensor) {
  // Usually each stride is at least the span of the axes with smaller ones.
  std::array<int, Tensor::maxRank> order;
  int count = 0;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.extents[axis] == 0)
      return std::nullopt; // no elements, and any strides
    if (tensor.extents[axis] == 1)
      continue;
    int place = count++;
    for (; place > 0 && tensor.strides[order[place - 1]] > tensor.strides[axis]; --place)
      order[place] = order[place - 1];
    order[place] = axis;
  }
  int64_t last = 0; // the position of the last element of the axes so far
  bool isNested = true;
  for (int i = 0; i < count; ++i) {
    isNested &= tensor.strides[order[i]] > last;
    last += (tensor.extents[order[i]] - 1) * tensor.strides[order[i]];
  }
  if (isNested)
    return std::nullopt;
  for (int i = 0; i < count; ++i)
    for (int j = i + 1; j < count; ++j) {
      auto [inner, outer] = std::pair(order[i], order[j]);
      // The shortest steps of both axes that reach the same element.
      int64_t common = std::gcd(tensor.strides[inner], tensor.strides[outer]);
      if (tensor.strides[outer] / common < tensor.extents[inner] &&
          tensor.strides[inner] / common < tensor.extents[outer])
        return std::pair(inner, outer);
    }
  return std::nullopt;
}

/// Checks address and strides. Sets the strides of extents of 1 to 0 (the last to 1).
Status checkLayout(const DeclaredTensor &declared, Tensor &tensor, int alignment) {
  const std::string &name = declared.name;
  int last = tensor.rank - 1;
  for (int axis = 0; axis <= last; ++axis)
    if (tensor.extents[axis] == 1)
      tensor.strides[axis] = axis == last ? 1 : 0;
  if (hasNoElements(tensor))
    return Status::success();
  if (!tensor.data)
    return invalid(name + " has no address: pass the " + describe(tensor) +
                   " in the device's memory");
  int64_t elementBytes = elementSize(tensor.type);
  int64_t needed = alignment ? alignment : elementBytes;
  if (uint64_t address = reinterpret_cast<uintptr_t>(tensor.data); address % needed)
    return invalid(name + "'s address is " + std::to_string(address % needed) +
                   " bytes past a multiple of " + std::to_string(needed) +
                   ": copy the tensor to aligned memory");
  if (tensor.strides[last] != 1)
    return invalid(name + "'s last stride is " + std::to_string(tensor.strides[last]) +
                   ", it must be 1: make the " + axisName(declared, last) + " contiguous");
  auto strideIs = [&](int axis) {
    return name + "'s " + axisName(declared, axis) + " stride is " +
           std::to_string(tensor.strides[axis]) + " elements";
  };
  for (int axis = 0; axis < last; ++axis)
    if (tensor.strides[axis] < 0)
      return invalid(strideIs(axis) + ", it must not be negative: copy the tensor");
  // From here on, a stride in bytes fits 63 bits.
  if (!spanFits(tensor))
    return checkSpan(is(declared, tensor), tensor);
  for (int axis = 0; axis < last; ++axis) {
    int64_t stride = tensor.strides[axis];
    if (stride * elementBytes % needed)
      return invalid(strideIs(axis) + " = " + std::to_string(stride * elementBytes) +
                     " bytes, it must be a multiple of " + std::to_string(needed) +
                     " bytes: pad the rows or copy the tensor");
    if (declared.isWritten && stride == 0 && tensor.extents[axis] > 1)
      return invalid(strideIs(axis) +
                     ", so several results have the same address: pass a stride other than 0");
  }
  if (!declared.isWritten)
    return Status::success();
  if (auto axes = overlappingAxes(tensor)) {
    auto [inner, outer] = *axes;
    return invalid(
        strideIs(outer) +
        fmt::format(", and along the {} there are {} elements {} apart, so several results have "
                    "the same address: pass a larger stride, or copy the tensor",
                    axisName(declared, inner), tensor.extents[inner], tensor.strides[inner]));
  }
  return Status::success();
}

Result<float> checkScale(std::optional<double> scale, int headDim) {
  if (!scale)
    return headDim > 0 ? float(1.0 / std::sqrt(double(headDim))) : 1.0f;
  float rounded = float(*scale);
  auto is = [&] { return "the scale is " + fmt::format("{}", *scale); };
  if (headDim == 0)
    return invalid(is() + ", but the kernel has no scale: leave it out");
  if (!std::isfinite(*scale))
    return invalid(is() + ", it must be finite");
  if (!std::isfinite(rounded))
    return invalid(
        is() + fmt::format(
                   ", its magnitude must be at most {}, the largest number of f32: scale q instead",
                   std::numeric_limits<float>::max()));
  if (*scale < 0)
    return invalid(is() + ", it must be positive: negate q and pass " + fmt::format("{}", -*scale));
  constexpr float least = 0x1p-100f; // kernels scale the other terms of a score by its inverse
  if (rounded < least)
    return invalid(
        is() + fmt::format(", it must be at least {}: for equal weights pass q of zeros", least));
  return rounded;
}

/// Checks the tensors that a signature declares and binds the launch's extents. The first tensor
/// that has an extent defines it; all others must agree.
class TensorChecker {
public:
  TensorChecker(const Signature &signature, const LaunchArguments &arguments,
                const ArgumentRules &rules, CheckedArguments &checked)
      : signature(signature), arguments(arguments), rules(rules), checked(checked) {}

  Status run() {
    checked.tensors.reset(signature.tensors.size());
    for (auto step :
         {&TensorChecker::takeExtents, &TensorChecker::take, &TensorChecker::checkShapes,
          &TensorChecker::agree, &TensorChecker::checkLeastRows, &TensorChecker::bindRest,
          &TensorChecker::checkMemory})
      if (Status status = (this->*step)(); !status)
        return status;
    return Status::success();
  }

private:
  const Signature &signature;
  const LaunchArguments &arguments;
  const ArgumentRules &rules;
  CheckedArguments &checked;
  std::array<int64_t, 5> values{};
  std::array<const char *, 5> sources{}; ///< the tensor that defined the extent; null: none yet

  bool isLookedAt(size_t index) const {
    const DeclaredTensor &declared = signature.tensors[index];
    bool isLeftOut = declared.isOptional && !checked.tensors[index].data;
    return !isLeftOut && (rules.checkResults || !declared.isWritten);
  }

  /// Runs `check` in order on the tensors that are to be checked and that are declared `contiguous`
  /// or not.
  template <typename Check> Status forEach(bool contiguous, const Check &check) {
    for (size_t i = 0; i < signature.tensors.size(); ++i) {
      const DeclaredTensor &declared = signature.tensors[i];
      if (declared.contiguous != contiguous || !isLookedAt(i))
        continue;
      if (declared.isWritten && checked.tensors[i].readOnly)
        return invalid(declared.name +
                       " is read-only, but it must be written: pass a writable tensor");
      if (Status status = check(declared, checked.tensors[i]); !status)
        return status;
    }
    return Status::success();
  }

  Status takeExtents() {
    for (const NamedExtent &each : arguments.extents) {
      auto found = std::ranges::find(extentNames, each.name);
      size_t index = found - extentNames.begin();
      if (found == extentNames.end())
        return invalid("there is no extent '" + each.name + "'; a launch has " +
                       fmt::format("{}", fmt::join(extentNames, ", ")));
      if (sources[index])
        return invalid("the extent " + each.name + " is given twice: pass it once");
      int64_t limit = index >= queries ? maxLength : maxExtent;
      if (each.value < 0 || each.value > limit)
        return invalid(fmt::format("the extent {} is {}, it must lie in [0, {}]", each.name,
                                   each.value, limit));
      sources[index] = "the launch's extents";
      values[index] = each.value;
    }
    return Status::success();
  }

  Status take() {
    for (size_t i = 0; i < signature.tensors.size(); ++i)
      if (auto member = signature.tensors[i].member)
        checked.tensors[i] = arguments.*member;
    bool isAttention = signature.tensors.size() == std::size(tensorMembers) &&
                       std::ranges::all_of(signature.tensors, &DeclaredTensor::member);
    return isAttention && arguments.tensors.empty() ? Status::success() : takeNamed();
  }

  const DeclaredTensor *find(std::string_view name) const {
    for (const DeclaredTensor &declared : signature.tensors)
      if (declared.name == name)
        return &declared;
    return nullptr;
  }

  Status takeNamed() {
    auto isGiven = [](const Tensor &tensor) { return tensor.data || tensor.rank > 0; };
    auto unknown = [&](std::string_view name) {
      return invalid(fmt::format("there is no tensor '{}'; the kernel's tensors are {}", name,
                                 signature.names()));
    };
    for (const TensorMember &each : tensorMembers)
      if (isGiven(arguments.*each.member) && !find(each.name))
        return unknown(each.name);
    for (const NamedTensor &each : arguments.tensors) {
      const DeclaredTensor *declared = find(each.name);
      if (!declared)
        return unknown(each.name);
      Tensor &tensor = checked.tensors[declared - signature.tensors.data()];
      if (isGiven(tensor))
        return invalid("the tensor '" + each.name + "' is given twice: pass it once");
      tensor = each.tensor;
    }
    for (size_t i = 0; i < signature.tensors.size(); ++i)
      if (!isGiven(checked.tensors[i]) && isLookedAt(i))
        return invalid("the tensor '" + signature.tensors[i].name +
                       "' is missing: pass it by name; the kernel's tensors are " +
                       signature.names());
    return Status::success();
  }

  Status checkShapes() {
    return forEach(/*contiguous=*/false, [&](const DeclaredTensor &declared, Tensor &tensor) {
      return checkShape(declared, tensor, signature.isPool(declared));
    });
  }

  Status agree() {
    return forEach(/*contiguous=*/false, [&](const DeclaredTensor &declared, Tensor &tensor) {
      for (int axis = 0; axis < tensor.rank; ++axis)
        if (Status status = agreeOn(declared, tensor, axis); !status)
          return status;
      return Status::success();
    });
  }

  /// Where sequences lie one after the other, kernels write as many rows of a tensor beside the
  /// results (LSE) as of the results. So it must have at least as many rows.
  Status checkLeastRows() {
    constexpr int rows = 2;
    auto isOfAnyRows = [](const DeclaredTensor &declared, const Tensor &tensor) {
      return declared.isWritten && tensor.rank > rows &&
             declared.axes[rows].kind == DeclaredAxis::Kind::any;
    };
    return forEach(/*contiguous=*/false, [&](const DeclaredTensor &declared, Tensor &tensor) {
      if (declared.axes.size() != 3 || !isOfAnyRows(declared, tensor))
        return Status::success();
      for (size_t i = 0; i < signature.tensors.size(); ++i) {
        const DeclaredTensor &result = signature.tensors[i];
        const Tensor &given = checked.tensors[i];
        if (result.axes.size() == 4 && isOfAnyRows(result, given) &&
            tensor.extents[rows] < given.extents[rows])
          return Status(
              invalid(fmt::format("{} has the {} extent {}, it must have at least as many rows "
                                  "as {}, which has {}",
                                  declared.name, axisName(declared, rows), tensor.extents[rows],
                                  result.name, given.extents[rows])));
      }
      return Status::success();
    });
  }

  Status agreeOn(const DeclaredTensor &declared, const Tensor &tensor, int axis) {
    const DeclaredAxis &expected = declared.axes[axis];
    int64_t actual = tensor.extents[axis], value = expected.value;
    const char *source = nullptr;
    if (expected.kind == DeclaredAxis::Kind::extent) {
      if (!bind(declared, expected, actual))
        return Status::success();
      value = values[expected.value];
      source = sources[expected.value];
    } else if (expected.kind != DeclaredAxis::Kind::number) {
      return Status::success();
    }
    if (actual == value)
      return Status::success();
    if (signature.isPool(declared) && axis == Signature::rowsOfPage)
      return invalid(fmt::format("{0} has pages of {1} rows, the kernel was compiled for pages of "
                                 "{2} rows: pass a pool with pages of {2} rows, or compile with "
                                 "the binding page={1}",
                                 declared.name, actual, value));
    return invalid(declared.name + " has the " + axisName(declared, axis) + " extent " +
                   std::to_string(actual) + ", " + (source ? source : "the kernel") + " has " +
                   std::to_string(value) + ": they must agree");
  }

  /// Returns false if no tensor had defined the extent; `actual` then defines it.
  bool bind(const DeclaredTensor &declared, const DeclaredAxis &axis, int64_t actual) {
    if (sources[axis.value])
      return true;
    sources[axis.value] = declared.name.c_str();
    values[axis.value] = actual;
    return false;
  }

  /// Binds extents that only contiguous tensors have. An extent that nothing defines and no kernel
  /// needs becomes 1; Hkv becomes H. Then checks the extents that are computed from others.
  Status bindRest() {
    Status bound =
        forEach(/*contiguous=*/true, [&](const DeclaredTensor &declared, Tensor &tensor) {
          for (size_t axis = 0; axis < declared.axes.size(); ++axis) {
            const DeclaredAxis &expected = declared.axes[axis];
            if (expected.kind != DeclaredAxis::Kind::extent || sources[expected.value])
              continue;
            if (tensor.rank != int(declared.axes.size()) || tensor.extents[axis] < 0 ||
                tensor.extents[axis] > limitOf(expected))
              return checkShape(declared, tensor, signature.isPool(declared));
            bind(declared, expected, tensor.extents[axis]);
          }
          return Status::success();
        });
    if (!bound)
      return bound;
    for (int index : signature.asked)
      if (!sources[index])
        return invalid(
            fmt::format("the extent {0} is missing, and no tensor has it: pass it by name "
                        "among the launch's extents; {0} is {1}",
                        extentNames[index], meaningOf(index)));
    for (int index : {batch, heads, kvHeads, queries, keys})
      if (!sources[index])
        values[index] = index == kvHeads ? values[heads] : 1;
    if (sources[heads] && sources[kvHeads] && values[heads] > 0 &&
        (values[kvHeads] == 0 || values[heads] % values[kvHeads]))
      return invalid(std::string(sources[heads]) + " has " + std::to_string(values[heads]) +
                     " heads and " + sources[kvHeads] + " has " + std::to_string(values[kvHeads]) +
                     ": the number of heads of " + sources[heads] +
                     " must be a multiple of that of " + sources[kvHeads]);
    checked.extents = {int32_t(values[batch]), int32_t(values[heads]), int32_t(values[kvHeads]),
                       int32_t(values[queries]), int32_t(values[keys])};
    return forEach(
        /*contiguous=*/false, [&](const DeclaredTensor &declared, Tensor &tensor) -> Status {
          for (int axis = 0; axis < tensor.rank; ++axis) {
            const DeclaredAxis &expected = declared.axes[axis];
            if (expected.kind != DeclaredAxis::Kind::computed)
              continue;
            int64_t value = expected.expression.evaluate(checked.extents);
            if (tensor.extents[axis] != value)
              return invalid(is(declared, tensor) + ", its " + axisName(declared, axis) +
                             " extent must be " + expressionForReaders(expected.expression) +
                             " = " + std::to_string(value));
          }
          return Status::success();
        });
  }

  Status checkMemory() {
    Status strided =
        forEach(/*contiguous=*/false, [&](const DeclaredTensor &declared, Tensor &tensor) {
          // Rows are copied in chunks, so they must be aligned; single numbers need not be.
          bool hasRows = declared.axes.size() == 4;
          return checkLayout(declared, tensor, hasRows ? rules.alignment : 0);
        });
    if (!strided)
      return strided;
    return forEach(/*contiguous=*/true, [&](const DeclaredTensor &declared, Tensor &tensor) {
      return checkContiguous(declared, tensor);
    });
  }

  /// The required extent of `axis`; nullopt if any is allowed.
  std::optional<int64_t> expectedExtent(const DeclaredAxis &axis) const {
    switch (axis.kind) {
    case DeclaredAxis::Kind::any:
    case DeclaredAxis::Kind::captured: // checked after the captured tensors (checkLikeCaptures)
      return std::nullopt;
    case DeclaredAxis::Kind::number:
      return axis.value;
    case DeclaredAxis::Kind::extent:
      return values[axis.value];
    case DeclaredAxis::Kind::computed:
      return axis.expression.evaluate(checked.extents);
    }
    return std::nullopt;
  }

  /// "f32[2, 6, 5]", and what the axes are: "[batch, heads, queries]".
  std::pair<std::string, std::string> expectedShape(const DeclaredTensor &declared) const {
    constexpr const char *names[] = {"batch", "heads", "key/value heads", "queries", "keys"};
    std::string shape, meaning;
    for (const DeclaredAxis &axis : declared.axes) {
      std::optional<int64_t> value = expectedExtent(axis);
      std::string number = value ? std::to_string(*value) : "any";
      shape += (shape.empty() ? "" : ", ") + number;
      meaning += meaning.empty() ? "" : ", ";
      meaning += axis.kind == DeclaredAxis::Kind::extent     ? names[axis.value]
                 : axis.kind == DeclaredAxis::Kind::computed ? expressionForReaders(axis.expression)
                 : axis.kind == DeclaredAxis::Kind::captured
                     ? "as " + signature.parameters[axis.value].name
                     : number;
    }
    return {std::string(elementTypeName(declared.type)) + "[" + shape + "]", "[" + meaning + "]"};
  }

  /// Sets the strides of extents of 1 to those of a contiguous tensor.
  Status checkContiguous(const DeclaredTensor &declared, Tensor &tensor) const {
    const std::string &name = declared.name;
    int rank = int(declared.axes.size());
    bool fits = tensor.type == declared.type && tensor.rank == rank;
    for (int axis = 0; fits && axis < rank; ++axis) {
      std::optional<int64_t> expected = expectedExtent(declared.axes[axis]);
      int64_t actual = tensor.extents[axis];
      fits = expected ? actual == *expected : actual >= 0 && actual <= maxExtent;
    }
    if (!fits) {
      auto [shape, meaning] = expectedShape(declared);
      return invalid(is(declared, tensor) + ", it must be " + shape + ": " + meaning);
    }
    if (hasNoElements(tensor))
      return Status::success();
    if (!spanFits(tensor))
      return checkSpan(is(declared, tensor), tensor);
    if (!tensor.data)
      return invalid(name + " has no address: pass " + expectedShape(declared).first +
                     " in the device's memory");
    size_t elementBytes = elementSize(tensor.type);
    if (reinterpret_cast<uintptr_t>(tensor.data) % elementBytes)
      return invalid(name + "'s address must be a multiple of " + std::to_string(elementBytes) +
                     " bytes");
    int64_t stride = 1;
    for (int axis = rank - 1; axis >= 0; --axis) {
      if (tensor.extents[axis] != 1 && tensor.strides[axis] != stride)
        return invalid(name + "'s stride of axis " + std::to_string(axis) + " is " +
                       std::to_string(tensor.strides[axis]) + ", it must be " +
                       std::to_string(stride) + ": " + name + " is " +
                       (declared.isWritten ? "written" : "read") + " without gaps");
      tensor.strides[axis] = stride;
      stride *= tensor.extents[axis];
    }
    return Status::success();
  }
};

/// Checks the tensors whose extents must be those of captured tensors.
Status checkLikeCaptures(const Signature &signature, const ArgumentRules &rules,
                         const CheckedArguments &checked) {
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    const DeclaredTensor &declared = signature.tensors[i];
    if (declared.isWritten && !rules.checkResults)
      continue;
    for (size_t axis = 0; axis < declared.axes.size(); ++axis) {
      const DeclaredAxis &expected = declared.axes[axis];
      if (expected.kind != DeclaredAxis::Kind::captured)
        continue;
      const Tensor &capture = checked.captures[expected.value];
      int64_t extent = capture.extents[expected.axis];
      if (checked.tensors[i].extents[axis] != extent)
        return invalid(is(declared, checked.tensors[i]) + ", its extent of axis " +
                       std::to_string(axis) + " must be " + std::to_string(extent) +
                       ", as that of " + signature.parameters[expected.value].name + " is");
    }
  }
  return Status::success();
}

} // namespace

Status checkArguments(const Signature &signature, const LaunchArguments &arguments,
                      const ArgumentRules &rules, CheckedArguments &checked) {
  if (Status status = TensorChecker(signature, arguments, rules, checked).run(); !status)
    return status;
  Result<float> scale = checkScale(arguments.scale, signature.headDimQk);
  if (!scale)
    return scale.error();
  checked.scale = *scale;
  checked.capturesUnchanged = arguments.capturesUnchanged;
  if (Status status = checkParameters(signature.parameters, arguments, checked); !status)
    return status;
  return checkLikeCaptures(signature, rules, checked);
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
