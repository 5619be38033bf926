//===- SequenceLauncherTest.cpp - Launchers in C of sequences and pages ---===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Sequences one after the other, keys in pages and in 8 bits, split keys, a shared prefix. Their
// launchers have tensors of other ranks and types than attention's, extents that no tensor defines,
// and workspaces of several launches.
//
//===----------------------------------------------------------------------===//
#include "LauncherCase.h"

#include <algorithm>
#include <functional>

using namespace tesela;

namespace {

constexpr const char *causal = "attention causal() { mask = q >= k }";

const Plan plans[] = {
    {.name = "paged",
     .text = "attention paged(bias: f32[Sk]) { mask = q >= k\n score = s + bias[k] }",
     .headDimQk = 128,
     .headDimV = 128,
     .bindings = {"queries=ragged", "keys=paged", "page=64", "positions=end"}},
    {.name = "ragged",
     .text = causal,
     .type = ElementType::f16,
     .bindings = {"queries=ragged", "keys=ragged"}},
    {.name = "parts",
     .text = causal,
     .headDimQk = 128,
     .headDimV = 128,
     .queries = 1,
     .algorithm = "forward_in_parts",
     .bindings = {"keys=paged", "page=64", "positions=given", "workers=16"}},
    {.name = "narrow",
     .text = causal,
     .headDimQk = 128,
     .headDimV = 128,
     .queries = 1,
     .algorithm = "forward_in_parts",
     .bindings = {"keys=paged", "page=16", "positions=end", "cache=e4m3", "scales=page",
                  "workers=16"}},
    {.name = "latent",
     .text = causal,
     .headDimQk = 576,
     .headDimV = 512,
     .queries = 1,
     .bindings = {"keys=paged", "page=64", "positions=end", "values=keys"}},
    {.name = "prefix",
     .text = causal,
     .queries = 1,
     .algorithm = "forward_in_parts",
     .bindings = {"queries=ragged", "keys=paged", "page=64", "positions=end", "workers=16",
                  "prefix=shared"}},
    // Not about sequences: tensors with the extents of captured ones.
    {.name = "parameters",
     .text = "attention biased(bias: f32[H, n]) {\n"
             "  mask  = q >= k\n  score = s + bias[h, min(q - k, n - 1)]\n}",
     .algorithm = "backward_parameters"},
    {.name = "merge",
     .text = "attention joined() { mask = true }",
     .algorithm = "merge",
     .bindings = {"part=f32", "output=bf16"}},
    {.name = "write_pages",
     .text = "attention written() { mask = true }",
     .algorithm = "write_pages",
     .bindings = {"rotary=64", "interleaved=0", "element=bf16"}},
    {.name = "write_latents",
     .text = "attention written() { mask = true }",
     .algorithm = "write_latents",
     .bindings = {"rotary=64", "interleaved=1", "pieces=9"}},
};

class SequenceLauncherTest : public LauncherCase {
protected:
  static constexpr int64_t any = 12; ///< the value of an extent that may be anything

  int64_t extentOf(const std::string &text, const Shape &shape) const {
    const std::pair<const char *, int64_t> known[] = {
        {"B", shape.B},   {"H", shape.H}, {"Hkv", shape.Hkv},      {"Sq", shape.Sq},
        {"Sk", shape.Sk}, {"?", any},     {"(+ B 1)", shape.B + 1}};
    for (auto [name, value] : known)
      if (text == name)
        return value;
    if (!text.starts_with('$'))
      return std::stoll(text);
    const size_t dot = text.rfind('.');
    for (const CaptureArgument &each : capturesOf(shape)) // "$bias.1"
      if (each.name == text.substr(1, dot - 1))
        return each.tensor.extents[std::stoi(text.substr(dot + 1))];
    ADD_FAILURE() << text;
    return 0;
  }

