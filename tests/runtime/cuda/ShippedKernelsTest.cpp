//===- ShippedKernelsTest.cpp - Kernels shipped with the library ----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"

#include "api/State.h"
#include "assemble/Ptxas.h"
#include "cache/KernelKey.h"
#include "cache/KernelPack.h"

#include <cstdlib>
#include <filesystem>
#include <sys/stat.h>

using namespace tesela;

namespace {

using Origin = KernelInfo::Origin;

/// A machine with sm_90 and without ptxas, and a library that was shipped with one kernel.
class ShippedKernelsTest : public CudaTest {
protected:
  static constexpr const char *variable = "TESELA_SHIPPED_KERNELS";
  static constexpr const char *assembler = "release 13.9, V13.9.1, Build cuda_13.9.r1";

  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::string pack = folder->path() + "/kernels.pack", cache = folder->path() + "/cache";
  std::vector<std::string> logged;
  std::vector<std::string> hits;
  bool diskCache = true;

  void SetUp() override {
    CudaTest::SetUp();
    setenv(variable, pack.c_str(), 1);
  }
  void TearDown() override {
    unsetenv(variable);
    EXPECT_TRUE(Ptxas::use("").ok());
    CudaTest::TearDown();
  }

  static KernelSpecification specification() {
    return *makeSpecification(cudaKernelOptions(), "sm_90");
  }
  std::string key() { return kernelKey(specification(), assembledIdentity("sm_90", assembler)); }

  void ship(const std::string &key,
            const std::string &compiler = compilerVersion(Target::Kind::cuda)) {
    fake::setCudaFormat(CodeFormat::cubin);
    Artifact artifact = fake::artifact(specification());
    Result<std::string> bytes = encodePack(compiler, assembler, {{{key}, "group", artifact}});
    ASSERT_TRUE(bytes.ok());
    ASSERT_TRUE(writeFile(pack, *bytes).ok());
  }

