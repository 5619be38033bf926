//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "bundle/CTensors.h"

#include "bundle/CNames.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace tesela {

namespace {

/// Writes one artifact's tensors. After the first failure `problem` says what no launcher knows.
class Writer {
public:
  Writer(const std::string &name, const Artifact &artifact)
      : name(name), artifact(artifact),
        members(memberNames(artifact.tensors, artifact.parameters, name).tensors) {}

  std::string problem;

  CTensors write() {
    CTensors written;
    written.hasScale = hasScale();
    bool isFirst = true;
    for (const TensorArgument &tensor : artifact.tensors) {
      if (tensor.contiguous)
        continue;
      if (!isFirst && tensor.type != written.type)
        fail("views of several element types, such as '" + tensor.name + "'");
      if (tensor.extents.size() != 4)
        fail("the view '" + tensor.name + "' of rank " + std::to_string(tensor.extents.size()));
      written.type = tensor.type;
      isFirst = false;
    }
    if (isFirst)
      fail("no view with strides, which would tell the launch's extents");
    if (!problem.empty())
      return written;
    written.checks = checks();
    written.fields = fields();
    written.views = views();
    return written;
  }

private:
  const std::string &name;
  const Artifact &artifact;
  std::vector<std::string> members; ///< by tensor
  /// By extent: the tensor that tells it, and its expression.
  std::array<std::optional<size_t>, 5> sources;
  std::array<std::string, 5> values;

  void fail(const std::string &what) {
    if (problem.empty())
      problem = what;
  }

  bool hasScale() const {
    return std::ranges::any_of(artifact.launches, [](const Launch &launch) {
      return std::ranges::any_of(launch.slots, [](const ArgumentSlot &slot) {
        return slot.kind == ArgumentSlot::Kind::scale;
      });
    });
  }

  /// Runs `write` with the index of each tensor that has strides, or has none.
  template <typename Write> void forEach(bool contiguous, const Write &write) const {
    for (size_t i = 0; i < artifact.tensors.size(); ++i)
      if (artifact.tensors[i].contiguous == contiguous)
        write(i);
  }

  static std::string shapeOf(const TensorArgument &tensor) {
    std::string text;
    for (const std::optional<Expression> &extent : tensor.extents)
      text += (text.empty() ? "" : ", ") + (extent ? extent->text() : "any");
    return "[" + text + "]";
  }

  std::string fields() const {
    std::string text;
    forEach(/*contiguous=*/false, [&](size_t i) {
      const TensorArgument &tensor = artifact.tensors[i];
      constexpr size_t H = 1, Hkv = 2;
      bool tellsHeads = sources[Hkv] == i && sources[H];
      text += fmt::format("  {}_tensor {}; /* {}{}{} */\n", name, members[i], shapeOf(tensor),
                          tellsHeads ? "; H is a multiple of Hkv" : "", use(tensor));
    });
    forEach(/*contiguous=*/true, [&](size_t i) {
      const TensorArgument &tensor = artifact.tensors[i];
      text += fmt::format("  {}void *{};{} /* {} {} without gaps{} */\n",
                          tensor.role == TensorArgument::Role::out ? "" : "const ", members[i],
                          std::string(members[i].size() < 9 ? 9 - members[i].size() : 0, ' '),
                          elementTypeName(tensor.type), shapeOf(tensor), use(tensor));
    });
    return text;
  }
  static const char *use(const TensorArgument &tensor) {
    if (tensor.role == TensorArgument::Role::out)
      return tensor.optional ? ": written, but not at NULL" : ": written";
    return tensor.optional ? ": zeros at NULL" : "";
  }

  std::string views() const {
    std::string names;
    forEach(/*contiguous=*/false,
            [&](size_t i) { names += (names.empty() ? "" : ", ") + members[i]; });
    return "  view " + names + "; /* the strides of extents of 1 are 0 */\n";
  }

  /// `call`, of an int, whose failure is the launch's.
  std::string checked(const std::string &call) const {
    return fmt::format("  if ((status = {}) != {}_ok)\n    return status;\n", call, name);
  }
  std::string extentCheck(size_t i, size_t axis, const std::string &expected,
                          const std::string &source) const {
    return checked(fmt::format("check_extent(\"{}\", &arguments->{}, {}, {}, \"{}\", error)",
                               artifact.tensors[i].name, members[i], axis, expected, source));
  }

