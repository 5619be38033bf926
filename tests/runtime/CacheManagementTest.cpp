//===- CacheManagementTest.cpp - tesela/Cache.h ---------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Cache.h"

#include "Problem.h"
#include "cache/CacheFolder.h"
#include "system/File.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>

using namespace tesela;

namespace {

class CacheManagementTest : public testing::Test {
protected:
  Result<TemporaryFolder> folder = TemporaryFolder::create();
  std::string root = folder->path() + "/cache";
  Cache cache = *Cache::open(root);

  std::vector<CachedKernel> list() { return cache.list().value(); }

  /// Compiles kernels with head dimensions of v of 8, 16, ..., used 1000, 2000, ... seconds ago.
  void fill(int count) {
    ContextOptions options;
    options.device = "host";
    options.threads = 1;
    options.cacheFolder = root;
    Result<Context> context = Context::create(options);
    ASSERT_TRUE(context.ok());
    for (int i = 1; i <= count; ++i) {
      KernelOptions kernel = Problem().options();
      kernel.headDimV = 8 * i;
      ASSERT_TRUE(context->compile(kernel).ok());
    }
    for (const CachedKernel &kernel : list()) {
      time_t used = time_t(secondsNow() - 1000 * kernel.headDimV / 8);
      timespec times[2] = {{used, 0}, {used, 0}};
      ASSERT_EQ(utimensat(AT_FDCWD, kernel.path.c_str(), times, 0), 0);
    }
  }
};

TEST_F(CacheManagementTest, AFolderThatIsNotThereIsEmpty) {
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(cache.verify()->empty());
  EXPECT_EQ(cache.prune({0, 0})->kernels, 0);
  EXPECT_EQ(cache.clear()->kernels, 0);
  EXPECT_FALSE(std::filesystem::exists(root));
}

TEST_F(CacheManagementTest, AFileIsNoFolder) {
  ASSERT_TRUE(writeFile(root, "").ok());
  EXPECT_EQ(cache.list().code(), Code::inputOutput);
  EXPECT_EQ(cache.clear().code(), Code::inputOutput);
}

TEST_F(CacheManagementTest, AListTellsWhatKernelsAre) {
  fill(3);
  std::vector<CachedKernel> kernels = list();
  ASSERT_EQ(kernels.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(kernels[i].headDimV, 8 * (i + 1)) << "used last first";
    EXPECT_EQ(kernels[i].headDimQk, 32);
    EXPECT_EQ(kernels[i].variantName, "sliding_alibi");
    EXPECT_EQ(kernels[i].target, "host");
    EXPECT_EQ(kernels[i].inputType, ElementType::f32);
    EXPECT_EQ(kernels[i].schedule, "rows = 1");
    EXPECT_EQ(kernels[i].bytes, int64_t(readFile(kernels[i].path)->size()));
    EXPECT_NEAR(double(kernels[i].made), double(secondsNow()), 450);
    EXPECT_NEAR(double(kernels[i].used), double(secondsNow() - 1000 * (i + 1)), 450);
    EXPECT_FALSE(kernels[i].damage.has_value());
  }
}

TEST_F(CacheManagementTest, VerifyReadsWhatAListDoesNot) {
  fill(3);
  std::string first = list().at(0).path, second = list().at(1).path;
  std::string bytes = *readFile(first);
  bytes[bytes.size() - 100] ^= 1;
  ASSERT_TRUE(writeFile(first, bytes).ok());
  ASSERT_TRUE(writeFile(second, "no entry").ok());
  auto damaged = [](const Result<std::vector<CachedKernel>> &kernels) {
    std::vector<std::string> paths;
    for (const CachedKernel &kernel : *kernels)
      if (kernel.damage)
        paths.push_back(kernel.path);
    std::sort(paths.begin(), paths.end());
    return paths;
  };
  EXPECT_EQ(damaged(cache.list()), std::vector<std::string>{second});
  std::vector<std::string> both = {first, second};
  std::sort(both.begin(), both.end());
  EXPECT_EQ(damaged(cache.verify()), both);
  EXPECT_EQ(cache.verify()->size(), 3u);
}

TEST_F(CacheManagementTest, AnEntryUnderAnotherNameIsDamaged) {
  fill(2);
  std::vector<CachedKernel> kernels = list();
  std::filesystem::copy_file(kernels[0].path, kernels[1].path,
                             std::filesystem::copy_options::overwrite_existing);
  for (const CachedKernel &kernel : list())
    EXPECT_EQ(kernel.damage.has_value(), kernel.key == kernels[1].key);
}

TEST_F(CacheManagementTest, PruneToASize) {
  fill(5);
  std::vector<CachedKernel> kernels = list();
  Result<CacheRemoval> removal = cache.prune({.mostBytes = kernels[0].bytes + kernels[1].bytes});
  ASSERT_TRUE(removal.ok());
  EXPECT_EQ(removal->kernels, 3);
  EXPECT_EQ(removal->bytes, kernels[2].bytes + kernels[3].bytes + kernels[4].bytes);
  EXPECT_EQ(removal->bytesLeft, kernels[0].bytes + kernels[1].bytes);
  std::vector<CachedKernel> left = list();
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].key, kernels[0].key);
  EXPECT_EQ(left[1].key, kernels[1].key);
}

TEST_F(CacheManagementTest, PruneToAnAge) {
  fill(5);
  EXPECT_EQ(cache.prune({.mostSecondsOld = 10000})->kernels, 0);
  EXPECT_EQ(cache.prune({.mostSecondsOld = 2500})->kernels, 3);
  EXPECT_EQ(list().size(), 2u);
  EXPECT_EQ(cache.prune({.mostSecondsOld = std::numeric_limits<int64_t>::max()})->kernels, 0);
  EXPECT_EQ(cache.prune({.mostBytes = -1}).code(), Code::invalidArgument);
  EXPECT_EQ(cache.prune({.mostSecondsOld = -1}).code(), Code::invalidArgument);
}

TEST_F(CacheManagementTest, ClearLeavesNothing) {
  fill(3);
  ASSERT_TRUE(writeFile(list().at(0).path + ".abc123", "unfinished").ok());
  Result<CacheRemoval> removal = cache.clear();
  ASSERT_TRUE(removal.ok());
  EXPECT_EQ(removal->kernels, 3);
  EXPECT_EQ(removal->bytesLeft, 0);
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(std::filesystem::is_empty(root));
  fill(1);
  EXPECT_EQ(list().size(), 1u);
}

TEST_F(CacheManagementTest, ANegativeLimitIsRefused) {
  ContextOptions options;
  options.device = "host";
  options.cacheBytes = -1;
  EXPECT_EQ(Context::create(options).code(), Code::invalidArgument);
}

} // namespace
