//===- LauncherTest.cpp - The launcher in C against the runtime -----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The same rules are written twice: in runtime/launch, and in the C that an export writes. Here
// both launch what the compiler makes of several variants, on a driver that notes what it is given:
// the kernels, their grids and every byte of their parameters must be the same, and so must be the
// sentences on arguments that do not fit.
//
//===----------------------------------------------------------------------===//
#include "CLibrary.h"
#include "CudaStub.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

using namespace tesela;

namespace {

struct Plan {
  const char *name;
  const char *text;
  ElementType type = ElementType::bf16;
  int headDimQk = 64, headDimV = 64;
  int64_t queries = 0, keys = 0;
  const char *schedule = "";
  std::vector<ScalarArgument> constants = {};
};

std::ostream &operator<<(std::ostream &stream, const Plan &plan) { return stream << plan.name; }

const Plan plans[] = {
    {"causal", "attention causal() { mask = q >= k }", ElementType::f16, 128, 128},
    {"plain_values", "attention plain_values() { mask = true }", ElementType::bf16, 64, 136},
    {"documents", "attention documents(id: i32[B, Sk]) { mask = id[b, q] == id[b, k] }"},
    {"kept", "attention kept(kept: bool[Sq, Sk]) { mask = kept[q, k] }"},
    // Names of a capture's own, one of them told by another's extent; a rank above 2.
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
    // Query heads share a tile: their tensor maps have rank 5.
    {"packed", "attention packed(length: i32[B]) { mask = k < length[b] }", ElementType::bf16, 128,
     128, 4, 4096},
    // A launch without any of what is left out of a launcher: one consumer, blocks of their own.
    {"simple", "attention simple(window: i32 = 100) { mask = q - k < window }", ElementType::bf16,
     64, 64, 0, 0, "persistent = false, consumers = 0, stages = 2, warps = 4, block_m = 64"},
};

struct Shape {
  const char *what;
  int64_t B = 2, H = 6, Hkv = 3, Sq = 70, Sk = 90, own = 5;
  bool bshd = false, shared = false;
};

const Shape shapes[] = {
    {"usual"},
    {"the other layout", 2, 6, 3, 70, 90, 5, true},
    {"shared key heads", 2, 6, 3, 70, 90, 5, false, true},
    {"a head each, of a batch of 1", 1, 4, 4, 300, 300, 19},
    {"one of all", 1, 1, 1, 1, 1, 1, true},
    {"more work than multiprocessors", 3, 64, 8, 400, 400, 25},
    {"no keys", 2, 6, 3, 70, 0, 5},
    {"captures without elements", 2, 6, 3, 70, 90, 0},
    {"no queries", 2, 6, 3, 0, 90, 5},
    {"no batch", 0, 6, 3, 70, 90, 5},
};

/// An address on the device, where nobody looks.
void *place(int number) { return reinterpret_cast<void *>(uint64_t(number) << 36); }

/// A plan's bundle, exported and compiled once for all tests.
struct Exported {
  std::filesystem::path folder;
  std::vector<VariantParameter> parameters;
  std::unique_ptr<CLibrary> library;

  /// `bundle`: its name; empty: the variant's.
  explicit Exported(const Plan &plan, const std::string &bundle = "") {
    std::string name = (std::filesystem::temp_directory_path() / "tesela-XXXXXX").string();
    if (!mkdtemp(name.data()))
      return;
    folder = name;
    BundleOptions options;
    options.name = bundle;
    options.kernel.variantText = plan.text;
    options.kernel.inputType = plan.type;
    options.kernel.headDimQk = plan.headDimQk;
    options.kernel.headDimV = plan.headDimV;
    options.kernel.expectedQueries = plan.queries;
    options.kernel.expectedLength = plan.keys;
    options.kernel.constants = plan.constants;
    options.kernel.schedule = plan.schedule;
    options.targets = {"sm_90"};
    if (!*plan.schedule)
      options.targets.push_back("sm_80");
    options.ptx = true; // in which the driver here finds the parameters' sizes
    Result<BundleInfo> info = exportBundle(options, name);
    EXPECT_TRUE(info.ok()) << info.error().message();
    if (!info)
      return;
    parameters = checkVariant(plan.text, plan.name)->parameters;
    std::erase_if(parameters, [](const VariantParameter &each) { return each.isConstant; });
    library = CLibrary::build(name, info->name, parameters);
  }
  ~Exported() {
    library.reset();
    std::filesystem::remove_all(folder);
  }
};

class LauncherTest : public testing::TestWithParam<Plan> {
protected:
  static inline std::map<std::string, std::unique_ptr<Exported>> exported;
  std::filesystem::path folder;
  std::vector<VariantParameter> parameters;
  CLibrary *library = nullptr;
  std::optional<Context> context;
  std::optional<Kernel> kernel;
  nlohmann::json launches; ///< of the target, from the manifest