  std::string checks() {
    std::string text;
    forEach(/*contiguous=*/false, [&](size_t i) {
      text += checked(fmt::format("check_extents(\"{}\", &arguments->{}, error)",
                                  artifact.tensors[i].name, members[i]));
    });
    forEach(/*contiguous=*/false, [&](size_t i) { text += agreement(i); });
    text += heads();
    for (size_t extent = 0; extent < 5; ++extent)
      text += fmt::format("  c->x.{} = (int32_t){};\n", extentNames[extent], valueOf(extent));
    forEach(/*contiguous=*/false, [&](size_t i) {
      const TensorArgument &tensor = artifact.tensors[i];
      if (tensor.extents.size() != 4)
        fail(fmt::format("the tensor '{}' of rank {} with strides", tensor.name,
                         tensor.extents.size()));
      text +=
          checked(fmt::format("check_layout(\"{0}\", &arguments->{1}, {2:d}, &c->{1}, error)",
                              tensor.name, members[i], tensor.role == TensorArgument::Role::out));
    });
    forEach(/*contiguous=*/true, [&](size_t i) { text += contiguousCheck(i); });
    if (hasScale())
      text += checked("check_scale(arguments->scale, error)");
    return text;
  }

  /// The first tensor that names an extent tells it, the others must agree.
  std::string agreement(size_t i) {
    std::string text;
    const TensorArgument &tensor = artifact.tensors[i];
    for (size_t axis = 0; axis < tensor.extents.size(); ++axis) {
      const std::optional<Expression> &extent = tensor.extents[axis];
      if (!extent)
        continue;
      std::optional<int> index = extent->extentIndex();
      if (std::optional<int64_t> number = extent->constant())
        text += extentCheck(i, axis, std::to_string(*number), "the kernel");
      else if (!index)
        fail("the extent " + extent->text() + " of '" + tensor.name + "'");
      else if (sources[*index])
        text += extentCheck(i, axis, values[*index], artifact.tensors[*sources[*index]].name);
      else {
        sources[*index] = i;
        values[*index] = fmt::format("arguments->{}.extents[{}]", members[i], axis);
      }
    }
    return text;
  }

  /// What no tensor tells is 1, and of key heads there are as many as of query heads.
  std::string valueOf(size_t extent) const {
    constexpr size_t H = 1, Hkv = 2;
    if (sources[extent])
      return values[extent];
    return extent == Hkv && sources[H] ? values[H] : "1";
  }

  std::string heads() const {
    constexpr size_t H = 1, Hkv = 2;
    if (!sources[H] || !sources[Hkv])
      return "";
    return fmt::format("  if ({0} > 0 && ({1} == 0 || {0} % {1} != 0))\n"
                       "    return fail(error, {2}_invalid_argument,\n"
                       "                \"{3} has %lld heads and {4} has %lld: the first must be a "
                       "multiple of the "
                       "second\",\n                (long long){0}, (long long){1});\n",
                       values[H], values[Hkv], name, artifact.tensors[*sources[H]].name,
                       artifact.tensors[*sources[Hkv]].name);
  }

  std::string contiguousCheck(size_t i) {
    const TensorArgument &tensor = artifact.tensors[i];
    size_t rank = tensor.extents.size();
    std::string text =
        tensor.optional ? fmt::format("  if (arguments->{} != NULL)", members[i]) : " ";
    text += fmt::format(" {{\n    int64_t sizes[{}];\n", rank);
    for (size_t axis = 0; axis < rank; ++axis) {
      const std::optional<Expression> &extent = tensor.extents[axis];
      std::optional<int> index = extent ? extent->extentIndex() : std::nullopt;
      std::optional<int64_t> number = extent ? extent->constant() : std::nullopt;
      if (!number && !(index && sources[*index]))
        fail("the tensor '" + tensor.name + "' without gaps, whose extent of axis " +
             std::to_string(axis) + " no view with strides tells");
      text += fmt::format("    sizes[{}] = {};\n", axis,
                          number ? std::to_string(*number)
                                 : "c->x." + std::string(extentNames[index.value_or(0)]));
    }
    return text + "  " +
           fmt::format("  if ((status = check_no_gaps(\"{}\", \"{}\", {}, arguments->{}, {}, "
                       "sizes, error)) != {}_ok)\n      return status;\n  }}\n",
                       tensor.name, elementTypeName(tensor.type), elementSize(tensor.type),
                       members[i], rank, name);
  }
};

} // namespace

Result<CTensors> writeTensors(const std::string &name, const Artifact &artifact) {
  Writer writer(name, artifact);
  CTensors tensors = writer.write();
  if (!writer.problem.empty())
    return Error(Code::unsupported, "the kernel '" + artifact.variantName + "' has " +
                                        writer.problem +
                                        ", for which there is no launcher in C: export it without one "
                                        "(--no-launcher, ExportOptions::noLauncher), and load the "
                                        "bundle with the library");
  return tensors;
}

} // namespace tesela
