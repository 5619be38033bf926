//===- DriverTest.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/DriverApi.h"
#include "driver/NvrtcApi.h"
#include "system/File.h"
#include "tesela/Context.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

TEST(Driver, AMissingLibraryIsASentence) {
  Result<cuda::DriverApi> api = cuda::DriverApi::open({"libabsent.so.1", "libabsent.so.2"});
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.code(), Code::notFound);
  EXPECT_NE(api.error().message().find("libabsent.so.1, libabsent.so.2"), std::string::npos);
  EXPECT_NE(api.error().message().find("use the device 'host'"), std::string::npos);
}

TEST(Driver, ADamagedLibraryIsNotCalledMissing) {
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  ASSERT_TRUE(folder.ok());
  std::string library = folder->path() + "/libcuda.so.1";
  ASSERT_TRUE(writeFile(library, std::string(4096, 'x')).ok());
  Result<cuda::DriverApi> api = cuda::DriverApi::open({"libabsent.so.1", library});
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.code(), Code::notFound);
  const std::string &message = api.error().message();
  EXPECT_NE(message.find(library + ": invalid ELF header"), std::string::npos) << message;
  EXPECT_NE(message.find("use the device 'host'"), std::string::npos) << message;
  EXPECT_EQ(message.find("was found"), std::string::npos) << message;
}

TEST(Driver, ALibraryWithoutTheFunctionsIsTooOld) {
  Result<cuda::DriverApi> api = cuda::DriverApi::open({"libc.so.6"});
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.code(), Code::unsupported);
  EXPECT_NE(
      api.error().message().find("has no function cuDriverGetVersion, Tesela needs CUDA 12.0"),
      std::string::npos)
      << api.error().message();
}

TEST(Driver, AMissingNvrtcIsASentence) {
  Result<cuda::NvrtcApi> api = cuda::NvrtcApi::open({"libabsent.so"});
  ASSERT_FALSE(api.ok());
  EXPECT_NE(api.error().message().find("install NVRTC"), std::string::npos);
}

TEST(Driver, ResultsBecomeSentences) {
  cuda::DriverApi api;
  api.cuGetErrorName = [](int, const char **text) {
    *text = "CUDA_ERROR_OUT_OF_MEMORY";
    return 0;
  };
  api.cuGetErrorString = [](int, const char **text) {
    *text = "out of memory";
    return 0;
  };
  EXPECT_TRUE(api.check(0, "cuMemAlloc").ok());
  Status status = api.check(cuda::errorOutOfMemory, "cuMemAlloc");
  EXPECT_EQ(status.code(), Code::outOfMemory);
  EXPECT_EQ(status.error().message(), "cuMemAlloc failed: out of memory "
                                      "(CUDA_ERROR_OUT_OF_MEMORY); free device memory or make the "
                                      "problem smaller");
  EXPECT_EQ(api.check(12345, "cuX").code(), Code::driver);
}

TEST(Driver, WithoutAGpuTheContextIsTheHost) {
  if (cudaDevices())
    GTEST_SKIP() << "this machine has a GPU";
  Result<Context> automatic = Context::create();
  ASSERT_TRUE(automatic.ok());
  EXPECT_EQ(automatic->device().target, "host");
  ContextOptions options;
  options.device = "cuda";
  Result<Context> gpu = Context::create(options);
  ASSERT_FALSE(gpu.ok());
  EXPECT_EQ(gpu.code(), Code::notFound);
  EXPECT_NE(gpu.error().message().find("'host'"), std::string::npos);
}

TEST(Driver, TheHostDescribesItself) {
  Device host = hostDevice();
  EXPECT_FALSE(host.name.empty());
  EXPECT_GE(host.processors, 1);
  EXPECT_GT(host.memoryBytes, 0);
}

} // namespace