  Result<Context> context() {
    ContextOptions options;
    options.device = "cuda:0";
    options.cacheFolder = cache;
    options.diskCache = diskCache;
    options.log = [this](const std::string &sentence) { logged.push_back(sentence); };
    options.events = [this](const Event &event) {
      if (event.kind == Event::Kind::cacheHit)
        hits.push_back(event.text);
    };
    return Context::create(options);
  }
  KernelInfo use(const Context &context, const KernelOptions &options = cudaKernelOptions()) {
    fake::setCudaFormat(CodeFormat::cubin);
    Result<Kernel> kernel = context.compile(options);
    EXPECT_TRUE(kernel.ok()) << (kernel ? "" : kernel.error().message());
    return kernel ? kernel->info() : KernelInfo();
  }
  Origin originAnew() { return use(*context()).origin; }
};

TEST_F(ShippedKernelsTest, AMachineThatNeverCompiledHasThem) {
  ship(key());
  Result<Context> first = context();
  ASSERT_TRUE(first.ok());
  KernelInfo info = use(*first);
  EXPECT_EQ(info.origin, Origin::package);
  EXPECT_EQ(info.assembler, std::string("ptxas ") + assembler);
  ASSERT_EQ(info.stages.size(), 2u);
  EXPECT_EQ(info.stages[0].first, "cache");
  EXPECT_EQ(first->compileCount(), 0);
  EXPECT_EQ(use(*first).origin, Origin::memoryCache);
  EXPECT_EQ(hits, (std::vector<std::string>{"package", "memory"}));
  EXPECT_TRUE(logged.empty()) << logged.front();
  EXPECT_FALSE(std::filesystem::exists(cache + "/v1")) << "nothing is kept twice";

  Result<Kernel> kernel = first->compile(cudaKernelOptions());
  Result<CudaProblem> problem = CudaProblem::create(*first);
  ASSERT_TRUE(problem.ok());
  EXPECT_TRUE(kernel->launch(problem->arguments).ok());
}

TEST_F(ShippedKernelsTest, WhatIsNotThereIsCompiledAndKept) {
  ship(key());
  KernelOptions other = cudaKernelOptions();
  other.headDimQk = other.headDimV = 128;
  EXPECT_EQ(use(*context(), other).origin, Origin::compiled);
  EXPECT_EQ(use(*context(), other).origin, Origin::diskCache);
  EXPECT_TRUE(logged.empty()) << logged.front();
}

TEST_F(ShippedKernelsTest, TheUsersOwnComeFirst) {
  EXPECT_EQ(originAnew(), Origin::compiled);
  logged.clear();
  ship(key());
  EXPECT_EQ(originAnew(), Origin::diskCache);
}

// Asking a ptxas for its version takes longer than loading a kernel of the package.
TEST_F(ShippedKernelsTest, NoAssemblerIsAskedForThem) {
  ship(key());
  std::string script = folder->path() + "/ptxas", asked = folder->path() + "/asked";
  ASSERT_TRUE(writeFile(script, "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.1'\n"
                                "echo 'Build cuda_13.0.r1'\ntouch " +
                                    asked + "\n")
                  .ok());
  ASSERT_EQ(chmod(script.c_str(), 0700), 0);
  ASSERT_TRUE(Ptxas::use(script).ok());
  Result<Context> only = context();
  EXPECT_EQ(use(*only).origin, Origin::package);
  EXPECT_EQ(use(*only).origin, Origin::memoryCache);
  EXPECT_FALSE(std::filesystem::exists(asked));
  EXPECT_FALSE(std::filesystem::exists(cache)) << "nothing is written either";

  // For other kernels ptxas is asked. Then the folder is searched first, but the package still
  // works.
  KernelOptions other = cudaKernelOptions();
  other.headDimQk = other.headDimV = 128;
  EXPECT_EQ(use(*only, other).origin, Origin::compiled);
  EXPECT_TRUE(std::filesystem::exists(asked));
  EXPECT_EQ(use(*only).origin, Origin::memoryCache);
  EXPECT_EQ(originAnew(), Origin::package);
  EXPECT_TRUE(logged.empty()) << logged.front();
}

TEST_F(ShippedKernelsTest, AnotherGpuHasOthers) {
  ship(kernelKey(specification(), assembledIdentity("sm_80", assembler)));
  EXPECT_EQ(originAnew(), Origin::compiled);
  EXPECT_TRUE(logged.empty()) << logged.front();
}

TEST_F(ShippedKernelsTest, CanBeTurnedOff) {
  ship(key());
  setenv(variable, "", 1);
  EXPECT_EQ(originAnew(), Origin::compiled);
  setenv(variable, pack.c_str(), 1);
  diskCache = false;
  EXPECT_EQ(originAnew(), Origin::compiled);
  EXPECT_TRUE(logged.empty()) << logged.front();
}

TEST_F(ShippedKernelsTest, OnesOfAnotherLibraryAreToldOnce) {
  ship(key(), "tesela of yesterday");
  Result<Context> only = context();
  EXPECT_EQ(use(*only).origin, Origin::compiled);
  KernelOptions other = cudaKernelOptions();
  other.headDimQk = other.headDimV = 128;
  EXPECT_EQ(use(*only, other).origin, Origin::compiled);
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_NE(logged[0].find("tesela of yesterday"), std::string::npos) << logged[0];
  EXPECT_NE(logged[0].find(variable), std::string::npos) << logged[0];
}

TEST_F(ShippedKernelsTest, AFileThatIsNotThereIsTold) {
  EXPECT_EQ(originAnew(), Origin::compiled);
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_NE(logged[0].find(pack), std::string::npos) << logged[0];
}

TEST_F(ShippedKernelsTest, ADamagedKernelIsCompiledAnew) {
  ship(key());
  Result<std::string> bytes = readFile(pack);
  ASSERT_TRUE(bytes.ok());
  bytes->back() ^= 1;
  ASSERT_TRUE(writeFile(pack, *bytes).ok());
  EXPECT_EQ(originAnew(), Origin::compiled);
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_NE(logged[0].find("damaged"), std::string::npos) << logged[0];
  EXPECT_EQ(originAnew(), Origin::diskCache);
}

// The driver is older than the pack's cubins.
TEST_F(ShippedKernelsTest, WhatTheDriverRefusesIsCompiledAnew) {
  ship(key());
  constexpr int invalidImage = 200;
  Result<Context> only = context();
  stub::failCall("cuModuleLoadDataEx", 1, invalidImage);
  EXPECT_EQ(use(*only).origin, Origin::compiled);
  EXPECT_TRUE(stub::hasFailed());
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_NE(logged[0].find("cuModuleLoadDataEx"), std::string::npos) << logged[0];
  EXPECT_EQ(originAnew(), Origin::diskCache);
}

} // namespace