  LaunchArguments argumentsOf(const Shape &shape) const {
    LaunchArguments arguments;
    int number = 20;
    for (const nlohmann::json &declared : manifest["tensors"]) {
      Tensor tensor;
      tensor.data = place(number++);
      tensor.type = *parseElementType(declared["type"].get<std::string>());
      for (const std::string extent : declared["extents"])
        tensor.extents[tensor.rank++] = extentOf(extent, shape);
      // Rows have gaps unless the tensor is contiguous. The second and third axis may be exchanged.
      std::vector<int> axes(tensor.rank);
      for (int axis = 0; axis < tensor.rank; ++axis)
        axes[axis] = axis;
      if (shape.bshd && tensor.rank == 4)
        std::swap(axes[1], axes[2]);
      int64_t stride = 1;
      for (int axis : std::vector<int>(axes.rbegin(), axes.rend())) {
        tensor.strides[axis] = stride;
        stride *= tensor.extents[axis];
        if (stride > 0 && stride == tensor.extents[axis] && !declared["contiguous"])
          stride = (stride + 15) / 16 * 16 + (tensor.rank == 4 ? 16 : 3);
      }
      std::string name = declared["name"];
      if (shape.shared && (name == "k" || name == "v") && declared["role"] == "in")
        tensor.strides[1] = 0;
      const std::pair<const char *, Tensor *> members[] = {{"q", &arguments.q},
                                                           {"k", &arguments.k},
                                                           {"v", &arguments.v},
                                                           {"o", &arguments.o},
                                                           {"lse", &arguments.lse}};
      auto member = std::ranges::find_if(members, [&](auto &each) { return name == each.first; });
      if (member != std::end(members))
        *member->second = tensor;
      else
        arguments.tensors.push_back({name, tensor});
    }
    for (const std::string &name : library->extents())
      arguments.extents.push_back({name, extentOf(name, shape)});
    arguments.captures = capturesOf(shape);
    for (const VariantParameter &each : parameters)
      if (!each.isCapture) // merge's number of parts
        arguments.scalars.push_back({each.name, 3});
    return arguments;
  }

