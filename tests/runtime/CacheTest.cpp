//===- CacheTest.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "../TestContext.h"
#include "Problem.h"
#include "cache/EntryFormat.h"
#include "system/File.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

using namespace tesela;

namespace {

class CacheTest : public testing::Test {
protected:
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::mutex mutex;
  std::vector<std::string> logged;

  Context context(const std::string &cacheFolder, bool diskCache = true) {
    ContextOptions options = testContextOptions();
    options.threads = 2;
    options.cacheFolder = cacheFolder;
    options.diskCache = diskCache;
    options.log = [this](const std::string &message) {
      std::lock_guard lock(mutex);
      logged.push_back(message);
    };
    Result<Context> created = Context::create(options);
    EXPECT_TRUE(created.ok());
    return *created;
  }
  Context context() { return context(folder->path() + "/cache"); }

  /// Compiles and launches. Returns where the kernel came from.
  KernelInfo::Origin use(const Context &context) {
    Problem problem;
    problem.fill();
    Result<Kernel> kernel = context.compile(problem.options());
    EXPECT_TRUE(kernel.ok()) << (kernel ? "" : kernel.error().message());
    Status launched = kernel->launch(problem.arguments);
    EXPECT_TRUE(launched.ok());
    EXPECT_FALSE(std::isnan(problem.lse[0]));
    return kernel->info().origin;
  }

  std::string onlyEntry() {
    std::vector<std::string> entries;
    for (const auto &entry :
         std::filesystem::recursive_directory_iterator(folder->path() + "/cache"))
      if (entry.is_regular_file())
        entries.push_back(entry.path());
    EXPECT_EQ(entries.size(), 1u) << "an entry, and nothing left beside it";
    return entries.empty() ? "" : entries[0];
  }

  static std::string keyOf(const std::string &path) { return std::filesystem::path(path).stem(); }

  /// The contents of the only entry, without the time at which it was made.
  std::string onlyArtifact() {
    std::string path = onlyEntry();
    Result<Artifact> artifact = decodeEntry(*readFile(path), keyOf(path));
    EXPECT_TRUE(artifact.ok()) << (artifact ? "" : artifact.error().message());
    return artifact ? artifact->serialize() : "";
  }
};

using Origin = KernelInfo::Origin;

TEST_F(CacheTest, MemoryThenDiskThenCompiler) {
  Context first = context();
  EXPECT_EQ(use(first), Origin::compiled);
  EXPECT_EQ(use(first), Origin::memoryCache);
  EXPECT_EQ(first.compileCount(), 1);
  Context second = context();
  EXPECT_EQ(use(second), Origin::diskCache);
  EXPECT_EQ(use(second), Origin::memoryCache);
  EXPECT_EQ(second.compileCount(), 0);
  EXPECT_TRUE(logged.empty()) << logged[0];
}

TEST_F(CacheTest, ThreadsThatAskAtOnceCompileOnce) {
  fake::setCompileMilliseconds(100);
  Context shared = context();
  std::vector<std::thread> threads;
  std::atomic<int> compiled = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { compiled += use(shared) == Origin::compiled; });
  for (std::thread &thread : threads)
    thread.join();
  fake::setCompileMilliseconds(0);
  EXPECT_EQ(shared.compileCount(), 1);
  EXPECT_EQ(compiled, 1);
}

TEST_F(CacheTest, DifferentKernelsAreCompiledApart) {
  Context shared = context();
  Problem problem;
  KernelOptions options = problem.options();
  ASSERT_TRUE(shared.compile(options).ok());
  options.headDimQk = options.headDimV = 64;
  ASSERT_TRUE(shared.compile(options).ok());
  options.schedule = "rows = 2";
  ASSERT_TRUE(shared.compile(options).ok());
  options.variantFile = "renamed";
  ASSERT_TRUE(shared.compile(options).ok());
  EXPECT_EQ(shared.compileCount(), 3);
}

