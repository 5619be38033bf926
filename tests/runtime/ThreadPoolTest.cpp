//===- ThreadPoolTest.cpp -------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "host/ThreadPool.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace tesela;

namespace {

TEST(ThreadPool, EveryItemRunsOnce) {
  ThreadPool pool(4);
  EXPECT_EQ(pool.size(), 4);
  for (int64_t items : {0, 1, 2, 3, 100, 10000}) {
    std::vector<std::atomic<int>> counts(items);
    ASSERT_TRUE(pool.run(items, 0, [&](int64_t item, void *) { ++counts[item]; }).ok());
    for (std::atomic<int> &count : counts)
      ASSERT_EQ(count, 1);
  }
}

TEST(ThreadPool, ScratchBelongsToOneThreadAndIsAligned) {
  ThreadPool pool(3);
  for (size_t bytes : {size_t(1), size_t(1000), size_t(64)}) {
    std::atomic<int> clashes = 0;
    ASSERT_TRUE(pool.run(3000, bytes,
                         [&](int64_t item, void *scratch) {
                           clashes += reinterpret_cast<uintptr_t>(scratch) % 64 != 0;
                           std::memset(scratch, int(item), bytes);
                           for (size_t i = 0; i < bytes; ++i)
                             clashes += static_cast<unsigned char *>(scratch)[i] != (item & 255);
                         })
                    .ok());
    EXPECT_EQ(clashes, 0);
  }
}

TEST(ThreadPool, RunsFromSeveralThreadsDoNotMix) {
  ThreadPool pool(2);
  std::vector<std::thread> threads;
  std::atomic<int64_t> sum = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        EXPECT_TRUE(pool.run(20, 16, [&](int64_t item, void *) { sum += item; }).ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(sum, 4 * 50 * 190);
}

TEST(ThreadPool, ScratchThatDoesNotFitIsAnError) {
  ThreadPool pool(2);
  Status status = pool.run(1, size_t(1) << 60, [](int64_t, void *) { FAIL(); });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::outOfMemory);
  EXPECT_TRUE(pool.run(1, 64, [](int64_t, void *scratch) { EXPECT_NE(scratch, nullptr); }).ok());
}

} // namespace