  /// The tensor `name` among `arguments`.
  static Tensor &find(LaunchArguments &arguments, const std::string &name) {
    for (NamedTensor &each : arguments.tensors)
      if (each.name == name)
        return each.tensor;
    ADD_FAILURE() << "there is no tensor " << name;
    return arguments.q;
  }
  static NamedExtent &findExtent(LaunchArguments &arguments, const std::string &name) {
    return *std::ranges::find(arguments.extents, name, &NamedExtent::name);
  }
  bool has(const std::string &name) const {
    return std::ranges::any_of(manifest["tensors"],
                               [&](const nlohmann::json &each) { return each["name"] == name; });
  }
};

TEST_P(SequenceLauncherTest, TheSameParameters) {
  for (auto [sm, target] : {std::pair(90, "sm_90"), {80, "sm_80"}}) {
    open(sm, target);
    if (HasFatalFailure())
      return;
    for (const Shape &shape : shapes) {
      SCOPED_TRACE(std::string(target) + ", " + shape.what);
      LaunchArguments arguments = argumentsOf(shape);
      expectTheSameLaunches(arguments);
      arguments.capturesUnchanged = true;
      expectTheSameLaunches(arguments);
      for (const nlohmann::json &declared : manifest["tensors"])
        if (declared["name"] == "lse" && declared["optional"])
          arguments.lse.data = nullptr; // left out
      expectTheSameLaunches(arguments);
      if (HasFailure())
        return;
    }
  }
}

// An extent that is left out is 1 on both sides.
TEST_P(SequenceLauncherTest, ExtentsThatAreLeftOut) {
  open(90, "sm_90");
  if (HasFatalFailure())
    return;
  for (const std::string &name : library->extents()) {
    SCOPED_TRACE(name);
    LaunchArguments arguments = argumentsOf(shapes[0]);
    std::erase_if(arguments.extents, [&](const NamedExtent &each) { return each.name == name; });
    Status refused = kernel->checkArguments(arguments);
    if (refused) {
      expectTheSameLaunches(arguments);
      continue;
    }
    size_t bytes = 0;
    CLibrary::Outcome outcome = library->workspaceBytes(arguments, bytes);
    EXPECT_EQ(outcome.code, int(refused.code()));
    std::string begin = "the extent " + name + " is missing, and no tensor has it: ";
    EXPECT_TRUE(refused.error().chain().back().starts_with(begin)) << refused.error().message();
    EXPECT_TRUE(outcome.message.starts_with(begin)) << outcome.message;
  }
}

TEST_P(SequenceLauncherTest, TheSameSentences) {
  open(90, "sm_90");
  if (HasFatalFailure())
    return;
  auto expectError = [&](const char *what, const std::function<void(LaunchArguments &)> &change) {
    SCOPED_TRACE(what);
    LaunchArguments arguments = argumentsOf(shapes[0]);
    change(arguments);
    expectTheSameError(arguments);
  };
  for (const nlohmann::json &declared : manifest["tensors"]) {
    std::string name = declared["name"];
    if (declared["contiguous"] || name == "q" || name == "k" || name == "v" || name == "o" ||
        name == "lse")
      continue;
    SCOPED_TRACE(name);
    expectError("address", [&](auto &a) { find(a, name).data = nullptr; });
    expectError("alignment",
                [&](auto &a) { find(a, name).data = static_cast<char *>(find(a, name).data) + 1; });
    expectError("extent", [&](auto &a) { find(a, name).extents[0] = -1; });
    expectError("large extent", [&](auto &a) { find(a, name).extents[0] = int64_t(1) << 31; });
    int last = int(declared["extents"].size()) - 1;
    expectError("last stride", [&](auto &a) { find(a, name).strides[last] = 2; });
    if (last > 0)
      expectError("stride", [&](auto &a) { find(a, name).strides[0] = -1; });
    if (declared["extents"][0] != "?")
      expectError("another extent", [&](auto &a) { find(a, name).extents[0] += 1; });
  }
  for (const std::string &name : library->extents()) {
    SCOPED_TRACE(name);
    expectError("negative", [&](auto &a) { findExtent(a, name).value = -2; });
    expectError("large", [&](auto &a) { findExtent(a, name).value = (int64_t(1) << 31) - 1; });
    // In C, -1 means that a required extent is not set.
    LaunchArguments without = argumentsOf(shapes[0]);
    std::erase_if(without.extents, [&](const NamedExtent &each) { return each.name == name; });
    if (kernel->checkArguments(without))
      expectError("one below 0", [&](auto &a) { findExtent(a, name).value = -1; });
  }
  if (has("table")) {
    expectError("page", [](auto &a) { a.k.extents[2] += 1; });
    expectError("alignment of rows", [](auto &a) { a.k.strides[2] += 4; });
    expectError("heads", [](auto &a) { a.k.extents[1] = a.v.extents[1] = 4; });
    if (has("v"))
      expectError("heads of v", [](auto &a) { a.v.extents[1] = 6; });
  }
  if (has("starts_q")) {
    expectError("rows of lse", [](auto &a) { a.lse.extents[2] = 5; });
    expectError("alignment of lse",
                [](auto &a) { a.lse.data = static_cast<char *>(a.lse.data) + 2; });
    expectError("lse in one place", [](auto &a) { a.lse.strides[1] = 0; });
    expectError("a batch of tokens", [](auto &a) { a.q.extents[0] = 2; });
  }
  if (GetParam().name == std::string("prefix"))
    expectError("rows of the captured positions", [](auto &a) { a.q.extents[2] += 1; });
  if (GetParam().name == std::string("paged")) {
    LaunchArguments arguments = argumentsOf(shapes[0]);
    arguments.captures[0].tensor.extents[0] = 300; // an element for each token
    expectTheSameError(arguments);
    size_t bytes = 0;
    EXPECT_NE(
        library->workspaceBytes(arguments, bytes)
            .message.find(
                "If the tensor has an element for each token of all sequences, declare it with "
                "an extent of its own"),
        std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, SequenceLauncherTest, testing::ValuesIn(plans),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
