//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "bundle/CTensors.h"

#include "bundle/CExpressions.h"
#include "launch/Signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace tesela {

namespace {

enum ExtentIndex : size_t { batch, heads, kvHeads, queries, keys };

constexpr const char *meanings[] = {"sequences", "query heads", "key/value heads",
                                    "the most queries of a sequence, or more",
                                    "the most keys of a sequence, or more"};

/// Writes one artifact's tensors. After the first failure `problem` says what launchers do not
/// support.
class Writer {
public:
  Writer(const std::string &name, const Artifact &artifact, const Signature &signature,
         const std::vector<int> &asked, const MemberNames &names)
      : name(name), artifact(artifact), signature(signature), members(names.tensors) {
    for (int index : asked)
      givers[index] = Giver::launch;
  }

  std::string problem;

  CTensors write() {
    findSources();
    CTensors written;
    written.hasScale = signature.headDimQk != 0;
    written.types = types();
    written.fields = fields();
    written.defaults = defaults();
    written.views = views();
    written.declarations = declarations();
    written.checks = checks(written.hasScale);
    written.lateChecks = lateChecks();
    return written;
  }

private:
  /// What defines an extent: nothing, the first view that has it, or the launch, which must or may
  /// give it.
  enum class Giver { nobody, view, launch, launchIfItLikes };

  const std::string &name;
  const Artifact &artifact;
  const Signature &signature;
  const std::vector<std::string> &members; ///< one per tensor
  std::array<Giver, 5> givers{};
  std::array<size_t, 5> sources{};   ///< the tensor whose view defines the extent
  std::array<std::string, 5> values; ///< the defined extents as C, before they are checked

  void fail(const std::string &what) {
    if (problem.empty())
      problem = what;
  }

  /// Runs `write` with the index of each tensor that is declared `contiguous` or not.
  template <typename Write> void forEach(bool contiguous, const Write &write) const {
    for (size_t i = 0; i < signature.tensors.size(); ++i)
      if (signature.tensors[i].contiguous == contiguous)
        write(i, signature.tensors[i]);
  }

  bool isGiven(size_t extent) const {
    return givers[extent] == Giver::launch || givers[extent] == Giver::launchIfItLikes;
  }

  /// A view that may be left out defines no extent. Neither does a contiguous tensor, because the
  /// launch has only its address.
  void findSources() {
    std::array<bool, 5> isNamed{};
    for (size_t i = 0; i < signature.tensors.size(); ++i)
      for (size_t axis = 0; axis < signature.tensors[i].axes.size(); ++axis) {
        const DeclaredTensor &tensor = signature.tensors[i];
        if (tensor.axes[axis].kind != DeclaredAxis::Kind::extent)
          continue;
        size_t extent = tensor.axes[axis].value;
        isNamed[extent] = true;
        if (tensor.contiguous || tensor.isOptional || givers[extent] != Giver::nobody)
          continue;
        givers[extent] = Giver::view;
        sources[extent] = i;
        values[extent] = fmt::format("c->{}.extents[{}]", members[i], axis);
      }
    for (size_t extent = 0; extent < givers.size(); ++extent) {
      if (givers[extent] == Giver::nobody && (extent != kvHeads || isNamed[extent]))
        givers[extent] = isNamed[extent] ? Giver::launch : Giver::launchIfItLikes;
      if (isGiven(extent))
        values[extent] = fmt::format("arguments->{}", extentNames[extent]);
    }
  }

  static std::string shapeOf(const TensorArgument &tensor) {
    std::string text;
    for (const std::optional<Expression> &extent : tensor.extents)
      text += (text.empty() ? "" : ", ") + (extent ? expressionForReaders(*extent) : "any");
    return std::string(elementTypeName(tensor.type)) + " [" + text + "]";
  }

  static const char *use(const DeclaredTensor &tensor) {
    if (tensor.isWritten)
      return tensor.isOptional ? ": written, but not at NULL" : ": written";
    return tensor.isOptional ? ": zeros at NULL" : "";
  }

  /// "NAME_tensor" is for the four axes of attention's views.
  std::string typeOf(const DeclaredTensor &tensor) const {
    size_t rank = tensor.axes.size();
    return name + "_tensor" + (rank == 4 ? "" : "_" + std::to_string(rank));
  }