  static void TearDownTestSuite() { exported.clear(); }
  void SetUp() override {
    std::unique_ptr<Exported> &mine = exported[GetParam().name];
    if (!mine)
      mine = std::make_unique<Exported>(GetParam());
    folder = mine->folder;
    parameters = mine->parameters;
    library = mine->library.get();
    ASSERT_TRUE(library);
  }
  void TearDown() override {
    kernel.reset();
    context.reset();
    if (library)
      library->destroy();
    EXPECT_EQ(stub::live(), stub::Live());
  }

  /// Both sides on a device of capability `sm`, for which the bundle's `target` is chosen.
  void open(int sm, const std::string &target) {
    stub::reset();
    stub::setDevices({{"stub", sm / 10, sm % 10}});
    stub::recordLaunches();
    ContextOptions options;
    options.device = "cuda";
    options.diskCache = false;
    Result<Context> created = Context::create(options);
    ASSERT_TRUE(created.ok()) << created.error().message();
    context = *created;
    Result<Kernel> loaded = loadKernel(*context, folder.string());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    kernel = *loaded;
    EXPECT_EQ(kernel->info().target, target);
    EXPECT_EQ(kernel->info().origin, KernelInfo::Origin::bundle);
    CLibrary::Outcome made = library->create();
    ASSERT_EQ(made.code, 0) << made.message;
    EXPECT_EQ(library->target(), target);
    std::ifstream file(folder / "manifest.json");
    const nlohmann::json manifest = nlohmann::json::parse(file);
    for (const nlohmann::json &each : manifest["targets"])
      if (each["target"] == target)
        launches = each["launches"];
  }

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
    int number = 8;
    for (const VariantParameter &each : parameters) {
      if (!each.isCapture)
        continue;
      Tensor tensor;
      tensor.data = place(number++);
      tensor.type = each.type;
      tensor.rank = int(each.extents.size());
      int64_t stride = 3; // with gaps: any strides will do
      for (int axis = tensor.rank - 1; axis >= 0; --axis) {
        const VariantExtent &extent = each.extents[axis];
        int64_t value = extent.name == "B"     ? B
                        : extent.name == "H"   ? H
                        : extent.name == "Hkv" ? Hkv
                        : extent.name == "Sq"  ? Sq
                        : extent.name == "Sk"  ? Sk
                                               : own;
        tensor.extents[axis] = extent.coefficient * value + extent.offset;
        tensor.strides[axis] = stride;
        stride *= tensor.extents[axis] + 1;
      }
      arguments.captures.push_back({each.name, tensor});
    }
    return arguments;
  }

  /// The launches that were started, with what lies in memory of the two sides' own as its name.
  std::vector<std::string> recorded() {
    std::vector<std::string> all;
    uint64_t workspace = 0; // the first one's address
    for (const stub::StubLaunch &launch : stub::takeLaunches()) {
      if (launch.kernel == "memset")
        continue; // of the counter, which the runtime keeps at 0 otherwise
      auto told = std::find_if(launches.begin(), launches.end(), [&](const nlohmann::json &each) {
        return each["kernel"] == launch.kernel;
      });
      EXPECT_NE(told, launches.end()) << launch.kernel;
      const nlohmann::json &slots = (*told)["parameters"];
      EXPECT_EQ(slots.size(), launch.parameters.size()) << launch.kernel;
      all.push_back(launch.kernel + " grid " + std::to_string(launch.grid) + " block " +
                    std::to_string(launch.block) + " shared " + std::to_string(launch.sharedBytes) +
                    " stream " + std::to_string(launch.stream));
      for (size_t i = 0; i < std::min(slots.size(), launch.parameters.size()); ++i)
        all.push_back(std::to_string(i) + " " + slots[i].dump() + " " +
                      valueText(slots[i], launch.parameters[i], workspace));
    }
    return all;
  }

  static std::string valueText(const nlohmann::json &slot, std::string bytes, uint64_t &workspace) {
    EXPECT_EQ(slot["bytes"], bytes.size()) << slot;
    std::string kind = slot["kind"];
    uint64_t address = 0;
    if (bytes.size() >= 8)
      std::memcpy(&address, bytes.data(), 8);
    if (kind == "counter") {
      EXPECT_GE(stub::placeOf(address).bytes, 8u) << "the counter lies nowhere";
      EXPECT_EQ(*reinterpret_cast<uint64_t *>(address), 0u) << "the counter is not 0";
      return "a counter";
    }
    stub::Place found =
        kind == "data" || kind == "tensor map" ? stub::placeOf(address) : stub::Place();
    if (found.bytes == 1152 && found.offset == 0 &&
        std::string(reinterpret_cast<char *>(address), 1152) == std::string(1152, '\0')) {
      bytes.replace(0, 8, "of zeros"); // what is read where there are no elements
    } else if (found.bytes) {
      EXPECT_EQ(kind, "data");
      workspace = workspace ? workspace : address;
      return "workspace + " + std::to_string(address - workspace);
    }
    std::string text;
    for (unsigned char byte : bytes)
      text += "0123456789abcdef"[byte >> 4], text += "0123456789abcdef"[byte & 15];
    return text;
  }

