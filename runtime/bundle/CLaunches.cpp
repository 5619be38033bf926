//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "bundle/CLaunches.h"

#include "bundle/CExpressions.h"
#include "bundle/CodeReach.h"
#include "driver/DriverApi.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tesela {

namespace {

/// Writes the launches of an artifact. After the first failure `problem` says what launchers do not
/// support.
class Writer {
public:
  Writer(const std::string &name, const CLauncherTarget &target, const MemberNames &members)
      : name(name), artifact(*target.artifact), architecture(target.architecture),
        prefix(target.artifact->target.name()), members(members) {}

  std::string problem;

  CLaunches write() {
    std::string text =
        fmt::format("/*\n * {}: code for {}, {}\n */\n\n", prefix, architecture, artifact.schedule);
    text += code() + entries() + workspaceBytes();
    for (size_t i = 0; i < artifact.launches.size(); ++i)
      text += launch(i);
    text += run();
    constexpr const char *reaches[] = {"runs_here", "runs_in_major", "runs_from_here"};
    std::string row = fmt::format(
        "    {{\"{0}\", {1}, {2}, {0}_code, {3:d}, {4}, {0}_entries, {0}_lay_out, {5}, "
        "{0}_run}},\n",
        prefix, artifact.target.sm, reaches[int(reachOf(artifact.format, architecture))],
        artifact.format == CodeFormat::ptx, artifact.launches.size(), artifact.workspaces.size());
    return {std::move(text), std::move(row)};
  }

private:
  const std::string &name;
  const Artifact &artifact;
  const std::string &architecture;
  std::string prefix;
  const MemberNames &members;

  void fail(const std::string &what) {
    if (problem.empty())
      problem = what;
  }

  std::string code() const {
    return fmt::format("static const uint64_t {0}_code[] = {{\n#include \"{1}_{0}.inc\"\n}};\n\n",
                       prefix, name);
  }

  std::string entries() const {
    std::string text = fmt::format("static const entry {}_entries[] = {{\n", prefix);
    for (const Launch &launch : artifact.launches)
      text += fmt::format("    {{\"{}\", {}, {}, {:d}}},\n", launch.kernel, launch.threads,
                          launch.sharedBytes, launch.persistent);
    return text + "};\n\n";
  }

  bool hasCounter() const {
    return std::any_of(artifact.launches.begin(), artifact.launches.end(), [](const Launch &each) {
      return std::any_of(each.slots.begin(), each.slots.end(), [](const ArgumentSlot &slot) {
        return slot.kind == ArgumentSlot::Kind::counter;
      });
    });
  }

  /// An expression in C. `extents` is the prefix of B H Hkv Sq Sk.
  std::string expression(const Expression &expression, std::string_view extents) {
    std::string text = expressionInC(expression, extents);
    if (text.empty())
      fail("a negative number that is not the first of two to be added");
    return text;
  }

  /// The parameter that "$doc" stands for.
  const Parameter *parameterOf(std::string_view slotName, size_t &index) const {
    for (index = 0; index < artifact.parameters.size(); ++index)
      if (slotName == "$" + artifact.parameters[index].name)
        return &artifact.parameters[index];
    return nullptr;
  }

  std::string captureView(std::string_view slotName) {
    size_t index = 0;
    const Parameter *parameter = parameterOf(slotName, index);
    if (!parameter || !parameter->isCapture)
      fail("the captured tensor " + std::string(slotName) + ", which does not exist");
    return "c->capture_" + std::string(slotName.substr(1));
  }

  /// The view of a slot. A contiguous tensor is passed by its address only.
  std::string view(const std::string &slotName) {
    for (size_t i = 0; i < artifact.workspaces.size(); ++i)
      if (artifact.workspaces[i].name == slotName)
        return fmt::format("c->workspaces[{}]", i);
    if (slotName.starts_with('$'))
      return captureView(slotName);
    for (size_t i = 0; i < artifact.tensors.size(); ++i)
      if (artifact.tensors[i].name == slotName)
        return (artifact.tensors[i].contiguous ? "c->arguments->" : "c->") + members.tensors[i];
    fail("the tensor " + slotName);
    return "";
  }
  bool isContiguous(const std::string &slotName) const {
    return std::any_of(
        artifact.tensors.begin(), artifact.tensors.end(),
        [&](const TensorArgument &tensor) { return tensor.contiguous && tensor.name == slotName; });
  }