  std::string types() const {
    std::set<size_t> ranks;
    forEach(/*contiguous=*/false,
            [&](size_t, const DeclaredTensor &tensor) { ranks.insert(tensor.axes.size()); });
    std::string text;
    for (size_t rank : ranks)
      if (rank != 4)
        text += fmt::format(
            "\n/* A tensor with {0} ax{1}s, likewise. */\ntypedef struct {2}_tensor_{0} {{\n"
            "  void *data; /* a multiple of an element's size */\n  int64_t extents[{0}];\n"
            "  int64_t strides[{0}]; /* in elements; the last is 1 */\n}} {2}_tensor_{0};\n",
            rank, rank == 1 ? "i" : "e", name);
    return text;
  }

  std::string fields() const {
    std::string text;
    forEach(/*contiguous=*/false, [&](size_t i, const DeclaredTensor &tensor) {
      bool tellsHeads =
          givers[kvHeads] == Giver::view && sources[kvHeads] == i && givers[heads] == Giver::view;
      text += fmt::format("  {} {}; /* {}{}{} */\n", typeOf(tensor), members[i],
                          shapeOf(artifact.tensors[i]),
                          tellsHeads ? "; H is a multiple of Hkv" : "", use(tensor));
    });
    forEach(/*contiguous=*/true, [&](size_t i, const DeclaredTensor &tensor) {
      text += fmt::format("  {}void *{};{} /* {} without gaps{} */\n",
                          tensor.isWritten ? "" : "const ", members[i],
                          std::string(members[i].size() < 9 ? 9 - members[i].size() : 0, ' '),
                          shapeOf(artifact.tensors[i]), use(tensor));
    });
    for (size_t extent = 0; extent < givers.size(); ++extent)
      if (isGiven(extent))
        text += fmt::format("  int64_t {}; /* {}{} */\n", extentNames[extent], meanings[extent],
                            givers[extent] == Giver::launch
                                ? "; no tensor has it: set it"
                                : "; 1 if you leave it, which is right, but may be slower");
    return text;
  }

  /// The value of an extent that is not set: -1, which is never valid, or 1 if it may be left out.
  int unsetOf(size_t extent) const { return givers[extent] == Giver::launch ? -1 : 1; }

  std::string defaults() const {
    std::string text;
    for (size_t extent = 0; extent < givers.size(); ++extent)
      if (isGiven(extent))
        text += fmt::format("  arguments->{} = {};\n", extentNames[extent], unsetOf(extent));
    return text;
  }

  std::string views() const {
    std::string names;
    forEach(/*contiguous=*/false, [&](size_t i, const DeclaredTensor &) {
      names += (names.empty() ? "" : ", ") + members[i];
    });
    return names.empty() ? "" : "  view " + names + "; /* the strides of extents of 1 are 0 */\n";
  }

  std::string declarations() const {
    std::string text;
    forEach(/*contiguous=*/false, [&](size_t i, const DeclaredTensor &tensor) {
      unsigned lengths = 0;
      for (size_t axis = 0; axis < tensor.axes.size(); ++axis)
        if (tensor.axes[axis].kind == DeclaredAxis::Kind::extent &&
            size_t(tensor.axes[axis].value) >= queries)
          lengths |= 1u << axis;
      int64_t elementBytes = elementSize(tensor.type);
      // Rows are copied in chunks, so they must be aligned; single numbers need not be.
      text += fmt::format(
          "static const declared tensor_{} = {{\"{}\", \"{}\", {}, {}, {}, {:d}, {}}};\n",
          members[i], tensor.name, elementTypeName(tensor.type), elementBytes, tensor.axes.size(),
          tensor.axes.size() == 4 ? 16 : elementBytes, tensor.isWritten, lengths);
    });
    return text;
  }

  /// C code that runs `call`, which returns an int, and returns its failure.
  std::string checked(const std::string &call) const {
    return fmt::format("  if ((status = {}) != {}_ok)\n    return status;\n", call, name);
  }
  std::string both(size_t i) const { return fmt::format("&tensor_{0}, &c->{0}", members[i]); }

  /// `text`, to be run only if the tensor is given.
  std::string unlessLeftOut(size_t i, const std::string &text) const {
    if (!signature.tensors[i].isOptional || text.empty())
      return text;
    return fmt::format("  if (arguments->{}{} != NULL) {{\n{}  }}\n", members[i],
                       signature.tensors[i].contiguous ? "" : ".data", text);
  }

