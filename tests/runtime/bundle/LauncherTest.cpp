//===- LauncherTest.cpp - The launcher in C against the runtime -----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Dense attention. SequenceLauncherTest.cpp tests sequences and pages.
//
//===----------------------------------------------------------------------===//
#include "LauncherCase.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

using namespace tesela;

namespace {

const Plan plans[] = {
    {"causal", "attention causal() { mask = q >= k }", ElementType::f16, 128, 128},
    {"plain_values", "attention plain_values() { mask = true }", ElementType::bf16, 64, 136},
    {"documents", "attention documents(id: i32[B, Sk]) { mask = id[b, q] == id[b, k] }"},
    {"kept", "attention kept(kept: bool[Sq, Sk]) { mask = kept[q, k] }"},
    // Names defined by captured tensors, one of them by another's extent; a rank above 2.
    {"tables",
     "attention tables(from: i32[H, n, 2*m+1], bias: f32[n], width: i32 = 16, low: f32 = -0.1) {\n"
     "  mask  = from[h, q / 16, k / 16] > 0 || k < m + n\n"
     "  score = max(s + bias[q / 16], low * width)\n}"},
    {"sinks",
     "attention sinks(logit: bf16[H], const window: i32, cap: f32 = 50.0) {\n"
     "  mask = q >= k && q - k < window\n  score = tanh(s / cap) * cap\n  sink = logit[h]\n}",
     ElementType::bf16,
     64,
     64,
     0,
     0,
     "",
     {{"window", 128}}},
    // Query heads share a tile, so their tensor maps have rank 5.
    {"packed", "attention packed(length: i32[B]) { mask = k < length[b] }", ElementType::bf16, 128,
     128, 4, 4096},
    // A launcher without any optional part: one consumer, non-persistent thread blocks.
    {"simple", "attention simple(window: i32 = 100) { mask = q - k < window }", ElementType::bf16,
     64, 64, 0, 0, "persistent = false, consumers = 0, stages = 2, warps = 4, block_m = 64"},
};

class LauncherTest : public LauncherCase {
protected:
  LaunchArguments argumentsOf(const Shape &shape) const {
    const Plan &plan = GetParam();
    auto view = shape.bshd ? Tensor::bshd : Tensor::bhsd;
    auto [what, B, H, Hkv, Sq, Sk, own, bshd, shared] = shape;
    LaunchArguments arguments;
    arguments.q = view(place(1), plan.type, B, H, Sq, plan.headDimQk);
    arguments.k = view(place(2), plan.type, B, Hkv, Sk, plan.headDimQk);
    arguments.v = view(place(3), plan.type, B, Hkv, Sk, plan.headDimV);
    arguments.o = view(place(4), plan.type, B, H, Sq, plan.headDimV);
    arguments.lse = Tensor::contiguous(place(5), ElementType::f32, {B, H, Sq});
    if (shared)
      arguments.k.strides[1] = arguments.v.strides[1] = 0;
    arguments.captures = capturesOf(shape);
    return arguments;
  }
};

TEST_P(LauncherTest, TheSameParameters) {
  std::vector<std::pair<int, std::string>> devices = {{90, "sm_90"}};
  if (!*GetParam().schedule)
    devices = {{90, "sm_90"}, {80, "sm_80"}, {89, "sm_80"}, {120, "sm_80"}};
  for (auto &[sm, target] : devices) {
    open(sm, target);
    if (HasFatalFailure())
      return;
    if (target == "sm_90" && GetParam().queries == 4) {
      EXPECT_NE(launches.dump().find("\"heads\":16"), std::string::npos) << "no map of rank 5";
    }
    for (const Shape &shape : shapes) {
      SCOPED_TRACE(target + ", " + shape.what);
      LaunchArguments arguments = argumentsOf(shape);
      expectTheSameLaunches(arguments);
      arguments.scale = 0.3;
      for (const VariantParameter &each : parameters)
        if (!each.isCapture)
          arguments.scalars.push_back({each.name, each.type == ElementType::i32 ? -7 : 0.7});
      expectTheSameLaunches(arguments);
      // The same tensors as in the previous launch, on both sides.
      arguments.capturesUnchanged = true;
      expectTheSameLaunches(arguments);
      arguments.lse.data = nullptr; // left out
      expectTheSameLaunches(arguments);
      if (HasFailure())
        return;
    }
  }
}

TEST_P(LauncherTest, TheSameSentences) {
  open(90, "sm_90");
  if (HasFatalFailure())
    return;
  const LaunchArguments fits = argumentsOf(shapes[0]);
  using Change = void (*)(LaunchArguments &);
  const std::pair<const char *, Change> changes[] = {
      {"q extent", [](LaunchArguments &a) { a.q.extents[2] = -1; }},
      {"too long", [](LaunchArguments &a) { a.k.extents[2] = int64_t(1) << 31; }},
      {"longest", [](LaunchArguments &a) { a.v.extents[2] = (int64_t(1) << 31) - 4095; }},
      {"batch too large", [](LaunchArguments &a) { a.o.extents[0] = int64_t(1) << 40; }},
      {"head dimension of q", [](LaunchArguments &a) { a.q.extents[3] = 72; }},
      {"head dimension of k", [](LaunchArguments &a) { a.k.extents[3] = 72; }},
      {"head dimension of v", [](LaunchArguments &a) { a.v.extents[3] = 72; }},
      {"head dimension of o", [](LaunchArguments &a) { a.o.extents[3] = 72; }},
      {"batch of k", [](LaunchArguments &a) { a.k.extents[0] = 1; }},
      {"batch of v", [](LaunchArguments &a) { a.v.extents[0] = 1; }},
      {"heads of v", [](LaunchArguments &a) { a.v.extents[1] = 6; }},
      {"length of v", [](LaunchArguments &a) { a.v.extents[2] = 91; }},
      {"heads of o", [](LaunchArguments &a) { a.o.extents[1] = 3; }},
      {"heads", [](LaunchArguments &a) { a.k.extents[1] = a.v.extents[1] = 4; }},
      {"no key heads", [](LaunchArguments &a) { a.k.extents[1] = a.v.extents[1] = 0; }},
      {"no address", [](LaunchArguments &a) { a.q.data = nullptr; }},
      {"no address of o", [](LaunchArguments &a) { a.o.data = nullptr; }},
      {"alignment", [](LaunchArguments &a) { a.k.data = static_cast<char *>(a.k.data) + 8; }},
      {"last stride", [](LaunchArguments &a) { a.v.strides[3] = 2; }},
      {"stride", [](LaunchArguments &a) { a.q.strides[2] = 67; }},
      {"negative stride", [](LaunchArguments &a) { a.q.strides[0] = -64; }},
      {"huge stride", [](LaunchArguments &a) { a.q.strides[0] = int64_t(1) << 62; }},
      {"huge strides together",
       [](LaunchArguments &a) { a.k.strides[0] = a.k.strides[1] = int64_t(3) << 59; }},
      {"results in one place", [](LaunchArguments &a) { a.o.strides[1] = 0; }},
      {"alignment of lse",
       [](LaunchArguments &a) { a.lse.data = static_cast<char *>(a.lse.data) + 2; }},
      {"negative scale", [](LaunchArguments &a) { a.scale = -0.5; }},
      {"scale of 0", [](LaunchArguments &a) { a.scale = 0; }},
      {"infinite scale", [](LaunchArguments &a) { a.scale = HUGE_VAL; }},
      {"scale that is none", [](LaunchArguments &a) { a.scale = NAN; }},
  };
  for (auto [what, change] : changes) {
    SCOPED_TRACE(what);
    LaunchArguments arguments = fits;
    change(arguments);
    expectTheSameError(arguments);
  }
  for (size_t i = 0; i < fits.captures.size(); ++i) {
    auto with = [&](auto change) {
      LaunchArguments arguments = fits;
      change(arguments.captures[i].tensor);
      return arguments;
    };
    const std::string name = fits.captures[i].name;
    SCOPED_TRACE(name);
    bool isOwn = name == "bias"; // the tensor before it defined its extent
    for (int axis = 0; axis < fits.captures[i].tensor.rank; ++axis) {
      bool tells = name == "from" && axis > 0; // defines a name, so any whole number is allowed
      if (!tells || isOwn)
        expectTheSameError(with([&](Tensor &t) { t.extents[axis] += 1; }));
      expectTheSameError(with([&](Tensor &t) { t.extents[axis] = -1; }));
      expectTheSameError(with([&](Tensor &t) { t.extents[axis] = int64_t(1) << 32; }));
    }
    expectTheSameError(with([](Tensor &t) { t.data = nullptr; }));
    expectTheSameError(with([](Tensor &t) { t.strides[0] = int64_t(1) << 62; }));
    if (fits.captures[i].tensor.type != ElementType::boolean)
      expectTheSameError(with([](Tensor &t) { t.data = static_cast<char *>(t.data) + 1; }));
    if (name == "from") // 2*m+1 must be odd
      expectTheSameError(with([](Tensor &t) { t.extents[2] = 4; }));
  }
}

/// Strides that some kernels accept but tensor copies do not. The launch itself reports
/// them.
TEST_P(LauncherTest, StridesThatNoTensorMapTakes) {
  open(90, "sm_90");
  if (HasFatalFailure())
    return;
  using Change = void (*)(LaunchArguments &);
  int refusals = 0;
  for (Change change : std::initializer_list<Change>{
           [](LaunchArguments &a) { a.k.strides[2] = 0; },
           [](LaunchArguments &a) { a.q.strides[1] = 0; },
           [](LaunchArguments &a) { a.v.strides[0] = int64_t(1) << 39; },
           [](LaunchArguments &a) { a.q.strides[1] = int64_t(1) << 38; },
           [](LaunchArguments &a) { a.o.strides[0] = (int64_t(1) << 39) - 8; }}) {
    LaunchArguments arguments = argumentsOf(shapes[0]);
    change(arguments);
    Status status = kernel->launch(arguments);
    size_t bytes = 0;
    ASSERT_EQ(library->workspaceBytes(arguments, bytes).code, 0);
    void *workspace = bytes ? library->allocate(bytes) : nullptr;
    CLibrary::Outcome outcome = library->launch(arguments, nullptr, {workspace, bytes});
    EXPECT_EQ(outcome.code, int(status.code())) << outcome.message;
    EXPECT_EQ(outcome.message, status ? "" : status.error().chain().back());
    refusals += !status.ok();
    library->release(workspace);
  }
  bool hasMaps = launches.dump().find("tensor map") != std::string::npos;
  EXPECT_EQ(refusals > 0, hasMaps);
}

TEST_P(LauncherTest, WhatTheDriverRefuses) {
  open(90, "sm_90");
  if (HasFatalFailure())
    return;
  LaunchArguments arguments = argumentsOf(shapes[0]);
  size_t bytes = 0;
  ASSERT_EQ(library->workspaceBytes(arguments, bytes).code, 0);
  void *workspace = library->allocate(bytes);
  for (const char *entry : {"cuLaunchKernel", "cuCtxPushCurrent_v2"}) {
    stub::failCall(entry, 1, 700);
    CLibrary::Outcome outcome = library->launch(arguments, nullptr, {workspace, bytes});
    EXPECT_EQ(outcome.code, int(Code::driver)) << entry;
    EXPECT_NE(outcome.message.find("failed: the stub was told to give 700 (CUDA_ERROR_700, 700)"),
              std::string::npos)
        << outcome.message;
  }
  if (bytes) {
    CLibrary::Outcome outcome = library->launch(arguments, nullptr, {workspace, bytes - 1});
    EXPECT_EQ(outcome.code, int(Code::invalidArgument));
    EXPECT_NE(outcome.message.find("the launch needs " + std::to_string(bytes) +
                                   " bytes of workspace, it is given " + std::to_string(bytes - 1)),
              std::string::npos)
        << outcome.message;
    outcome = library->launch(arguments, nullptr, {nullptr, bytes});
    EXPECT_NE(outcome.message.find("it is given 0"), std::string::npos) << outcome.message;
    outcome = library->launch(arguments, nullptr, {static_cast<char *>(workspace) + 16, bytes});
    EXPECT_NE(outcome.message.find("a multiple of 256 bytes"), std::string::npos)
        << outcome.message;
  }
  library->release(workspace);
  library->destroy();
  const stub::Live live = stub::live();
  for (const char *entry :
       {"cuInit", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
        "cuCtxPushCurrent_v2", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuMemAlloc_v2",
        "cuMemsetD8_v2", "cuStreamSynchronize"}) {
    stub::failCall(entry, 1, 2);
    EXPECT_EQ(library->create().code, int(Code::outOfMemory)) << entry;
    EXPECT_TRUE(stub::hasFailed()) << entry;
    EXPECT_EQ(stub::live(), live) << entry;
  }
  // The driver returns this if thread blocks need more shared memory than the device has.
  stub::failCall("cuFuncSetAttribute", 1, 1);
  CLibrary::Outcome large = library->create();
  EXPECT_EQ(large.code, int(Code::unsupported));
  EXPECT_NE(large.message.find("bytes of shared memory for each thread block"), std::string::npos)
      << large.message;
  EXPECT_EQ(stub::live(), live);
  EXPECT_EQ(library->create(1).code, int(Code::notFound));
  stub::setDevices({{"stub", 7, 5}});
  CLibrary::Outcome none = library->create();
  EXPECT_EQ(none.code, int(Code::notFound));
  EXPECT_NE(none.message.find("the device is an sm_75, for which"), std::string::npos)
      << none.message;
}

// Each name is a word that the launcher's text uses, too.
TEST(Launcher, CompilesUnderAnyName) {
  for (const char *name : {"call", "check", "choose", "entry", "error", "sm_90"})
    EXPECT_TRUE(Exported(plans[4], name).library) << name;
}

std::string textOf(const std::filesystem::path &path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Fields and checks are those of the template's tensors.
TEST(Launcher, IsMadeOfATemplatesTensors) {
  std::string folder = (std::filesystem::temp_directory_path() / "tesela-XXXXXX").string();
  ASSERT_TRUE(mkdtemp(folder.data()));
  BundleOptions options;
  options.kernel.algorithm = "matmul";
  options.kernel.bindings = {"columns=64"};
  options.targets = {"sm_80", "host"};
  options.ptx = true;
  Result<BundleInfo> info = exportBundle(options, folder);
  ASSERT_TRUE(info.ok()) << info.error().message();
  EXPECT_EQ(info->name, "matmul");
  std::string header = textOf(folder + "/matmul.h"), source = textOf(folder + "/matmul.c");
  for (const char *line :
       {"  matmul_tensor a; /* bf16 [B, H, Sq, Sk] */", "arguments.a = ...",
        "  matmul_tensor b; /* bf16 [B, Hkv, Sk, 64]; H is a multiple of Hkv */",
        "  matmul_tensor o; /* bf16 [B, H, Sq, 64]: written */", "The kernel 'matmul'"})
    EXPECT_NE(header.find(line), std::string::npos) << line << "\n" << header;
  for (const char *other : {"scale", "softmax", " lse", "matmul_tensor q"})
    EXPECT_EQ(header.find(other), std::string::npos) << other << "\n" << header;
  EXPECT_NE(source.find("check_extent(&tensor_b, &c->b, 2, c->a.extents[3], \"a\""),
            std::string::npos);
  std::string command = "cc -std=c99 -Wall -Wextra -Werror -pedantic -fsyntax-only -I " + folder +
                        " " + folder + "/matmul.c";
  EXPECT_EQ(std::system(command.c_str()), 0);
  auto manifest = nlohmann::json::parse(textOf(folder + "/manifest.json"));
  EXPECT_EQ(manifest["tensors"][1], (nlohmann::json{{"name", "b"},
                                                    {"type", "bf16"},
                                                    {"role", "in"},
                                                    {"extents", {"B", "Hkv", "Sk", "64"}},
                                                    {"contiguous", false},
                                                    {"optional", false}}));
  std::filesystem::remove_all(folder);
}

TEST(Launcher, IsNotMadeForDropout) {
  BundleOptions options;
  options.kernel.variantText = plans[0].text;
  options.kernel.headDimQk = options.kernel.headDimV = 64;
  options.kernel.dropout = true;
  options.targets = {"sm_80"};
  options.ptx = true;
  Result<BundleInfo> info = exportBundle(options, "/nowhere");
  ASSERT_EQ(info.code(), Code::unsupported);
  EXPECT_EQ(info.error().message(),
            "the kernel 'causal' has the parameter 'dropout.p', whose name is not valid in C; "
            "a launcher in C does not support this: export the bundle without one (--no-launcher, "
            "BundleOptions::noLauncher), and load it with the library");
}

TEST(Launcher, DoesNotHideAHeader) {
  BundleOptions options;
  options.kernel.variantText = plans[0].text;
  options.kernel.headDimQk = options.kernel.headDimV = 64;
  options.targets = {"sm_90"};
  options.ptx = true;
  options.name = "string";
  Result<BundleInfo> info = exportBundle(options, "/nowhere");
  ASSERT_EQ(info.code(), Code::invalidArgument);
  EXPECT_NE(info.error().message().find("'string.h' would hide"), std::string::npos)
      << info.error().message();
}

INSTANTIATE_TEST_SUITE_P(Plans, LauncherTest, testing::ValuesIn(plans),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