  const TensorArgument *tensorOf(const std::string &slotName) const {
    auto found = std::ranges::find(artifact.tensors, slotName, &TensorArgument::name);
    return found == artifact.tensors.end() ? nullptr : &*found;
  }

  /// Whether the launch reads the tensor's elements one by one. It then takes the stride of the
  /// last axis, too.
  bool readsElements(const Launch &launch, const std::string &slotName) const {
    const TensorArgument *tensor = tensorOf(slotName);
    return tensor && !tensor->contiguous &&
           std::ranges::any_of(launch.slots, [&](const ArgumentSlot &slot) {
             return slot.kind == ArgumentSlot::Kind::stride && slot.name == slotName &&
                    slot.axis + 1 == int(tensor->extents.size());
           });
  }

  /// The arguments of encode_map that describe the tensor.
  std::string mapped(const std::string &slotName) {
    const TensorArgument *tensor = tensorOf(slotName);
    if (!tensor || tensor->contiguous) {
      fail("a tensor map of " + slotName);
      return "";
    }
    int type = elementSize(tensor->type) == 1     ? int(cuda::tensorMapUint8)
               : tensor->type == ElementType::f16 ? int(cuda::tensorMapFloat16)
                                                  : int(cuda::tensorMapBfloat16);
    std::string member = members.tensors[tensor - artifact.tensors.data()];
    return fmt::format("&tensor_{0}, &c->{0}, {1}", member, type);
  }

  std::string workspaceBytes() {
    std::string text = fmt::format("static size_t {}_lay_out(call *c) {{\n", prefix);
    text += fmt::format("  size_t end = {}\n", hasCounter() ? "256; /* the counter */" : "0;");
    for (size_t i = 0; i < artifact.workspaces.size(); ++i) {
      const Workspace &workspace = artifact.workspaces[i];
      text += fmt::format("  {{ /* {} */\n    int64_t sizes[{}];\n", workspace.name,
                          workspace.extents.size());
      for (size_t axis = 0; axis < workspace.extents.size(); ++axis)
        text += fmt::format("    sizes[{}] = {};\n", axis,
                            expression(workspace.extents[axis], "c->x."));
      bool isSummary = workspace.name.starts_with('$');
      text +=
          fmt::format("    place(c, {}, {}, {}, sizes, &end);\n  }}\n", i,
                      isSummary ? "NULL" : "\"" + workspace.name + "\"", workspace.extents.size());
    }
    if (artifact.workspaces.empty())
      text += "  (void)c;\n";
    return text + "  return end;\n}\n\n";
  }

  /// The C type and expression of a slot with a plain value.
  std::pair<std::string, std::string> value(const Launch &launch, const ArgumentSlot &slot) {
    using Kind = ArgumentSlot::Kind;
    if (slot.kind == Kind::scale)
      return {"float", "c->arguments->scale"};
    if (slot.kind == Kind::counter)
      return {"device_pointer", "c->counter"};
    if (slot.kind == Kind::scalar) {
      size_t index = 0;
      const Parameter *parameter = parameterOf(slot.name, index);
      if (!parameter || parameter->isCapture) {
        fail("the scalar " + slot.name + ", which does not exist");
        return {};
      }
      return {parameter->type == ElementType::i32 ? "int32_t" : "float",
              "c->arguments->" + members.parameters[index]};
    }
    if (slot.kind == Kind::extent && slot.name.empty()) {
      return {"int32_t", "x." + std::string(extentNames[slot.axis])};
    }
    std::string of = view(slot.name);
    bool isPointer = isContiguous(slot.name);
    if (isPointer && slot.kind != Kind::data)
      fail("an extent or a stride of " + slot.name);
    if (readsElements(launch, slot.name) && slot.kind == Kind::data)
      return {"device_pointer", fmt::format("elements_of(c, &{})", of)};
    if (readsElements(launch, slot.name) && slot.kind == Kind::stride)
      return {"int64_t", fmt::format("stride_of(&{}, {})", of, slot.axis)};
    if (slot.kind == Kind::data)
      return {"device_pointer", isPointer ? "(device_pointer)(uintptr_t)" + of : of + ".address"};
    if (slot.kind == Kind::coordinateStep)
      return {"int32_t", fmt::format("{}.strides[{}] != 0", of, slot.axis)};
    if (slot.kind == Kind::stride)
      return {"int64_t", slot.axis < 0 ? "0" : fmt::format("{}.strides[{}]", of, slot.axis)};
    return {"int32_t", slot.axis < 0 ? "1" : fmt::format("(int32_t){}.extents[{}]", of, slot.axis)};
  }

