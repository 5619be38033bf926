//===- CudaCacheTest.cpp - The keys of a GPU's kernels --------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

#include "backend/Backend.h"
#include "system/File.h"

#include <cstdlib>
#include <filesystem>
#include <sys/stat.h>

using namespace tesela;

namespace {

using Origin = KernelInfo::Origin;

/// A cache folder that several "machines" share. Each has its own ptxas, which is a script.
class CudaCacheTest : public CudaTest {
protected:
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";

  void TearDown() override {
    setenv("PATH", path.c_str(), 1);
    CudaTest::TearDown();
  }

  static std::string version(const std::string &release) {
    return "echo 'Cuda compilation tools, release " + release + ", V" + release +
           ".1'; echo 'Build cuda_" + release + ".r1'";
  }
  static constexpr const char *assembles = "/bin/cp \"$3\" \"$5\"; echo 'ptxas info : Used 8 "
                                           "registers'";
  static constexpr const char *isTooOld =
      "echo 'ptxas fatal   : Unsupported .version 8.0; current version is 7.0'; exit 255";

  /// Switches to the machine `name`, whose ptxas prints `version` and does `work`.
  void goTo(const std::string &name, const std::string &version, const std::string &work) {
    std::string bin = folder->path() + "/" + name;
    std::filesystem::create_directories(bin);
    std::string script = "#!/bin/sh\necho \"$1\" >> " + bin + "/calls\n" +
                         "if [ \"$1\" = --version ]; then " + version + "; exit 0; fi\n" + work +
                         "\n";
    ASSERT_TRUE(writeFile(bin + "/ptxas", script).ok());
    ASSERT_EQ(chmod((bin + "/ptxas").c_str(), 0700), 0);
    setenv("PATH", (bin + ":" + path).c_str(), 1);
  }
  /// How often that machine's ptxas was asked for its version.
  size_t questions(const std::string &name) {
    Result<std::string> calls = readFile(folder->path() + "/" + name + "/calls");
    size_t count = 0;
    for (size_t at = 0; calls && (at = calls->find("--version", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }

  /// A process on that machine requests the kernel.
  Result<Kernel> compile() {
    ContextOptions options;
    options.device = "cuda:0";
    options.cacheFolder = folder->path() + "/cache";
    Result<Context> context = Context::create(options);
    if (!context)
      return context.error();
    fake::setCudaFormat(CodeFormat::ptx);
    return context->compile(cudaKernelOptions());
  }
  Origin origin() {
    Result<Kernel> kernel = compile();
    EXPECT_TRUE(kernel.ok()) << (kernel ? "" : kernel.error().message());
    return kernel ? kernel->info().origin : Origin::bundle;
  }
};

TEST_F(CudaCacheTest, MachinesWithTheSameAssemblerShareKernels) {
  goTo("a", version("13.0"), assembles);
  EXPECT_EQ(origin(), Origin::compiled);
  goTo("b", version("13.0"), std::string(assembles) + " # elsewhere, and of another time");
  EXPECT_EQ(origin(), Origin::diskCache);
  goTo("c", version("13.1"), assembles);
  EXPECT_EQ(origin(), Origin::compiled);
  EXPECT_EQ(origin(), Origin::diskCache);
  EXPECT_EQ(questions("c"), 1u) << "a process asks once";
}

TEST_F(CudaCacheTest, TheDriverCountsWhereItAssembles) {
  Device device = (*cudaDevices())[0];
  std::string driver = "driver " + std::to_string((*cuda::driver())->version);
  goTo("a", version("13.0"), assembles);
  {
    std::shared_ptr<Backend> backend = *createCudaBackend(device);
    EXPECT_EQ(backend->codeIdentity(), "sm_90 ptxas release 13.0, V13.0.1, Build cuda_13.0.r1");
    EXPECT_NE(backend->spareIdentity().find(driver), std::string::npos);
  }
  goTo("old", version("11.0"), isTooOld);
  EXPECT_EQ(origin(), Origin::compiled);
  EXPECT_EQ(origin(), Origin::diskCache);
  // Another machine's newer ptxas assembles it instead of the driver.
  goTo("a", version("13.0"), assembles);
  EXPECT_EQ(origin(), Origin::compiled);
}

TEST_F(CudaCacheTest, AnAssemblerWithoutAVersionSharesWithNone) {
  goTo("wrapper", "true", assembles);
  EXPECT_EQ(origin(), Origin::compiled);
  EXPECT_EQ(origin(), Origin::diskCache);
  goTo("other wrapper", "true", assembles);
  EXPECT_EQ(origin(), Origin::compiled);
  // A program that does not run cannot use what others kept, and reports the error itself.
  goTo("broken", "exit 127", "exit 127");
  Result<Kernel> kernel = compile();
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.code(), Code::inputOutput);
  EXPECT_NE(kernel.error().message().find("/broken/ptxas"), std::string::npos);
}

} // namespace
