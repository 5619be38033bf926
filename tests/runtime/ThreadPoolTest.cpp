//===- ThreadPoolTest.cpp -------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "host/ThreadPool.h"
#include "system/Processors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

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

// Items wait for each other, so `threads` threads must be at work at the same time.
TEST(ThreadPool, APoolAloneHasAllItsThreads) {
  constexpr int threads = 5;
  ThreadPool pool(threads);
  std::atomic<int> arrived = 0;
  ASSERT_TRUE(pool.run(threads, 0,
                       [&](int64_t, void *) {
                         ++arrived;
                         while (arrived < threads)
                           std::this_thread::yield();
                       })
                  .ok());
  EXPECT_EQ(arrived, threads);
}

TEST(ThreadPool, RunsOfTwoPoolsShareTheProcessors) {
  int usable = usableProcessors();
  ThreadPool first(usable), second(usable);
  std::set<std::thread::id> others;
  std::mutex mutex;
  // All threads of the first pool are at work while the second one runs.
  std::atomic<int> arrived = 0;
  ASSERT_TRUE(first
                  .run(usable, 0,
                       [&](int64_t item, void *) {
                         ++arrived;
                         while (arrived < usable)
                           std::this_thread::yield();
                         if (item != 0)
                           return;
                         EXPECT_TRUE(second
                                         .run(1000, 0,
                                              [&](int64_t, void *) {
                                                std::lock_guard lock(mutex);
                                                others.insert(std::this_thread::get_id());
                                              })
                                         .ok());
                         EXPECT_EQ(others.size(), 1u) << "more than the caller's thread";
                       })
                  .ok());
}

TEST(Processors, OfAControlGroup) {
  EXPECT_EQ(processorsOfGroup("max 100000"), std::nullopt);
  EXPECT_EQ(processorsOfGroup("200000 100000"), 2);
  EXPECT_EQ(processorsOfGroup("150000 100000"), 2);
  EXPECT_EQ(processorsOfGroup("5000 100000"), 1);
  EXPECT_EQ(processorsOfGroup(""), std::nullopt);
  EXPECT_EQ(processorsOfGroup("100000 0"), std::nullopt);
  EXPECT_GE(usableProcessors(), 1);
}

// In any of the threads: the run ends, and the pool can be used again.
TEST(ThreadPool, WhatThrowsIsAFailure) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    Status status = pool.run(100, 0, [&](int64_t item, void *) {
      if (item >= round)
        throw std::bad_alloc();
    });
    EXPECT_EQ(status.code(), Code::outOfMemory);
  }
  std::atomic<int> calls = 0;
  EXPECT_TRUE(pool.run(100, 0, [&](int64_t, void *) { ++calls; }).ok());
  EXPECT_EQ(calls, 100);
}

TEST(ThreadPool, ScratchThatDoesNotFitIsAnError) {
  ThreadPool pool(2);
  Status status = pool.run(1, size_t(1) << 60, [](int64_t, void *) { FAIL(); });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::outOfMemory);
  EXPECT_TRUE(pool.run(1, 64, [](int64_t, void *scratch) { EXPECT_NE(scratch, nullptr); }).ok());
}

} // namespace