  void expectTheSameLaunches(const LaunchArguments &arguments) {
    void *stream = reinterpret_cast<void *>(2); // the thread's own
    Status launched = kernel->launch(arguments, stream);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    std::vector<std::string> expected = recorded();
    size_t bytes = 0;
    CLibrary::Outcome outcome = library->workspaceBytes(arguments, bytes);
    ASSERT_EQ(outcome.code, 0) << outcome.message;
    void *workspace = bytes ? library->allocate(bytes) : nullptr;
    if (workspace)
      std::memset(workspace, 0xff, bytes); // its contents do not matter
    outcome = library->launch(arguments, stream, {workspace, bytes});
    EXPECT_EQ(outcome.code, 0) << outcome.message;
    EXPECT_EQ(recorded(), expected);
    library->release(workspace);
  }

  /// Neither launches, both say the same.
  void expectTheSameError(const LaunchArguments &arguments) {
    Status refused = kernel->launch(arguments);
    stub::takeLaunches();
    char workspace[512];
    CLibrary::Outcome outcome = library->launch(arguments, nullptr, {workspace, 512});
    ASSERT_FALSE(refused.ok()) << "accepted; C says: " << outcome.message;
    EXPECT_EQ(outcome.code, int(refused.code())) << refused.error().message();
    EXPECT_EQ(outcome.message, refused.error().chain().back());
    EXPECT_TRUE(stub::takeLaunches().empty());
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
      // The same tensors as in the launch before, by both.
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
    bool isOwn = name == "bias"; // its extent was told by the tensor before
    for (int axis = 0; axis < fits.captures[i].tensor.rank; ++axis) {
      bool tells = name == "from" && axis > 0; // any number, if whole
      if (!tells || isOwn)
        expectTheSameError(with([&](Tensor &t) { t.extents[axis] += 1; }));
      expectTheSameError(with([&](Tensor &t) { t.extents[axis] = -1; }));
      expectTheSameError(with([&](Tensor &t) { t.extents[axis] = int64_t(1) << 32; }));
    }
    expectTheSameError(with([](Tensor &t) { t.data = nullptr; }));
    expectTheSameError(with([](Tensor &t) { t.strides[0] = int64_t(1) << 62; }));
    if (fits.captures[i].tensor.type != ElementType::boolean)
      expectTheSameError(with([](Tensor &t) { t.data = static_cast<char *>(t.data) + 1; }));
    if (name == "from") // 2*m+1 is odd
      expectTheSameError(with([](Tensor &t) { t.extents[2] = 4; }));
  }
}

/// Strides that are fine for some kernels and nothing for tensor copies: found by the launch
/// itself.
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
  // So says the driver where blocks need more shared memory than the device has.
  stub::failCall("cuFuncSetAttribute", 1, 1);
  CLibrary::Outcome large = library->create();
  EXPECT_EQ(large.code, int(Code::unsupported));
  EXPECT_NE(large.message.find("bytes of shared memory a block"), std::string::npos)
      << large.message;
  EXPECT_EQ(stub::live(), live);
  EXPECT_EQ(library->create(1).code, int(Code::notFound));
  stub::setDevices({{"stub", 7, 5}});
  CLibrary::Outcome none = library->create();
  EXPECT_EQ(none.code, int(Code::notFound));
  EXPECT_NE(none.message.find("the device is an sm_75, for which"), std::string::npos)
      << none.message;
}

// Each is a word that the launcher's text uses, too.
TEST(Launcher, CompilesUnderAnyName) {
  for (const char *name : {"call", "check", "choose", "entry", "error", "sm_90"})
    EXPECT_TRUE(Exported(plans[4], name).library) << name;
}

std::string textOf(const std::filesystem::path &path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Fields and checks are those that the template declares.
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
       {"  matmul_tensor a; /* [B, H, Sq, Sk] */", "arguments.a = ...",
        "  matmul_tensor b; /* [B, Hkv, Sk, 64]; H is a multiple of Hkv */",
        "  matmul_tensor o; /* [B, H, Sq, 64]: written */", "The kernel 'matmul'"})
    EXPECT_NE(header.find(line), std::string::npos) << line << "\n" << header;
  for (const char *other : {"scale", "softmax", " lse", "matmul_tensor q"})
    EXPECT_EQ(header.find(other), std::string::npos) << other << "\n" << header;
  EXPECT_NE(source.find("check_extent(\"b\", &arguments->b, 2, arguments->a.extents[3], \"a\""),
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

TEST(Launcher, TensorsThatItCannotCheckAreASentence) {
  BundleOptions options;
  options.kernel.algorithm = "merge";
  options.kernel.bindings = {"part=f32", "output=bf16"};
  options.targets = {"sm_80"};
  options.ptx = true;
  Result<BundleInfo> info = exportBundle(options, "/nowhere");
  ASSERT_EQ(info.code(), Code::unsupported);
  EXPECT_EQ(
      info.error().message(),
      "the kernel 'merge' has the view 'lse_parts' of rank 3, for which there is no launcher in "
      "C: export it without one (--no-launcher, ExportOptions::noLauncher), and load the bundle "
      "with the library");
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