  std::string launch(size_t index) {
    const Launch &launch = artifact.launches[index];
    const bool isSummary = !launch.summarizes.empty();
    using Kind = ArgumentSlot::Kind;
    std::string body;
    std::vector<std::string> parameters;
    size_t maps = 0;
    for (size_t i = 0; i < launch.slots.size(); ++i) {
      const ArgumentSlot &slot = launch.slots[i];
      if (slot.kind == Kind::tensorMap) {
        body +=
            fmt::format("  if ((status = encode_map(c, {0}, {1}, {2}, maps + {3} * map_bytes)) != "
                        "{4}_ok)\n    return status;\n",
                        mapped(slot.name), slot.axis, slot.heads, maps, name);
        parameters.push_back(fmt::format("maps + {} * map_bytes", maps++));
        continue;
      }
      auto [type, text] = value(launch, slot);
      body += fmt::format("  {} p{} = {};\n", type, i, text);
      parameters.push_back(fmt::format("&p{}", i));
    }
    std::string text = fmt::format(
        "/* {}: {} */\nstatic int {}_launch_{}(const call *c, int only_check) {{\n", launch.kernel,
        !isSummary ? "the results"
                   : "a summary of the captured tensor " + launch.summarizes.substr(1),
        prefix, index);
    if (maps)
      text += fmt::format("  unsigned char memory[{} * map_bytes + map_alignment];\n"
                          "  unsigned char *maps = align_maps(memory);\n",
                          maps);
    text += "  extents x = c->x;\n  int64_t items;\n  int status;\n";
    if (!launch.extents.empty()) {
      std::vector<std::string> extents;
      extents.reserve(launch.extents.size());
      for (const Expression &each : launch.extents)
        extents.push_back(expression(each, "c->x."));
      text += fmt::format(
          "  if ((status = set_extents(c, &x, {:d}, {})) != {}_ok)\n    return status;\n",
          isSummary, fmt::join(extents, ",\n                            "), name);
    }
    text += fmt::format("  items = {};\n", expression(launch.items, "x."));
    text +=
        fmt::format("  status = check_items(c, items, \"{}\");\n",
                    !isSummary ? "split the batch, the heads or the queries over several launches"
                               : "put the captured tensor's leading axes together");
    text +=
        fmt::format("  if (status != {}_ok || only_check || items <= 0{})\n    return status;\n",
                    name, isSummary ? " || c->arguments->captures_unchanged" : "");
    bool counts = std::any_of(launch.slots.begin(), launch.slots.end(),
                              [](const ArgumentSlot &slot) { return slot.kind == Kind::counter; });
    if (counts)
      text +=
          fmt::format("  if ((status = clear_counter(c)) != {}_ok)\n    return status;\n", name);
    text += body + "  {\n    void *parameters[] = {";
    for (size_t i = 0; i < parameters.size(); ++i)
      text += (i % 8 == 0 ? "\n        " : " ") + parameters[i] + ",";
    return text +
           fmt::format("\n    }};\n    return start(c, {}, items, parameters);\n  }}\n}}\n\n",
                       index);
  }

  std::string run() const {
    std::string text = fmt::format("static int {}_run(const call *c, int only_check) {{\n", prefix);
    text += fmt::format("  int status = {}_ok;\n", name);
    for (size_t i = 0; i < artifact.launches.size(); ++i)
      text += fmt::format("  if (status == {0}_ok)\n    status = {1}_launch_{2}(c, only_check);\n",
                          name, prefix, i);
    return text + "  return status;\n}\n\n";
  }
};

} // namespace

Result<CLaunches> writeLaunches(const std::string &name, const CLauncherTarget &target,
                                const MemberNames &members) {
  Writer writer(name, target, members);
  CLaunches launches = writer.write();
  if (!writer.problem.empty())
    return Error(Code::defect, "a launcher in C does not support the launches of '" +
                                   target.artifact->variantName + "' for " +
                                   target.artifact->target.name() + ": they have " +
                                   writer.problem);
  return launches;
}

} // namespace tesela