  std::string checks(bool hasScale) {
    std::string text;
    for (size_t extent = 0; extent < givers.size(); ++extent)
      if (isGiven(extent))
        text += checked(
            fmt::format("check_given(\"{0}\", arguments->{0}, {1}, {2}, error)",
                        extentNames[extent], std::min(unsetOf(extent), 0),
                        extent >= queries ? (int64_t(1) << 31) - 4096 : (int64_t(1) << 31) - 1));
    forEach(/*contiguous=*/false, [&](size_t i, const DeclaredTensor &) {
      text += fmt::format("  take_view(&c->{0}, tensor_{0}.rank, arguments->{0}.data, "
                          "arguments->{0}.extents, arguments->{0}.strides);\n",
                          members[i]);
    });
    forEach(/*contiguous=*/false, [&](size_t i, const DeclaredTensor &) {
      text += unlessLeftOut(i, checked(fmt::format("check_extents({}, error)", both(i))));
    });
    text += missing(); // before a tensor is said to disagree with it
    forEach(/*contiguous=*/false, [&](size_t i, const DeclaredTensor &tensor) {
      text += unlessLeftOut(i, agreement(i, tensor));
    });
    text += leastRows() + headsCheck();
    for (size_t extent = 0; extent < givers.size(); ++extent)
      text += fmt::format("  c->x.{} = (int32_t){};\n", extentNames[extent], valueOf(extent));
    forEach(/*contiguous=*/false, [&](size_t i, const DeclaredTensor &tensor) {
      text += unlessLeftOut(i, computed(i, tensor));
    });
    forEach(/*contiguous=*/false, [&](size_t i, const DeclaredTensor &) {
      text += unlessLeftOut(i, checked(fmt::format("check_layout({}, error)", both(i))));
    });
    forEach(/*contiguous=*/true, [&](size_t i, const DeclaredTensor &tensor) {
      if (!isLikeCapture(tensor))
        text += contiguousCheck(i, tensor);
    });
    if (hasScale)
      text += checked("check_scale(arguments->scale, error)");
    return text;
  }

  static bool isLikeCapture(const DeclaredTensor &tensor) {
    return std::ranges::any_of(tensor.axes, [](const DeclaredAxis &axis) {
      return axis.kind == DeclaredAxis::Kind::captured;
    });
  }

  /// The first view with an extent defines it; the others must agree.
  std::string agreement(size_t i, const DeclaredTensor &tensor) const {
    std::string text;
    for (size_t axis = 0; axis < tensor.axes.size(); ++axis) {
      const DeclaredAxis &expected = tensor.axes[axis];
      auto agrees = [&](const std::string &value, const std::string &source) {
        text += checked(
            fmt::format("check_extent({}, {}, {}, \"{}\", error)", both(i), axis, value, source));
      };
      if (expected.kind == DeclaredAxis::Kind::number && axis == Signature::rowsOfPage &&
          signature.isPool(tensor))
        text += checked(fmt::format("check_page_rows({}, {}, error)", both(i), expected.value));
      else if (expected.kind == DeclaredAxis::Kind::number)
        agrees(std::to_string(expected.value), "the kernel");
      if (expected.kind != DeclaredAxis::Kind::extent)
        continue;
      size_t extent = expected.value;
      if (givers[extent] != Giver::view)
        agrees(values[extent], "the launch's extents");
      else if (sources[extent] != i ||
               values[extent] != fmt::format("c->{}.extents[{}]", members[i], axis))
        agrees(values[extent], signature.tensors[sources[extent]].name);
    }
    return text;
  }

  /// Where sequences lie one after the other, kernels write as many rows of a tensor beside the
  /// results (LSE) as of the results. So it must have at least as many rows.
  std::string leastRows() const {
    constexpr size_t rows = 2;
    std::string text;
    auto isOfAnyRows = [](const DeclaredTensor &tensor, size_t rank) {
      return tensor.isWritten && tensor.axes.size() == rank &&
             tensor.axes[rows].kind == DeclaredAxis::Kind::any;
    };
    forEach(/*contiguous=*/false, [&](size_t i, const DeclaredTensor &tensor) {
      if (isOfAnyRows(tensor, 3))
        forEach(/*contiguous=*/false, [&](size_t j, const DeclaredTensor &result) {
          if (isOfAnyRows(result, 4))
            text += unlessLeftOut(
                i, checked(fmt::format("check_rows({}, {}, error)", both(i), both(j))));
        });
    });
    return text;
  }

  std::string missing() const {
    std::string text;
    for (size_t extent = 0; extent < givers.size(); ++extent)
      if (givers[extent] == Giver::launch)
        text += fmt::format("  if (arguments->{0} < 0)\n"
                            "    return fail(error, {1}_invalid_argument,\n"
                            "                \"the extent {0} is missing, and no tensor has it: "
                            "set it among the arguments; {0} is {2}\");\n",
                            extentNames[extent], name, meanings[extent]);
    return text;
  }

  /// An extent that nothing defines is 1; Hkv is H.
  std::string valueOf(size_t extent) const {
    if (givers[extent] == Giver::nobody)
      return extent == kvHeads ? values[heads] : "1";
    return values[extent];
  }

