//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "LauncherCase.h"

#include <charconv>
#include <cstring>
#include <fstream>

namespace tesela {

/// "2*Sk+1", "7", "n".
static VariantExtent parsedExtent(std::string_view text) {
  VariantExtent extent;
  auto number = [](std::string_view digits) {
    int32_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  if (text.find_first_not_of("0123456789") == text.npos)
    return {0, "", number(text)};
  if (size_t star = text.find('*'); star != text.npos) {
    extent.coefficient = number(text.substr(0, star));
    text.remove_prefix(star + 1);
  }
  if (size_t sign = text.find_first_of("+-"); sign != text.npos) {
    extent.offset = number(text.substr(sign + 1)) * (text[sign] == '-' ? -1 : 1);
    text = text.substr(0, sign);
  }
  extent.name = text;
  return extent;
}

static std::vector<VariantParameter> parametersOf(const nlohmann::json &manifest) {
  std::vector<VariantParameter> parameters;
  for (const nlohmann::json &each : manifest["parameters"]) {
    VariantParameter parameter;
    parameter.name = each["name"];
    parameter.type = *parseElementType(each["type"].get<std::string>());
    parameter.isCapture = each.contains("extents");
    for (const std::string &extent : each.value("extents", std::vector<std::string>()))
      parameter.extents.push_back(parsedExtent(extent));
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

Exported::Exported(const Plan &plan, const std::string &bundle) {
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
  options.kernel.algorithm = plan.algorithm;
  options.kernel.bindings = plan.bindings;
  options.targets = {"sm_90"};
  if (!*plan.schedule)
    options.targets.push_back("sm_80");
  options.ptx = true; // the stub finds the parameters' sizes in the PTX
  Result<BundleInfo> info = exportBundle(options, name);
  EXPECT_TRUE(info.ok()) << info.error().message();
  if (!info)
    return;
  manifest = nlohmann::json::parse(std::ifstream(folder / "manifest.json"));
  parameters = parametersOf(manifest);
  library = CLibrary::build(name, manifest, parameters);
}

Exported::~Exported() {
  library.reset();
  std::filesystem::remove_all(folder);
}

void LauncherCase::SetUp() {
  std::unique_ptr<Exported> &mine = exported[GetParam().name];
  if (!mine)
    mine = std::make_unique<Exported>(GetParam());
  folder = mine->folder;
  manifest = mine->manifest;
  parameters = mine->parameters;
  library = mine->library.get();
  ASSERT_TRUE(library);
}

void LauncherCase::TearDown() {
  kernel.reset();
  context.reset();
  if (library)
    library->destroy();
  EXPECT_EQ(stub::live(), stub::Live());
}

void LauncherCase::open(int sm, const std::string &target) {
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
  for (const nlohmann::json &each : manifest["targets"])
    if (each["target"] == target)
      launches = each["launches"];
}

std::vector<CaptureArgument> LauncherCase::capturesOf(const Shape &shape) const {
  std::vector<CaptureArgument> captures;
  auto [what, B, H, Hkv, Sq, Sk, own, bshd, shared] = shape;
  int number = 8;
  for (const VariantParameter &each : parameters) {
    if (!each.isCapture)
      continue;
    Tensor tensor;
    tensor.data = place(number++);
    tensor.type = each.type;
    tensor.rank = int(each.extents.size());
    int64_t stride = 3; // with gaps, because any strides are allowed
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
    captures.push_back({each.name, tensor});
  }
  return captures;
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
    bytes.replace(0, 8, "of zeros"); // read in place of tensors without elements
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

std::vector<std::string> LauncherCase::recorded() {
  std::vector<std::string> all;
  uint64_t workspace = 0; // the address of the first one
  for (const stub::StubLaunch &launch : stub::takeLaunches()) {
    if (launch.kernel == "memset")
      continue; // of the counter; the runtime keeps it at 0 in another way
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

void LauncherCase::expectTheSameLaunches(const LaunchArguments &arguments) {
  void *stream = reinterpret_cast<void *>(2); // the per-thread stream
  Status launched = kernel->launch(arguments, stream);
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  std::vector<std::string> expected = recorded();
  size_t bytes = 0;
  CLibrary::Outcome outcome = library->workspaceBytes(arguments, bytes);
  ASSERT_EQ(outcome.code, 0) << outcome.message;
  void *workspace = bytes ? library->allocate(bytes) : nullptr;
  if (workspace)
    std::memset(workspace, 0xff, bytes); // its contents must not matter
  outcome = library->launch(arguments, stream, {workspace, bytes});
  EXPECT_EQ(outcome.code, 0) << outcome.message;
  EXPECT_EQ(recorded(), expected);
  library->release(workspace);
}

void LauncherCase::expectTheSameError(const LaunchArguments &arguments) {
  Status refused = kernel->launch(arguments);
  stub::takeLaunches();
  char workspace[512];
  CLibrary::Outcome outcome = library->launch(arguments, nullptr, {workspace, 512});
  ASSERT_FALSE(refused.ok()) << "accepted; C says: " << outcome.message;
  EXPECT_EQ(outcome.code, int(refused.code())) << refused.error().message();
  EXPECT_EQ(outcome.message, refused.error().chain().back());
  EXPECT_TRUE(stub::takeLaunches().empty());
}

} // namespace tesela
