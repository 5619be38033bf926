//===- DriverFaultTest.cpp - Each error of each call of the driver --------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A session does everything that a program does with a GPU. Each call of each function in it is
// made to fail with each error that the driver documents, and with some that it does not. The
// session must end with that error's code and a message that names the call and the remedy, and
// must leave no live object. The next session must succeed.
//
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

#include "backend/Backend.h"
#include "system/File.h"

#include <cstdlib>
#include <set>
#include <sys/stat.h>

using namespace tesela;

namespace {

/// The values of CUresult in cuda.h of CUDA 13.0, and three that it does not have.
constexpr int results[] = {
    1,   2,   3,   4,   5,   6,   7,   8,   34,  36,  46,  100,  101, 102, 200, 201, 202, 205,
    206, 207, 208, 209, 210, 211, 212, 213, 214, 215, 216, 217,  218, 219, 220, 221, 222, 223,
    224, 225, 226, 300, 301, 302, 303, 304, 400, 401, 402, 500,  600, 700, 701, 702, 703, 704,
    705, 708, 709, 710, 711, 712, 713, 714, 715, 716, 717, 718,  719, 720, 721, 800, 801, 802,
    803, 804, 805, 806, 807, 808, 809, 810, 811, 812, 900, 901,  902, 903, 904, 905, 906, 907,
    908, 909, 910, 911, 912, 913, 914, 915, 916, 999, 77,  1234, -1};

constexpr const char *entries[] = {
#define ENTRY(name, parameters) #name,
    TESELA_CUDA_DRIVER_TABLE(ENTRY)
#undef ENTRY
};

/// Failures of these are not reported and change nothing: they give things back, or return texts.
const std::set<std::string> silentEntries = {"cuCtxGetCurrent",
                                             "cuCtxPopCurrent_v2",
                                             "cuDevicePrimaryCtxRelease_v2",
                                             "cuEventDestroy_v2",
                                             "cuGetErrorName",
                                             "cuGetErrorString",
                                             "cuLinkDestroy",
                                             "cuMemFree_v2",
                                             "cuModuleUnload",
                                             "cuStreamDestroy_v2",
                                             "cuThreadExchangeStreamCaptureMode",
                                             "cuUserObjectRelease"};

/// The name in messages: "cuMemAlloc_v2" becomes "cuMemAlloc".
std::string spoken(std::string entry) {
  return entry.ends_with("_v2") ? entry.substr(0, entry.size() - 3) : entry;
}

/// The driver's linker assembles PTX without a ptxas.
Status link(const Device &device) {
  Result<std::shared_ptr<Backend>> backend = createCudaBackend(device);
  if (!backend)
    return backend.error();
  KernelSpecification specification;
  specification.target = {Target::Kind::cuda, 90};
  fake::setCudaFormat(CodeFormat::ptx);
  Result<Artifact> assembled = (*backend)->assemble(fake::artifact(specification), {});
  if (!assembled)
    return assembled.error();
  EXPECT_EQ(assembled->format, CodeFormat::cubin);
  Result<std::shared_ptr<const LoadedCode>> loaded = (*backend)->load(*assembled);
  return loaded ? Status::success() : Status(loaded.error());
}

Status launchAll(const Context &context, const Kernel &kernel, void *stream) {
  Result<CudaProblem> problem = CudaProblem::create(context);
  if (!problem)
    return problem.error();
  LaunchArguments arguments = problem->arguments;
  for (int i = 0; i < 2; ++i)
    if (Status status = kernel.launch(arguments, stream); !status)
      return status;
  Result<size_t> bytes = kernel.workspaceBytes(arguments);
  if (!bytes)
    return bytes.error();
  Result<Buffer> memory = context.allocate(*bytes);
  if (!memory)
    return memory.error();
  arguments.workspace = {memory->data(), memory->size()};
  if (Status status = kernel.launch(arguments, stream); !status)
    return status;
  uint64_t capture = stub::beginCapture(static_cast<CUstream_st *>(stream));
  Status status = kernel.launch(arguments, stream);
  stub::endCapture(static_cast<CUstream_st *>(stream));
  stub::destroyGraph(capture);
  cuda::awaitReleases();
  return status;
}

Status useMemory(const Context &context) {
  Result<Buffer> memory = context.allocate(64);
  if (!memory)
    return memory.error();
  char bytes[64] = {};
  if (Status status = context.copyToDevice(*memory, bytes, sizeof bytes); !status)
    return status;
  if (Status status = context.fill(*memory, 7); !status)
    return status;
  if (Status status = context.copyToHost(bytes, *memory, sizeof bytes); !status)
    return status;
  EXPECT_EQ(bytes[63], 7);
  return context.synchronize();
}

Status session(void *stream, bool links) {
  if (Result<cuda::DriverApi> opened = cuda::DriverApi::open({"libcuda.so.1"}); !opened)
    return opened.error();
  Result<Context> context = cudaContext();
  if (!context)
    return context.error();
  if (Status status = useMemory(*context); !status)
    return status;
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  if (!kernel)
    return kernel.error();
  if (Status status = launchAll(*context, *kernel, stream); !status)
    return status;
  Result<std::vector<double>> times =
      context->measure([&] { return launchAll(*context, *kernel, stream); }, 0, 1, stream);
  if (!times)
    return times.error();
  return links ? link(context->device()) : Status::success();
}

class DriverFaultTest : public CudaTest, public testing::WithParamInterface<const char *> {
protected:
  /// A ptxas that is too old for any PTX is first on PATH.
  static void SetUpTestSuite() {
    Result<TemporaryFolder> made = TemporaryFolder::create();
    ASSERT_TRUE(made.ok());
    folder.emplace(std::move(*made));
    std::string program = folder->path() + "/ptxas";
    ASSERT_TRUE(
        writeFile(program, "#!/bin/sh\necho 'ptxas fatal : Unsupported .version'\nexit 1\n").ok());
    chmod(program.c_str(), 0700);
    path = std::getenv("PATH");
    setenv("PATH", (folder->path() + ":" + path).c_str(), 1);
  }
  static void TearDownTestSuite() {
    setenv("PATH", path.c_str(), 1);
    folder.reset();
  }
  static inline std::optional<TemporaryFolder> folder;
  static inline std::string path;
};

TEST_P(DriverFaultTest, EachErrorOfEachCall) {
  const std::string entry = GetParam();
  bool links = entry.starts_with("cuLink"); // only where needed, because it starts a program
  TestStream stream;
  ASSERT_TRUE(cuda::driver().ok());
  stub::Live before = stub::live();
  stub::reset();
  Status clean = session(stream.get(), links);
  ASSERT_TRUE(clean.ok()) << clean.error().message();
  int calls = stub::callsOf(entry);
  // It is called if cuGraphRetainUserObject fails.
  EXPECT_TRUE(calls > 0 || entry.starts_with("cuGetError") || entry == "cuUserObjectRelease")
      << "no session calls it";
  EXPECT_EQ(stub::live(), before);
  for (int call = 1; call <= calls; ++call) {
    for (int result : results) {
      std::string where =
          "call " + std::to_string(call) + " of " + entry + " gives " + std::to_string(result);
      stub::failCall(entry, call, result);
      Status status = session(stream.get(), links);
      // A session that gets the same addresses again finds their maps (KnownTensorMaps.h), so later
      // sessions may encode fewer maps than the first.
      if (entry == "cuTensorMapEncodeTiled" && call > 1 && !stub::hasFailed()) {
        stub::failCall("", 0, 0);
        continue;
      }
      EXPECT_TRUE(stub::hasFailed()) << where;
      stub::failCall("", 0, 0);
      if (status.ok() && entry == "cuCtxPushCurrent_v2") {
        stub::reclaim(); // without the context nothing can be given back
        continue;
      }
      EXPECT_EQ(stub::live(), before) << where;
      if (silentEntries.contains(entry)) {
        EXPECT_TRUE(status.ok()) << where << ": " << status.error().message();
        continue;
      }
      ASSERT_FALSE(status.ok()) << where;
      const cuda::DriverError &known = cuda::driverError(result);
      bool asksForShared = entry == "cuFuncSetAttribute";
      EXPECT_EQ(status.code(), asksForShared ? Code::unsupported : known.code) << where;
      const std::string &message = status.error().message();
      EXPECT_NE(message.find(spoken(entry) + " failed: "), std::string::npos)
          << where << ": " << message;
      EXPECT_NE(message.find(known.remedy), std::string::npos) << where << ": " << message;
      EXPECT_GT(std::string(known.remedy).size(), 10u);
    }
    Status again = session(stream.get(), links);
    EXPECT_TRUE(again.ok()) << again.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(Entries, DriverFaultTest, testing::ValuesIn(entries),
                         [](const auto &entry) { return std::string(entry.param); });

using DriverAgeTest = CudaTest;

TEST_F(DriverAgeTest, AnOldVersionIsASentence) {
  stub::setVersion(11080);
  Result<cuda::DriverApi> opened = cuda::DriverApi::open({"libcuda.so.1"});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.code(), Code::unsupported);
  EXPECT_EQ(opened.error().message(),
            "libcuda.so.1 is of CUDA 11.8, Tesela needs CUDA 12.0: install NVIDIA's driver 525 or "
            "later, or use the device 'host'");
}

TEST_F(DriverAgeTest, LaunchesOverlapWhereGraphsKnowIt) {
  for (auto [version, overlaps] : {std::pair(12020, false), std::pair(12030, true)}) {
    stub::setVersion(version);
    Result<cuda::DriverApi> opened = cuda::DriverApi::open({"libcuda.so.1"});
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    EXPECT_EQ(opened->overlapsLaunches(), overlaps) << version;
  }
}

TEST_F(DriverAgeTest, AMissingFunctionIsASentence) {
  Result<cuda::DriverApi> opened = cuda::DriverApi::open({TESELA_TEST_OLD_STUB});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.code(), Code::unsupported);
  EXPECT_NE(opened.error().message().find(
                "of CUDA 13.0 has no function cuTensorMapEncodeTiled, Tesela needs CUDA 12.0"),
            std::string::npos)
      << opened.error().message();
}

TEST_F(DriverAgeTest, AnOldGpuIsASentence) {
  stub::setDevices({{"Tesla V100-SXM2-16GB", 7, 0, 80, size_t(16) << 30}, {}});
  Result<Context> context = cudaContext(0);
  ASSERT_FALSE(context.ok());
  EXPECT_EQ(context.code(), Code::unsupported);
  EXPECT_EQ(
      context.error().message(),
      "cuda:0 (Tesla V100-SXM2-16GB) has sm_70, but Tesela's kernels need sm_80 or later: use "
      "another device, or 'host'");
  EXPECT_TRUE(cudaContext(1).ok());
}

TEST_F(DriverAgeTest, AnUnknownGpuIsASentence) {
  stub::setDevices({{"NVIDIA X300", 13, 0, 200, size_t(1) << 40}});
  Result<Context> context = cudaContext();
  ASSERT_TRUE(context.ok()) << context.error().message();
  Result<Kernel> kernel = context->compile(cudaKernelOptions());
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message().find("'sm_130' is not known; choose one of host, sm_80"),
            std::string::npos)
      << kernel.error().message();
  KernelOptions options = cudaKernelOptions();
  options.target = "sm_80";
  EXPECT_TRUE(context->compile(options).ok());
}

TEST_F(DriverAgeTest, NoGpuIsASentence) {
  stub::setDevices({});
  Result<Context> context = cudaContext();
  ASSERT_FALSE(context.ok());
  EXPECT_EQ(context.code(), Code::notFound);
  EXPECT_NE(context.error().message().find("CUDA_VISIBLE_DEVICES"), std::string::npos);
  ContextOptions automatic;
  automatic.diskCache = false;
  Result<Context> host = Context::create(automatic);
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(host->device().target, "host");
}

} // namespace
