//===- OnceMapTest.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/OnceMap.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

using namespace tesela;

namespace {

using Map = OnceMap<int>;
using Made = Result<std::shared_ptr<const int>>;

Made number(int value) { return std::make_shared<const int>(value); }
void ignore(int) {}

template <typename Condition> void waitUntil(Condition condition) {
  while (!condition())
    std::this_thread::yield();
}

TEST(OnceMap, KeepsThoseUsedLast) {
  Map map(2);
  std::vector<int> out;
  auto get = [&](const std::string &key) {
    int makings = 0;
    Made made = map.get(
        key, {},
        [&] {
          ++makings;
          return number(key[0]);
        },
        [&](int evicted) { out.push_back(evicted); });
    EXPECT_TRUE(made.ok());
    return makings == 1;
  };
  EXPECT_TRUE(get("a"));
  EXPECT_TRUE(get("b"));
  EXPECT_FALSE(get("a"));
  EXPECT_TRUE(get("c"));
  EXPECT_EQ(out, std::vector<int>{'b'});
  EXPECT_NE(map.find("a"), nullptr);
  EXPECT_EQ(map.find("b"), nullptr);
  EXPECT_TRUE(get("b"));
  EXPECT_EQ(out, (std::vector<int>{'b', 'c'})) << "find() counts as use";
  EXPECT_EQ(map.size(), 2u);
}

/// Five threads request a value that cannot be made. Returns how often making began; all must get
/// the failure.
int makingsOfAFailure() {
  Map map;
  constexpr int others = 4;
  std::atomic<int> asking = 0, makings = 0, failures = 0;
  std::vector<std::thread> threads;
  auto ask = [&] {
    ++asking;
    Made made = map.get("key", [&]() -> Made {
      ++makings;
      waitUntil([&] { return asking == others + 1; });
      std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the others most likely wait by
                                                                  // then
      return Error(Code::unsupported, "no");
    });
    failures += made.code() == Code::unsupported;
  };
  for (int i = 0; i <= others; ++i)
    threads.emplace_back(ask);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, others + 1);
  EXPECT_TRUE(map.get("key", [] { return number(7); }).ok()) << "the next tries again";
  return makings;
}

// Nothing shows that a thread waits, so a thread that the machine delays may make the value itself.
// Then everything is tried again.
TEST(OnceMap, ThoseWhoWaitGetTheFailureAndTheNextTriesAgain) {
  int makings = 0;
  for (int i = 0; i < 100 && makings != 1; ++i)
    makings = makingsOfAFailure();
  EXPECT_EQ(makings, 1);
}

TEST(OnceMap, WhereTheMakerGivesUpOneWhoWaitsTakesOver) {
  Map map;
  std::stop_source cancelled;
  std::atomic<bool> begun = false;
  std::thread maker([&] {
    RequestLimits limits{cancelled.get_token(), std::nullopt};
    Made made = map.get(
        "key", limits,
        [&]() -> Made {
          begun = true;
          waitUntil([&] { return !limits.check().ok(); });
          return limits.check().error();
        },
        ignore);
    EXPECT_EQ(made.code(), Code::cancelled);
  });
  waitUntil([&] { return begun.load(); });
  std::vector<std::thread> others;
  std::atomic<int> makings = 0;
  for (int i = 0; i < 4; ++i)
    others.emplace_back([&] {
      Made made = map.get("key", [&] {
        ++makings;
        return number(7);
      });
      ASSERT_TRUE(made.ok());
      EXPECT_EQ(**made, 7);
    });
  cancelled.request_stop();
  maker.join();
  for (std::thread &thread : others)
    thread.join();
  EXPECT_EQ(makings, 1);
}

TEST(OnceMap, WhoWaitsStopsAtItsDeadlineAndWhereItIsCancelled) {
  Map map;
  std::atomic<bool> begun = false, finish = false;
  std::thread maker([&] {
    EXPECT_TRUE(map.get("key",
                        [&] {
                          begun = true;
                          waitUntil([&] { return finish.load(); });
                          return number(1);
                        })
                    .ok());
  });
  waitUntil([&] { return begun.load(); });
  auto never = []() -> Made { return Error(Code::defect, "another makes it"); };
  RequestLimits late{{}, std::chrono::steady_clock::now() + std::chrono::milliseconds(20)};
  EXPECT_EQ(map.get("key", late, never, ignore).code(), Code::deadlineExceeded);
  std::stop_source cancelled;
  std::thread canceller([&] { cancelled.request_stop(); });
  EXPECT_EQ(map.get("key", {cancelled.get_token(), std::nullopt}, never, ignore).code(),
            Code::cancelled);
  canceller.join();
  finish = true;
  maker.join();
  EXPECT_NE(map.find("key"), nullptr);
}

// Dropping the last handle may happen there, and may wait for a device.
TEST(OnceMap, WhatIsPutOutGoesWithoutTheLock) {
  Map map(1);
  bool isGone = false;
  Made first = map.get("first", [&]() -> Made {
    return std::shared_ptr<const int>(new int(1), [&](const int *value) {
      delete value;
      isGone = true;
      EXPECT_EQ(map.size(), 1u) << "it asks the map, whose lock is not held";
    });
  });
  first = number(0);
  EXPECT_TRUE(map.get("second", [] { return number(2); }).ok());
  EXPECT_TRUE(isGone);
}

TEST(OnceMap, WhatThrowsIsAFailure) {
  Map map;
  EXPECT_EQ(map.get("key", []() -> Made { throw std::bad_alloc(); }).code(), Code::outOfMemory);
  EXPECT_EQ(map.get("key", []() -> Made { throw std::runtime_error("x"); }).code(), Code::defect);
  EXPECT_TRUE(map.get("key", [] { return number(1); }).ok());
}

} // namespace