  std::string headsCheck() const {
    if (givers[heads] == Giver::launchIfItLikes || givers[kvHeads] == Giver::nobody)
      return "";
    auto source = [&](size_t extent) {
      return isGiven(extent) ? "the launch's extents" : signature.tensors[sources[extent]].name;
    };
    return fmt::format(
        "  if ({0} > 0 && ({1} == 0 || {0} % {1} != 0))\n"
        "    return fail(error, {2}_invalid_argument,\n"
        "                \"{3} has %lld heads and {4} has %lld: the number of heads of {3} \"\n"
        "                \"must be a multiple of that of {4}\",\n"
        "                (long long){0}, (long long){1});\n",
        values[heads], values[kvHeads], name, source(heads), source(kvHeads));
  }

  std::string computed(size_t i, const DeclaredTensor &tensor) {
    std::string text;
    for (size_t axis = 0; axis < tensor.axes.size(); ++axis) {
      if (tensor.axes[axis].kind != DeclaredAxis::Kind::computed)
        continue;
      const Expression &expression = tensor.axes[axis].expression;
      std::string value = expressionInC(expression, "c->x.");
      if (value.empty() || !expression.captureAxes().empty())
        fail("the extent " + expression.text() + " of '" + tensor.name + "'");
      text += checked(fmt::format("check_computed({}, {}, {}, \"{}\", error)", both(i), axis, value,
                                  expressionForReaders(expression)));
    }
    return text;
  }

  std::string contiguousCheck(size_t i, const DeclaredTensor &tensor) {
    size_t rank = tensor.axes.size();
    std::string text = fmt::format("    int64_t sizes[{}];\n", rank);
    for (size_t axis = 0; axis < rank; ++axis) {
      const std::optional<Expression> &extent = artifact.tensors[i].extents[axis];
      std::string value = extent ? expressionInC(*extent, "c->x.") : "";
      if (value.empty())
        fail("the contiguous tensor '" + tensor.name + "', whose extent of axis " +
             std::to_string(axis) + " no argument gives");
      text += fmt::format("    sizes[{}] = {};\n", axis, value);
    }
    text += fmt::format("    if ((status = check_no_gaps(\"{}\", \"{}\", {}, arguments->{}, {}, "
                        "sizes, error)) != {}_ok)\n      return status;\n",
                        tensor.name, elementTypeName(tensor.type), elementSize(tensor.type),
                        members[i], rank, name);
    return tensor.isOptional ? unlessLeftOut(i, text) : "  {\n" + text + "  }\n";
  }

  std::string lateChecks() {
    std::string text;
    forEach(/*contiguous=*/true, [&](size_t i, const DeclaredTensor &tensor) {
      if (isLikeCapture(tensor))
        text += contiguousCheck(i, tensor);
    });
    forEach(/*contiguous=*/false, [&](size_t i, const DeclaredTensor &tensor) {
      std::string likeCaptures;
      for (size_t axis = 0; axis < tensor.axes.size(); ++axis) {
        const DeclaredAxis &expected = tensor.axes[axis];
        if (expected.kind != DeclaredAxis::Kind::captured)
          continue;
        const std::string &capture = signature.parameters[expected.value].name;
        likeCaptures += checked(
            fmt::format("check_like_capture({0}, {1}, c->capture_{2}.extents[{3}], \"{2}\", error)",
                        both(i), axis, capture, expected.axis));
      }
      text += unlessLeftOut(i, likeCaptures);
    });
    return text;
  }
};

} // namespace

std::vector<int> askedExtents(const std::vector<const Artifact *> &targets) {
  std::set<int> asked;
  for (const Artifact *artifact : targets)
    if (Result<Signature> signature = Signature::of(*artifact))
      asked.insert(signature->asked.begin(), signature->asked.end());
  return {asked.begin(), asked.end()};
}

Error noLauncherFor(const Artifact &artifact, const std::string &what) {
  return Error(Code::unsupported,
               "the kernel '" + artifact.variantName + "' has " + what +
                   "; a launcher in C does not support this: export the bundle without one "
                   "(--no-launcher, BundleOptions::noLauncher), and load it with the library");
}

Result<CTensors> writeTensors(const std::string &name, const Artifact &artifact,
                              const std::vector<int> &asked, const MemberNames &members) {
  Result<Signature> signature = Signature::of(artifact);
  if (!signature)
    return signature.error();
  Writer writer(name, artifact, *signature, asked, members);
  CTensors tensors = writer.write();
  if (!writer.problem.empty())
    return noLauncherFor(artifact, writer.problem);
  return tensors;
}

} // namespace tesela