TEST_F(CacheTest, ADamagedEntryIsCompiledAnewAndReplaced) {
  EXPECT_EQ(use(context()), Origin::compiled);
  std::string path = onlyEntry();
  const std::string whole = *readFile(path), artifact = onlyArtifact();
  std::vector<std::string> damages = {
      "",         "x", whole.substr(0, 64), whole.substr(0, 100), whole.substr(0, whole.size() - 1),
      whole + "x"};
  for (size_t at : {size_t(3), size_t(70), whole.size() / 2, whole.size() - 1}) {
    std::string flipped = whole;
    flipped[at] = char(flipped[at] ^ 1);
    damages.push_back(flipped);
  }
  for (const std::string &damage : damages) {
    logged.clear();
    ASSERT_TRUE(writeFile(path, damage).ok());
    EXPECT_EQ(use(context()), Origin::compiled);
    ASSERT_EQ(logged.size(), 1u);
    EXPECT_NE(logged[0].find(path), std::string::npos);
    EXPECT_EQ(onlyArtifact(), artifact);
    EXPECT_EQ(use(context()), Origin::diskCache);
  }
}

TEST_F(CacheTest, AWholeEntryThatDoesNotLoadIsCompiledAnew) {
  EXPECT_EQ(use(context()), Origin::compiled);
  std::string path = onlyEntry(), whole = onlyArtifact();
  Result<Artifact> artifact = Artifact::deserialize(whole);
  ASSERT_TRUE(artifact.ok());
  artifact->code = "no object file";
  ASSERT_TRUE(writeFile(path, encodeEntry(keyOf(path), *artifact, 0)).ok());
  EXPECT_EQ(use(context()), Origin::compiled);
  EXPECT_EQ(onlyArtifact(), whole);
}

TEST_F(CacheTest, AnotherKernelsEntryIsNotUsed) {
  EXPECT_EQ(use(context()), Origin::compiled);
  std::string path = onlyEntry();
  Result<Artifact> artifact = Artifact::deserialize(onlyArtifact());
  ASSERT_TRUE(artifact.ok());
  ASSERT_TRUE(writeFile(path, encodeEntry(std::string(64, '0'), *artifact, 0)).ok());
  EXPECT_EQ(use(context()), Origin::compiled);
  EXPECT_EQ(use(context()), Origin::diskCache);
}

TEST_F(CacheTest, AFolderThatCannotBeWrittenWarnsOnce) {
  ASSERT_TRUE(writeFile(folder->path() + "/file", "").ok());
  Context withoutDisk = context(folder->path() + "/file/cache");
  EXPECT_EQ(use(withoutDisk), Origin::compiled);
  EXPECT_EQ(use(withoutDisk), Origin::memoryCache);
  KernelOptions other = Problem().options();
  other.headDimV = 64;
  ASSERT_TRUE(withoutDisk.compile(other).ok());
  int warnings = 0;
  for (const std::string &message : logged)
    warnings += message.find("TESELA_CACHE_DIR") != std::string::npos;
  EXPECT_EQ(warnings, 1);
}

TEST_F(CacheTest, WithoutTheDiskNothingIsWritten) {
  EXPECT_EQ(use(context(folder->path() + "/cache", false)), Origin::compiled);
  EXPECT_FALSE(std::filesystem::exists(folder->path() + "/cache"));
}

TEST_F(CacheTest, TheFolderComesFromTheEnvironment) {
  setenv("TESELA_CACHE_DIR", (folder->path() + "/cache").c_str(), 1);
  EXPECT_EQ(use(context("")), Origin::compiled);
  onlyEntry();
  unsetenv("TESELA_CACHE_DIR");
}

TEST_F(CacheTest, AFailureIsNotKept) {
  Context shared = context();
  KernelOptions wrong = Problem().options();
  wrong.variantText = "attention broken( {";
  for (int i = 0; i < 2; ++i) {
    Result<Kernel> kernel = shared.compile(wrong);
    ASSERT_FALSE(kernel.ok());
    EXPECT_EQ(kernel.code(), Code::invalidVariant);
  }
  EXPECT_EQ(shared.compileCount(), 2);
}

TEST_F(CacheTest, WithATemplateFolderNothingIsTakenFromTheCache) {
  Context shared = context();
  EXPECT_EQ(use(shared), Origin::compiled);
  useTemplateFolder("/somewhere");
  EXPECT_EQ(use(shared), Origin::compiled);
  EXPECT_EQ(use(shared), Origin::compiled);
  useTemplateFolder("");
  EXPECT_EQ(use(shared), Origin::memoryCache);
}

TEST_F(CacheTest, AKernelOutlivesItsContext) {
  Problem problem;
  problem.fill();
  Result<Kernel> kernel = context().compile(problem.options());
  ASSERT_TRUE(kernel.ok());
  EXPECT_TRUE(kernel->launch(problem.arguments).ok());
}

} // namespace
